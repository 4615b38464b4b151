// SPDX-License-Identifier: MIT
// A stream of the library beside one of OpenSSL's: each step of the one is compared with the other.
// Every function here fails the test (Criterion) instead of returning an error.
#ifndef CRYPTOD_TESTS_CLIENT_FLOW_H
#define CRYPTOD_TESTS_CLIENT_FLOW_H

#include "cryptod.h"
#include "fixture.h"
#include "reference.h"

// Configuration for tests that count: a deadline that even a busy machine keeps.
#define CLIENT_PATIENT "lanes.deadline_ms=10000\n"

// Without memory for keystream CTR is in the request lane, as CBC is.
#define CLIENT_REQUESTS_ONLY "limits.slots_per_channel=4\n"

#define CLIENT_FLOW_MOST ((size_t)640 * 1024) // bytes a step

// A daemon as fixture_start() makes it, and an open channel to it; and the end of both.
void client_start(struct fixture *fixture, const char *extra_conf);
void client_finish(struct fixture *fixture);

struct client_flow {
    const struct algorithm_info *info;
    struct reference_random random;
    uint8_t key[ALGORITHM_KEY_MAX];
    uint8_t iv[ALGORITHM_IV_LEN_MAX];
    bool encrypt;
    cryptod_stream *stream;
    EVP_CIPHER_CTX *ctx;
    uint8_t *in, *out, *expected; // CLIENT_FLOW_MOST bytes and a little for alignment
};

void client_flow_init(struct client_flow *flow, uint32_t algorithm, bool encrypt);
void client_flow_fini(struct client_flow *flow);

// The next n bytes of random data, in place or not, at random alignments; compares bytes and place.
void client_flow_step(struct client_flow *flow, size_t n);

// The same, but tells instead of failing: for forked children, where Criterion must not be called.
bool client_flow_step_is_right(struct client_flow *flow, size_t n);

// A new key (key), and a new IV in any case.
void client_flow_restart(struct client_flow *flow, bool key);

// Steps until the stream is in the lane that the daemon offers for it.
void client_flow_enter_lane(struct client_flow *flow);

// Steps of 32 KiB, n of them.
void client_flow_run(struct client_flow *flow, size_t n);

struct cryptod_counters client_counters(void);

// Bytes of this process by any lane but software.
uint64_t client_lane_bytes(void);

// The exit status of a child.
int client_wait(pid_t pid);

#endif
