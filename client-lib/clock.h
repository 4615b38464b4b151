// SPDX-License-Identifier: MIT
// The one clock of the library. clock_gettime() is allowed in every sandbox, but is a system call
// where there is no vdso: keep it off the paths that a successful request takes.
#ifndef CRYPTOD_CLIENT_CLOCK_H
#define CRYPTOD_CLIENT_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_now_ms(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static inline uint64_t clock_now_ns(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// The calling thread's CPU time: a system call everywhere.
static inline uint64_t clock_thread_ns(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
