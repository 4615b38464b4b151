// SPDX-License-Identifier: MIT
// What a 64 KiB request costs in the request lane, and what the same costs in the session's own
// process.
#ifndef CRYPTOD_DAEMON_MEASURE_H
#define CRYPTOD_DAEMON_MEASURE_H

#include "backend.h"

#define MEASURE_SIZE 65536u // bytes

struct measure {
    uint64_t lane_ns; // into the shared memory, through the backend, and out again; the fastest of
                      // several
    uint64_t software_ns; // OpenSSL, in one thread; the fastest of several
};

// Takes at most some 40 ms, or four requests if they are slower. 0 or a negative errno.
int measure_request(const struct backend_ops *ops, struct backend *backend,
                    const struct backend_ops *software_ops, struct backend *software,
                    enum algorithm_id algorithm, struct measure *ret);

// Whether the lane gains: it must be faster by a tenth, for the wake-ups that the measurement does
// not see.
bool measure_gains(const struct measure *measure);

#endif
