// SPDX-License-Identifier: MIT
// What this process has done. Relaxed atomics: figures for people, nothing is decided by them.
#ifndef CRYPTOD_CLIENT_COUNTERS_H
#define CRYPTOD_CLIENT_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

struct counters {
    _Atomic uint64_t software_bytes;
    _Atomic uint64_t request_operations;
    _Atomic uint64_t request_bytes;
    _Atomic uint64_t keystream_bytes;
    _Atomic uint64_t fallbacks;
    _Atomic uint64_t timeouts;
    _Atomic uint64_t lane_changes;
};

extern struct counters counters_process;

static inline void counters_add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static inline uint64_t counters_read(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

// For a forked child, which starts at 0.
void counters_reset(void);

#endif
