// SPDX-License-Identifier: MIT
// The log lines about clients are limited, and what was left out is told.
#include "complaint.h"

#include <criterion/criterion.h>

Test(front_complaint, a_second_has_so_many_lines)
{
    struct complaint complaint = {0};
    uint64_t n_dropped;

    for (unsigned i = 0; i < COMPLAINTS_PER_SECOND; i++) {
        n_dropped = 99;
        cr_assert(complaint_allow(&complaint, 1000, &n_dropped));
        cr_assert_eq(n_dropped, 0);
    }
    for (int i = 0; i < 100; i++)
        cr_assert_not(complaint_allow(&complaint, 1000, &n_dropped));
    cr_assert(complaint_allow(&complaint, 1001, &n_dropped));
    cr_assert_eq(n_dropped, 100);
    cr_assert(complaint_allow(&complaint, 1001, &n_dropped));
    cr_assert_eq(n_dropped, 0, "told once");
}

Test(front_complaint, seconds_do_not_add_up)
{
    struct complaint complaint = {0};
    uint64_t n_dropped;

    cr_assert(complaint_allow(&complaint, 5, &n_dropped));
    for (unsigned i = 0; i < COMPLAINTS_PER_SECOND; i++)
        cr_assert(complaint_allow(&complaint, 500, &n_dropped));
    cr_assert_not(complaint_allow(&complaint, 500, &n_dropped));
}
