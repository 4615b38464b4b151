// SPDX-License-Identifier: MIT
// Raw clients of a real daemon: any bytes with any descriptors, and what comes back. And a witness:
// a well-behaved client beside them, which must not notice anything. Every function fails the test
// (Criterion) instead of returning an error.
#ifndef CRYPTOD_TESTS_FRONT_RAW_H
#define CRYPTOD_TESTS_FRONT_RAW_H

#include <stddef.h>
#include <stdint.h>

#include "fixture.h"
#include "message.h"
#include "shm.h"

// For daemons with a witness: on a busy machine it must not lose its patience.
#define RAW_PATIENT "lanes.deadline_ms=30000\n"

#define RAW_FDS_MAX 253 // the most that the kernel carries in one packet

// Connected and blocking with a generous limit.
int raw_connect(const struct fixture *f);

// Sends n_bytes with descriptors. false: the daemon has closed already.
bool raw_send(int client, const void *bytes, size_t n_bytes, const int *fds, size_t n_fds);
bool raw_send_message(int client, const struct message *m, const int *fds, size_t n_fds);

// What a right HELLO needs.
struct raw_channel {
    int memory;
    int bell[2]; // [0] stays here, [1] is passed
    struct shm_map map;
};
void raw_channel_make(struct raw_channel *ret);
void raw_channel_free(struct raw_channel *channel);
void raw_hello_fill(struct message *ret);

// connect, HELLO, a good answer: an open channel. The memory and bell[0] stay in *channel.
int raw_open(const struct fixture *f, struct raw_channel *channel);

// The next message, notes of a status left out; must be of that type.
void raw_expect(int client, enum message_type type, struct message *ret);

// The daemon closes this client, whatever it says before.
void raw_expect_closed(int client);

// Waits until the log has at least n lines with both texts (b may be NULL); fails after 10 s.
void raw_wait_log_count(const struct fixture *f, const char *a, const char *b, unsigned n);
unsigned raw_log_count(const struct fixture *f, const char *a, const char *b);

// Waits until a process has n open descriptors, as fixture_proc_count_descriptors() counts them.
void raw_wait_fds(pid_t pid, unsigned n);

// The daemon's totals. Waits until it counts n channels.
void raw_status(const struct fixture *f, struct message_status_summary *ret);
void raw_wait_channels(const struct fixture *f, uint32_t n);

// Runs test(f) in a child of another user; its exit status must be 0.
void raw_run_as(const struct fixture *f, uid_t uid, const gid_t *groups, size_t n_groups,
                int (*test)(const struct fixture *f));

// The witness: the client library with an open channel and a stream in the request lane.
void raw_witness_start(const struct fixture *f);
void raw_witness_check(void); // encrypts through the engine, rightly and without trouble
void raw_witness_stop(void);

#endif
