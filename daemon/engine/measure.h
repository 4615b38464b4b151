// SPDX-License-Identifier: MIT
// What 64 KiB cost in each lane, and what the same cost in the session's own process; and what
// follows from such numbers.
#ifndef CRYPTOD_DAEMON_MEASURE_H
#define CRYPTOD_DAEMON_MEASURE_H

#include "backend.h"

#define MEASURE_SIZE 65536u // bytes
#define MEASURE_NONE UINT64_MAX

// The fastest of several, each; MEASURE_NONE: not made.
struct measure {
    uint64_t software_ns;      // OpenSSL, in one thread
    uint64_t request_ns;       // into the shared memory, through the backend, and out again
    uint64_t keystream_ns;     // keystream, made by the backend
    uint64_t keystream_cpu_ns; // what of it was this machine's CPU time
    uint64_t take_ns;          // the session's part: XOR with memory that another CPU wrote
};

// Of what the backend makes (BACKEND_MAKES_*). Takes at most some 40 ms each, or four rounds if
// they are slower; before there are other threads. 0 or a negative errno.
int measure_run(const struct backend_ops *ops, struct backend *backend,
                const struct backend_ops *software_ops, struct backend *software,
                enum algorithm_id algorithm, uint32_t makes, struct measure *ret);

// Whether the request lane gains: it must be faster by a tenth, for the wake-ups that the
// measurement does not see.
bool measure_request_gains(const struct measure *measure);

// Whether the keystream lane gains on a machine with n_cpus: an engine must leave the session more
// than it takes; another CPU of this machine must halve the session's cost, because it costs CPU
// time in all, and must not be slower than the session's own.
bool measure_keystream_gains(const struct measure *measure, uint32_t n_cpus, bool hardware);

#endif
