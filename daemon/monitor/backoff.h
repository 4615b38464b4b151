// SPDX-License-Identifier: MIT
// When to start again after a failure, and when to give up: a delay that grows, and a count within
// a minute. Pure: knows no clock and no process.
#ifndef CRYPTOD_DAEMON_BACKOFF_H
#define CRYPTOD_DAEMON_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#define BACKOFF_DELAY_MIN_MS 100u
#define BACKOFF_DELAY_MAX_MS 5000u
#define BACKOFF_FAILURES_MAX 5u
#define BACKOFF_MINUTE_MS    60000

struct backoff {
    int64_t failed_ms[BACKOFF_FAILURES_MAX]; // the latest failures, a ring
    uint32_t n_failures;
    uint32_t delay_ms; // before the next start
};

void backoff_init(struct backoff *backoff);

// Notes a failure at now_ms; ready_ms: since when all was well, 0 if it was not. A minute of health
// makes the delay short again. true if this was the BACKOFF_FAILURES_MAX-th failure within a
// minute.
bool backoff_fail(struct backoff *backoff, int64_t now_ms, int64_t ready_ms);

// The delay before the next start; the one after that is twice as long.
uint32_t backoff_take_delay(struct backoff *backoff);

#endif
