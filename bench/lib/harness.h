// SPDX-License-Identifier: MIT
// What the benchmarks share: clocks, paired runs, and the closing line `NAME ratio=R n=N min=..
// max=..`.
#ifndef CRYPTOD_BENCH_HARNESS_H
#define CRYPTOD_BENCH_HARNESS_H

#include <stddef.h>
#include <stdint.h>

#include "cryptod.h"

#define HARNESS_PAIRS_MAX 101

struct harness_pair {
    double a; // whatever is on top of the fraction
    double b;
};

// Seconds, monotonic.
double harness_now(void);

// CPU seconds of this process.
double harness_cpu(void);

// Ends the program with the message and status 1.
_Noreturn void harness_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Runs measure() n times (or as often as the environment variable CRYPTOD_BENCH_PAIRS says) and
// prints one line a pair, then the closing line with the median of a/b.
// Returns the median.
double harness_run(const char *name, size_t n, struct harness_pair (*measure)(void *),
                   void *context);

// An open channel and a stream whose calls go through the request lane (it dies if that does not
// come about).
cryptod_stream *harness_request_stream(enum cryptod_algorithm algorithm, size_t n_bytes);

#endif
