// SPDX-License-Identifier: MIT
// Milliseconds for libevent and for comparisons: of the clock that stands still while the machine
// is suspended.
#ifndef CRYPTOD_DAEMON_TIMER_H
#define CRYPTOD_DAEMON_TIMER_H

#include <event2/event.h>
#include <stdint.h>
#include <time.h>

static inline int64_t timer_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void timer_set(struct event *event, uint32_t ms)
{
    struct timeval tv = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000) * 1000};

    event_add(event, &tv);
}

#endif
