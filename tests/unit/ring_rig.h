// SPDX-License-Identifier: MIT
// Both sides of a channel in one process: the engine's workers with backend cpu or fault, and a
// client that puts anything it likes into the memory. No front, no sandbox.
#ifndef CRYPTOD_TESTS_RING_RIG_H
#define CRYPTOD_TESTS_RING_RIG_H

#include "channel.h"
#include "worker.h"

struct ring_pool {
    struct worker_pool *workers;
    const struct backend_ops *ops;
    struct backend *backend;
    struct backend *reference; // backend cpu
    struct statistics statistics;
    struct verify_trust trust;
    _Atomic uint32_t n_distrusts;
    _Atomic uint32_t n_faults;
    _Atomic uint32_t n_busy; // how often a worker asked to be looked after
};

struct ring_client {
    struct ring_pool *pool;
    struct shm_map map; // the client's own mapping
    int bell;           // the client's end
    struct channel *channel;
    struct worker_seat *seat;
    uint32_t sequence; // of the next request
};

// Reproducible bytes; another seed, others.
void ring_fill(uint8_t *data, size_t n_bytes, uint64_t seed);

// fault: what backend fault shall do; NULL: backend cpu.
void ring_pool_setup(struct ring_pool *pool, uint32_t n_workers, uint32_t spin_us,
                     const char *fault);
// Without a thread: the test does what the workers would do.
void ring_pool_setup_idle(struct ring_pool *pool);
// The same as the first, with results compared (worker_settings.verify).
void ring_pool_setup_verify(struct ring_pool *pool, uint32_t n_workers, const char *fault,
                            uint32_t verify);
// All clients must be gone. Asserts that all workers end.
void ring_pool_teardown(struct ring_pool *pool);

void ring_client_setup(struct ring_client *client, struct ring_pool *pool, uint32_t uid,
                       uint32_t n_slots, uint32_t n_streams);
void ring_client_teardown(struct ring_client *client);

void ring_client_open(struct ring_client *client, uint32_t stream, enum algorithm_id algorithm,
                      const uint8_t key[ALGORITHM_KEY_MAX]);

// A request that is right in every way, for the next sequence. Not published.
// The slot of the request lane that request number `sequence` uses.
uint32_t ring_client_slot(const struct ring_client *client, uint32_t sequence);

struct shm_request ring_client_make(const struct ring_client *client, uint32_t stream, bool encrypt,
                                    uint32_t n_bytes);

// Writes the request into its slot, publishes it, and rings if the engine sleeps.
void ring_client_submit(struct ring_client *client, const struct shm_request *request);
void ring_client_publish(struct ring_client *client, uint32_t submitted);

// Sleeps on the bell until the request is done (20 s at most); its result.
int ring_client_wait(struct ring_client *client, uint32_t sequence);
bool ring_client_is_done(const struct ring_client *client, uint32_t sequence);

// Opens stream 0 for aes-128-cbc and stream 1 for aes-256-ctr, with one key.
void ring_client_open_two(struct ring_client *client, uint8_t ret_key[ALGORITHM_KEY_MAX]);

// Sends one request and compares what comes back with OpenSSL's; or one through each of the two
// streams.
void ring_client_expect_right(struct ring_client *client, uint32_t stream,
                              enum algorithm_id algorithm, const uint8_t *key, bool encrypt,
                              uint32_t n_bytes);
void ring_client_expect_works(struct ring_client *client, const uint8_t *key);

// Waits (20 s at most) until the engine has found n channels at fault in all.
void ring_pool_wait_faults(struct ring_pool *pool, uint32_t n);

#endif
