// SPDX-License-Identifier: MIT
// Guarantees that a start that always fails costs little, and that one failure now and then costs
// nobody a wait.
#include "backoff.h"

void backoff_init(struct backoff *backoff)
{
    *backoff = (struct backoff){.delay_ms = BACKOFF_DELAY_MIN_MS};
}

bool backoff_fail(struct backoff *backoff, int64_t now_ms, int64_t ready_ms)
{
    if (ready_ms != 0 && now_ms - ready_ms >= BACKOFF_MINUTE_MS)
        backoff->delay_ms = BACKOFF_DELAY_MIN_MS;
    backoff->failed_ms[backoff->n_failures++ % BACKOFF_FAILURES_MAX] = now_ms;
    // The next place in the ring holds the oldest.
    return backoff->n_failures >= BACKOFF_FAILURES_MAX &&
           now_ms - backoff->failed_ms[backoff->n_failures % BACKOFF_FAILURES_MAX] <
               BACKOFF_MINUTE_MS;
}

uint32_t backoff_take_delay(struct backoff *backoff)
{
    uint32_t delay_ms = backoff->delay_ms;

    backoff->delay_ms = delay_ms < BACKOFF_DELAY_MAX_MS / 2 ? delay_ms * 2 : BACKOFF_DELAY_MAX_MS;
    return delay_ms;
}
