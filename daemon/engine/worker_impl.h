// SPDX-License-Identifier: MIT
// The inside of a worker, for worker.c (seats and turns) and worker_pool.c (making and ending)
// alone.
#ifndef CRYPTOD_DAEMON_WORKER_IMPL_H
#define CRYPTOD_DAEMON_WORKER_IMPL_H

#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>

#include "worker.h"

struct worker;

struct worker_seat {
    struct worker *worker;
    struct channel *channel; // a reference
    struct event *bell;
    struct event *tend;             // activated by the main thread
    struct worker_seat *next_awake; // in worker->awake
    bool awake;
};

struct worker {
    struct worker_pool *pool;
    uint32_t index;
    pthread_t thread;
    bool running;
    struct event_base *base;
    struct event *wake; // activated by other threads
    struct verifier *verifier;
    struct worker_seat
        *awake;         // seats whose clients need not ring: their rings are looked at each turn
    uint32_t spin_skip; // sleeps left to do without spinning
    uint32_t spin_skip_next; // how many after the next time that spinning does not help
    _Atomic uint32_t n_seats;
};

struct worker_pool {
    struct worker_settings settings;
    struct fair_queue *queue;
    bool has_one_cpu;
    _Atomic bool stop;
    _Atomic uint64_t idle; // a bit for each worker that sleeps or is about to
    struct worker workers[];
};

// The body of a worker's thread: takes turns until the pool stops. arg: struct worker.
void *worker_main(void *arg);

#endif
