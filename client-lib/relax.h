// SPDX-License-Identifier: MIT
// Waiting without sleeping.
#ifndef CRYPTOD_CLIENT_RELAX_H
#define CRYPTOD_CLIENT_RELAX_H

#include <stdint.h>

#include "clock.h"

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__ARM_ARCH) && __ARM_ARCH >= 7)
    __asm__ volatile("yield" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

// How many times relax() takes about n_us microseconds. A pause takes 10 to 140 cycles, so it is
// measured, once a channel, in order that a spin needs no clock.
static inline uint32_t relax_count(uint32_t n_us)
{
    const uint32_t n_tries = 3, n_turns = 64;
    uint64_t best_ns = UINT64_MAX;

    if (n_us == 0)
        return 0;
    for (uint32_t try = 0; try < n_tries; try++) {
        uint64_t start = clock_now_ns();
        for (uint32_t i = 0; i < n_turns; i++)
            relax();
        uint64_t ns = clock_now_ns() - start;
        if (ns < best_ns)
            best_ns = ns;
    }
    return (uint32_t)((uint64_t)n_us * 1000u * n_turns / (best_ns + 1));
}

#endif
