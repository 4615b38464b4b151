// SPDX-License-Identifier: MIT
// Counters that workers add to and the status reads. Relaxed: a status may be a request behind.
#ifndef CRYPTOD_DAEMON_STATISTICS_H
#define CRYPTOD_DAEMON_STATISTICS_H

#include <stdatomic.h>
#include <stdint.h>

struct statistics {
    _Atomic uint64_t operations; // that succeeded
    _Atomic uint64_t bytes;      // in them
    _Atomic uint64_t errors;
};

static inline void statistics_add(struct statistics *statistics, uint64_t n_bytes)
{
    atomic_fetch_add_explicit(&statistics->operations, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&statistics->bytes, n_bytes, memory_order_relaxed);
}

static inline void statistics_add_error(struct statistics *statistics)
{
    atomic_fetch_add_explicit(&statistics->errors, 1, memory_order_relaxed);
}

static inline uint64_t statistics_get(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

#endif
