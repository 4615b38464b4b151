// SPDX-License-Identifier: MIT
// A daemon on a thread of the test, for what the real one never does: it refuses, keeps silent,
// answers late or wrongly, fails at a given request, or goes away, on order.
// Every function here fails the test (Criterion) instead of returning an error.
#ifndef CRYPTOD_TESTS_FAKE_DAEMON_H
#define CRYPTOD_TESTS_FAKE_DAEMON_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "message.h"
#include "shm.h"

#define FAKE_CLIENTS 8u

enum fake_answer {
    FAKE_ACCEPT,
    FAKE_REFUSE,
    FAKE_SILENT,  // as long as it is set; then the questions that wait are answered
    FAKE_GARBAGE, // an answer to nothing that was asked; a completion of another sequence
    FAKE_HANG_UP, // closes everything of that client
};

struct fake_client {
    int control; // -1: no client
    int bell;
    struct shm_map map;
    uint32_t collected; // requests
    uint64_t filled;    // a bit a keystream slot that has memory
    struct message waiting[SHM_STREAMS_MAX];
    uint32_t n_waiting;
    uint32_t algorithm[SHM_STREAMS_MAX];
    uint8_t key[SHM_STREAMS_MAX][ALGORITHM_KEY_MAX];
};

struct fake_daemon {
    char folder[64];
    char socket[96];

    // Orders of the test, before the start.
    struct message_hello_reply hello;
    void (*hello_garbage)(struct message *m);        // changes the answer to HELLO; NULL: none
    void (*on_status)(int control, uint64_t serial); // answers STATUS
    void (*on_calibrate)(int control, uint64_t serial, bool measure); // answers CALIBRATE

    // Orders of the test, at any time.
    _Atomic int on_hello;
    _Atomic int on_open;
    _Atomic int on_request; // from request number `request_from` on
    _Atomic uint32_t request_from;
    _Atomic uint32_t false_rings; // to send, one before each completion
    _Atomic bool revoke;          // takes filled keystream slots back, once; then it is false again

    // What has come so far.
    _Atomic uint32_t hellos;
    _Atomic uint32_t opens;
    _Atomic uint32_t answers; // to opens, written
    _Atomic uint32_t closes;
    _Atomic uint32_t requests;   // done or not
    _Atomic uint32_t keystreams; // of them for keystream
    _Atomic uint32_t bells;      // packets
    _Atomic uint32_t revoked;    // keystream slots
    _Atomic uint32_t lost;       // clients that went away
    _Atomic uint32_t turns;      // looks at everything
    _Atomic uint32_t looks;      // at a client's memory, by the test

    int listener;
    pthread_t thread;
    _Atomic bool stop;
    struct fake_client clients[FAKE_CLIENTS];
};

// Fills in the defaults: everything accepted; the request lane for all but ChaCha20, from the first
// byte on, with a deadline of deadline_ms.
void fake_daemon_init(struct fake_daemon *fake, uint32_t deadline_ms);

// Listens and serves. Points $CRYPTOD_SOCKET at it.
void fake_daemon_start(struct fake_daemon *fake);
void fake_daemon_stop(struct fake_daemon *fake);

// The shared memory of the only client.
struct shm_map fake_daemon_map(struct fake_daemon *fake);

// Waits (at most 10 s) until the counter is at least n.
void fake_daemon_wait(_Atomic uint32_t *counter, uint32_t n);

// Waits until the thread has looked at everything once more.
void fake_daemon_settle(struct fake_daemon *fake);

#endif
