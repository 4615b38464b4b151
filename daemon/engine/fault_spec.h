// SPDX-License-Identifier: MIT
// What the fault backend shall do, as the configuration says it. Pure.
//
// A list separated by commas; counts are over all requests that the backend gets (of the algorithm,
// if one is named):
//
//   error_after=N   all requests after the N-th fail with EIO (0: all)
//   error_every=N   each N-th request fails with EIO
//   wrong_every=N   each N-th request gets one flipped bit in its result
//   delay_ms=N      each request takes N milliseconds longer, 60000 at most
//   hang_after=N    all requests after the N-th never come back (0: all); their workers are lost
//   open_error      no key can be opened (EIO)
//   algorithm=NAME  only requests of this algorithm suffer ("aes-128-cbc"); others are served as by
//   backend cpu
//
// "error_every=3,delay_ms=20,algorithm=aes-256-cbc"
#ifndef CRYPTOD_DAEMON_FAULT_SPEC_H
#define CRYPTOD_DAEMON_FAULT_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "algorithm.h"

#define FAULT_NEVER UINT64_MAX

struct fault_spec {
    uint64_t error_after; // FAULT_NEVER: not asked for
    uint64_t error_every; // 0: not asked for
    uint64_t wrong_every; // 0: not asked for
    uint64_t hang_after;  // FAULT_NEVER: not asked for
    uint32_t delay_ms;
    bool open_error;
    const struct algorithm_info *algorithm; // NULL: all
};

// 0 or -EINVAL. The empty text asks for nothing.
int fault_spec_parse(const char *text, struct fault_spec *ret);

#endif
