// SPDX-License-Identifier: MIT
// The process's counters. Must not know who counts.
#include "counters.h"

#include "cryptod.h"

struct counters counters_process;

void counters_reset(void)
{
    atomic_store_explicit(&counters_process.software_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&counters_process.request_operations, 0, memory_order_relaxed);
    atomic_store_explicit(&counters_process.request_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&counters_process.keystream_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&counters_process.fallbacks, 0, memory_order_relaxed);
    atomic_store_explicit(&counters_process.timeouts, 0, memory_order_relaxed);
    atomic_store_explicit(&counters_process.lane_changes, 0, memory_order_relaxed);
}

void cryptod_counters_get(struct cryptod_counters *ret)
{
    *ret = (struct cryptod_counters){
        .software_bytes = counters_read(&counters_process.software_bytes),
        .request_operations = counters_read(&counters_process.request_operations),
        .request_bytes = counters_read(&counters_process.request_bytes),
        .keystream_bytes = counters_read(&counters_process.keystream_bytes),
        .fallbacks = counters_read(&counters_process.fallbacks),
        .timeouts = counters_read(&counters_process.timeouts),
        .lane_changes = counters_read(&counters_process.lane_changes),
    };
}
