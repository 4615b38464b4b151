// SPDX-License-Identifier: MIT
// What the fault backend shall do, as the configuration says it. Pure.
//
// A list separated by commas. What goes wrong:
//
//   error_after=N   all requests after the N-th fail with EIO (0: all)
//   error_every=N   each N-th request fails with EIO
//   wrong_after=N   all requests after the N-th get one flipped bit in their result (0: all)
//   wrong_every=N   each N-th request gets one
//   short=N         nothing after the first N bytes of a result is written, and that is no error
//   delay_ms=N      each request takes N milliseconds longer, 60000 at most
//   jitter_us=N     each request takes up to N microseconds longer, as it happens; 1000000 at most
//   hang_after=N    all requests after the N-th never come back (0: all); their workers are lost
//   hang_ms=N       those that hang_after names come back after N milliseconds
//   open_error      no key can be opened (EIO)
//   open_hangs      whoever opens a key never comes back
//   keys=N          no more than N keys can be open at once (EUSERS)
//
// With which requests (all that is named must hold; the others are served as by backend cpu, and
// not counted above):
//
//   algorithm=NAME  of this algorithm ("aes-128-cbc")
//   if_over=N       of more than N bytes
//   if_size=N       of exactly N bytes
//   if_unaligned    whose input or output is not at a multiple of 16
//   if_chained      that go on where the last request with the same key ended
//
// And how the backend is treated:
//
//   selftest        as a real driver: it must pass the self-test at start
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
    uint64_t wrong_after; // FAULT_NEVER: not asked for
    uint64_t wrong_every; // 0: not asked for
    uint64_t hang_after;  // FAULT_NEVER: not asked for
    uint64_t n_short;     // FAULT_NEVER: not asked for
    uint64_t if_over;
    uint64_t if_size; // 0: any
    uint64_t n_keys;  // FAULT_NEVER: any number
    uint64_t hang_ms; // 0: for ever
    uint64_t jitter_us;
    uint32_t delay_ms;
    bool open_error;
    bool open_hangs;
    bool if_unaligned;
    bool if_chained;
    bool selftest;
    const struct algorithm_info *algorithm; // NULL: all
};

// 0 or -EINVAL. The empty text asks for nothing.
int fault_spec_parse(const char *text, struct fault_spec *ret);

#endif
