// SPDX-License-Identifier: MIT
// Connects a second: buckets of each uid and of all, against a clock that the test sets.
#include "rate.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#define SECOND UINT64_C(1000000000)

static struct rate rate;

// How many of n connects at once pass.
static uint32_t passes(uint32_t uid, uint32_t n, uint64_t now_ns)
{
    uint32_t n_passed = 0;

    for (uint32_t i = 0; i < n; i++)
        n_passed += rate_take(&rate, uid, now_ns) == 0;
    return n_passed;
}

Test(rate, a_second_s_worth_at_once_and_then_by_and_by)
{
    rate_set_limit(&rate, 100, 10);
    cr_expect_eq(passes(1000, 50, SECOND), 10);
    cr_expect_eq(rate_take(&rate, 1000, SECOND), -EDQUOT);
    cr_expect_eq(passes(1000, 50, SECOND + SECOND / 10 - 1), 0);
    cr_expect_eq(passes(1000, 50, SECOND + SECOND / 10), 1);
    cr_expect_eq(passes(1000, 50, SECOND + SECOND / 2), 4);
    cr_expect_eq(passes(1000, 50, 9 * SECOND), 10, "it does not grow deeper");
    cr_expect_eq(passes(1001, 50, 9 * SECOND), 10, "everybody has a bucket");
}

Test(rate, all_together)
{
    rate_set_limit(&rate, 25, 10);
    cr_expect_eq(passes(1, 20, SECOND), 10);
    cr_expect_eq(passes(2, 20, SECOND), 10);
    cr_expect_eq(passes(3, 20, SECOND), 5);
    cr_expect_eq(rate_take(&rate, 3, SECOND), -EUSERS);
    // Those 15 refusals of the third took no token of its own.
    cr_expect_eq(passes(3, 20, 2 * SECOND), 10);
    cr_expect_eq(rate.refused, 10 + 10 + 15 + 1 + 10);
}

Test(rate, root_is_counted_and_not_refused)
{
    rate_set_limit(&rate, 5, 5);
    cr_expect_eq(passes(0, 1000, SECOND), 1000);
    cr_expect_eq(passes(7, 10, SECOND), 5, "root takes none of the others' share");
    cr_expect_eq(rate_used_uid(&rate, 0, SECOND), 1000);
    cr_expect_eq(rate_used(&rate, SECOND), 1005);
    cr_expect_eq(rate_used(&rate, SECOND + SECOND / 2), 500 + 3);
    cr_expect_eq(rate_used(&rate, 2 * SECOND), 0);
    cr_expect_eq(rate_used_uid(&rate, 99, SECOND), 0);
}

Test(rate, no_limit)
{
    cr_expect_eq(passes(1, 1000, SECOND), 1000);
    rate_set_limit(&rate, 0, 10);
    cr_expect_eq(passes(2, 1000, SECOND), 10);
    rate_set_limit(&rate, 1005, 0);
    cr_expect_eq(passes(3, 1000, SECOND), 0, "1010 were taken of the 1005");
    cr_expect_eq(passes(3, 1000, 2 * SECOND), 1000);
}

Test(rate, a_lowered_limit_holds_at_once)
{
    rate_set_limit(&rate, 1000, 100);
    cr_expect_eq(passes(1, 100, SECOND), 100);
    rate_set_limit(&rate, 1000, 10);
    cr_expect_eq(passes(1, 10, SECOND), 0);
    cr_expect_eq(passes(1, 10, 2 * SECOND), 0, "90 are still missing");
    cr_expect_eq(passes(1, 20, 11 * SECOND), 10);
}

// More uids than are remembered: the memory is bounded, and the bucket of all holds.
Test(rate, many_users)
{
    uint32_t n_passed = 0;

    rate_set_limit(&rate, 2000, 3);
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t uid = 1; uid <= 4 * RATE_USERS_MAX; uid++)
            n_passed += passes(uid, 1, SECOND + round);
    cr_expect_leq(n_passed, 2000);
    cr_expect_eq(rate.n_users, RATE_USERS_MAX);
}

// Who came last is remembered: leaving and coming back gives nobody a new bucket.
Test(rate, the_oldest_makes_room)
{
    rate_set_limit(&rate, 1000000, 2);
    cr_expect_eq(passes(5, 3, SECOND), 2);
    for (uint32_t uid = 100; uid < 100 + RATE_USERS_MAX - 1; uid++)
        cr_expect_eq(passes(uid, 1, SECOND + uid), 1);
    cr_expect_eq(passes(5, 1, SECOND + 1000), 0, "still known");
    cr_expect_eq(passes(900, 1, SECOND + 2000), 1, "in the place of 5, whose connect was first");
    cr_expect_eq(passes(101, 2, SECOND + 2000), 1, "known");
}

// Against a model that counts in real numbers.
Test(rate, random_walk)
{
    enum { USERS = 5, STEPS = 20000 };
    const double per_uid = 20, in_all = 50;
    double missing[USERS] = {0}, missing_all = 0;
    uint64_t now_ns = SECOND;
    unsigned seed = 3;

    rate_set_limit(&rate, (uint32_t)in_all, (uint32_t)per_uid);
    for (int step = 0; step < STEPS; step++) {
        uint64_t passed_ns = (uint64_t)rand_r(&seed) % (SECOND / 10);
        uint32_t who = (uint32_t)rand_r(&seed) % USERS;
        double passed = (double)passed_ns / (double)SECOND;

        now_ns += passed_ns;
        for (int i = 0; i < USERS; i++)
            missing[i] = missing[i] > passed * per_uid ? missing[i] - passed * per_uid : 0;
        missing_all = missing_all > passed * in_all ? missing_all - passed * in_all : 0;
        for (int i = rand_r(&seed) % 8; i > 0; i--) {
            double room = per_uid - missing[who], room_all = in_all - missing_all;
            if (room > 1 - 1e-6 && room < 1 + 1e-6)
                continue; // too near to tell
            if (room_all > 1 - 1e-6 && room_all < 1 + 1e-6)
                continue;
            int r = rate_take(&rate, 1 + who, now_ns);
            cr_assert_eq(r, room < 1 ? -EDQUOT : room_all < 1 ? -EUSERS : 0, "step %d", step);
            missing[who] += r == 0;
            missing_all += r == 0;
        }
    }
}
