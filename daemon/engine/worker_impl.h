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
    struct event *wake;        // activated by other threads
    struct verifier *verifier; // of the thread that runs now
    struct worker_seat
        *awake;         // seats whose clients need not ring: their rings are looked at each turn
    uint32_t spin_skip; // sleeps left to do without spinning
    uint32_t spin_skip_next; // how many after the next time that spinning does not help
    _Atomic uint32_t n_seats;
    // Odd while a request runs, one more at its end. Whoever moves an odd one on has the rest of
    // the worker: its thread at the end of the request, or the main thread, which gives it to
    // another thread.
    _Atomic uint64_t turn;
    const struct fair_item *item;         // the request
    _Atomic(struct verify_trust *) trust; // of the backend that has it; NULL: none
    // The main thread's, for worker_pool_look():
    uint64_t seen_turn;
    uint32_t n_seen;
};

struct worker_pool {
    struct worker_settings settings;
    struct fair_queue *queue;
    bool has_one_cpu;
    _Atomic bool stop;
    _Atomic uint64_t idle;     // a bit for each worker that sleeps or is about to
    _Atomic bool is_watched;   // worker_pool_look() comes again without a worker's asking
    pthread_mutex_t replacing; // held while a lost thread's item is looked at
    uint32_t n_lost;
    pthread_t lost[WORKER_LOST_MAX]; // threads that were replaced; they may come back and end
    struct worker workers[];
};

// The body of a worker's thread: takes turns until the pool stops, or until it comes back from a
// request and finds itself replaced. arg: struct worker.
void *worker_main(void *arg);

#endif
