// SPDX-License-Identifier: MIT
// When the monitor starts roles again, and when it gives up.
#include "backoff.h"

#include <criterion/criterion.h>

#define MINUTE 60000

Test(backoff, delay_grows_to_its_limit)
{
    static const unsigned expected[] = {100, 200, 400, 800, 1600, 3200, 5000, 5000};
    struct backoff b;

    backoff_init(&b);
    for (unsigned i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        cr_expect_eq(backoff_take_delay(&b), expected[i]);
}

Test(backoff, minute_of_health_makes_the_delay_short_again)
{
    struct backoff b;

    backoff_init(&b);
    backoff_fail(&b, 1000, 1);
    backoff_take_delay(&b);
    cr_expect_eq(backoff_fail(&b, 1000 + MINUTE, 1001), false);
    cr_expect_eq(backoff_take_delay(&b), 200, "a millisecond less than a minute");
    backoff_fail(&b, 1001 + 2 * MINUTE, 1001 + MINUTE);
    cr_expect_eq(backoff_take_delay(&b), 100);
    backoff_fail(&b, 10 * MINUTE, 0);
    cr_expect_eq(backoff_take_delay(&b), 200, "time without health does not count");
}

Test(backoff, fifth_failure_within_a_minute_is_too_many)
{
    struct backoff b;

    backoff_init(&b);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(backoff_fail(&b, 5 + i, 0), false);
    cr_expect_eq(backoff_fail(&b, 4 + MINUTE, 0), true);
}

Test(backoff, five_failures_over_more_than_a_minute_are_not)
{
    struct backoff b;

    backoff_init(&b);
    for (int i = 0; i < 100; i++)
        cr_expect_eq(backoff_fail(&b, (int64_t)i * MINUTE / 4, 0), false, "failure %d", i);
    backoff_init(&b);
    for (int i = 0; i < 100; i++)
        cr_expect_eq(backoff_fail(&b, (int64_t)i * (MINUTE / 4 - 1), 0), i >= 4, "failure %d", i);
}
