// SPDX-License-Identifier: MIT
// What an operation of each size costs in each lane, and in the session's own process. Knows
// nothing of what is decided by it, nor of rows, messages to anybody or the main loop.
//
// Threads: a bench is used by the thread that made it, which may be any.
#ifndef CRYPTOD_DAEMON_MEASURE_H
#define CRYPTOD_DAEMON_MEASURE_H

#include <stdatomic.h>

#include "backend.h"
#include "message_calibration.h"

#define MEASURE_NONE MESSAGE_NOT_MEASURED

// Wall clock: the fastest of several (TAKE: the median). CPU time: the mean without the
// worst quarter.
struct measure_table {
    uint64_t wake_ns; // a bell's way to another thread and back
    uint64_t wake_cpu_ns;
    struct message_costs costs[MESSAGE_COST_COUNT]; // request: one wake-up included
};

// Nothing measured yet.
void measure_table_clear(struct measure_table *table);

struct measure_bench;

struct measure_subject {
    const struct backend_ops *ops;
    struct backend *backend;
    const struct backend_ops *software_ops; // what stands for the session's own OpenSSL
    struct backend *software;
    enum algorithm_id algorithm;
    uint32_t makes;     // BACKEND_MAKES_* bits: what of it is measured
    const char *driver; // its name; unchanged as long as it is measured
};

struct measure_limits {
    uint64_t until_ns;             // CLOCK_MONOTONIC: no operation begins later
    const _Atomic bool *cancelled; // the same, at once
    void (*on_size)(void *user);   // a size is done with, measured or not: MESSAGE_SIZES times
    void *user;
};

uint64_t measure_now_ns(void);

// Memory, and the cost of a wake-up. bell: both ends of a SOCK_SEQPACKET pair,
// blocking; the caller's, nobody else's meanwhile. Takes some 20 ms. 0 or a negative errno.
int measure_bench_new(const int bell[2], struct measure_bench **ret);

// NULL is allowed.
void measure_bench_free(struct measure_bench *bench);

// Measures one algorithm in one backend. What the time did not suffice for at least two rounds of
// is MEASURE_NONE. Takes until limits->until_ns and one operation longer at most, and far less if
// everything is fast. 0, or the negative errno of the first operation that failed.
int measure_run(struct measure_bench *bench, const struct measure_subject *subject,
                const struct measure_limits *limits, struct measure_table *ret);

#endif
