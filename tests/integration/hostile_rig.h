// SPDX-License-Identifier: MIT
// A real daemon, a well-behaved transfer through it that must not notice anything, and a client
// that does what it likes with its memory and its sockets. Every function fails the test
// (Criterion) instead of returning an error.
#ifndef CRYPTOD_TESTS_HOSTILE_RIG_H
#define CRYPTOD_TESTS_HOSTILE_RIG_H

#include "front_raw.h"

#define HOSTILE_SLOTS   8u // four of the request lane, four for keystream
#define HOSTILE_STREAMS 4u

struct hostile_progress; // of the transfer, in memory that both processes see

struct hostile_rig {
    struct fixture fixture;
    pid_t front, engine;
    unsigned n_front, n_engine; // descriptors, with the transfer
    pid_t transfer;             // a process of its own
    struct hostile_progress *progress;
};

// Starts the daemon (extra_conf: beside RAW_PATIENT; NULL: nothing) and the transfer: streams in
// the request lane and in the keystream lane, one after the other, each byte compared with
// OpenSSL's.
void hostile_setup(struct hostile_rig *rig, const char *extra_conf);

// The transfer has gone on since this call, in both lanes, rightly, without having been disturbed
// ever.
void hostile_check(struct hostile_rig *rig);

// The same; and front and engine are the same processes as at the start, and have the same number
// of descriptors.
void hostile_check_all(struct hostile_rig *rig);

// With the same, and stops everything.
void hostile_teardown(struct hostile_rig *rig);

// ---------------------------------------------------------------- a client

struct hostile_client {
    int control;
    int bell; // our end
    int memory;
    struct shm_map map;
    uint32_t sequence;      // of the next request
    uint32_t n_requests[2]; // so far, by lane: each has four slots, which take turns
};

// Ours to pass, and ours to keep: memory of HOSTILE_SLOTS and a bell. ret_bell: the engine's end.
void hostile_client_make(struct hostile_client *client, int *ret_bell);

// With an open channel.
void hostile_client_open(struct hostile_client *client, const struct hostile_rig *rig);

// Closes what is still open (-1: is not).
void hostile_client_close(struct hostile_client *client);

// Leaves a key of zeroes, and waits for the answer, which must be yes.
void hostile_client_open_stream(struct hostile_client *client, uint32_t stream, uint32_t algorithm);

// A request that is right in every way: request lane (aes-128-cbc, stream 0), or keystream
// (aes-128-ctr, stream 1).
struct shm_request hostile_client_make_request(const struct hostile_client *client, bool keystream);

// Puts it into the ring, publishes it, and rings in any case.
void hostile_client_submit(struct hostile_client *client, const struct shm_request *request);

// Publishes an index, and rings.
void hostile_client_publish(struct hostile_client *client, uint32_t submitted);

// Waits for the last request, which must be done, and well.
void hostile_client_wait(struct hostile_client *client);

// The same of whatever may become of it: false if the daemon has closed the connection, or the
// request is still not there after a while.
bool hostile_client_wait_or_end(struct hostile_client *client);

#endif
