// SPDX-License-Identifier: MIT
// The list of quarantined pairs, and the deny list: what is in them, whole names only.
#include "quarantine.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "deny_list.h"

Test(quarantine, finds_what_was_added)
{
    char list[256] = "", name[QUARANTINE_NAME_MAX];

    cr_expect_not(quarantine_has(list, "eip93-cbc-aes", "aes-128-cbc"));
    cr_assert_eq(quarantine_add(list, sizeof(list), "eip93-cbc-aes", "aes-128-cbc"), 0);
    cr_assert_eq(quarantine_add(list, sizeof(list), "eip93-cbc-aes", "aes-256-cbc"), 0);
    quarantine_make_name("", name);
    cr_expect_str_eq(name, "-");
    cr_assert_eq(quarantine_add(list, sizeof(list), name, "aes-128-ctr"), 0);
    quarantine_make_name("a driver\twith\x80", name);
    cr_expect_str_eq(name, "a_driver_with_");
    cr_assert_eq(quarantine_add(list, sizeof(list), name, "aes-128-ctr"), 0);
    cr_assert_eq(quarantine_add(list, sizeof(list), name, "aes-128-ctr"), 0);
    cr_expect_str_eq(list, "eip93-cbc-aes aes-128-cbc eip93-cbc-aes aes-256-cbc - aes-128-ctr "
                           "a_driver_with_ aes-128-ctr");
    cr_expect(quarantine_has(list, "eip93-cbc-aes", "aes-256-cbc"));
    cr_expect(quarantine_has(list, "", "aes-128-ctr"));
    cr_expect(quarantine_has(list, "a driver\twith\x80", "aes-128-ctr"));
    cr_expect_not(quarantine_has(list, "eip93-cbc-aes", "aes-128-ctr"));
    cr_expect_not(quarantine_has(list, "eip93-cbc", "aes-128-cbc"));
    cr_expect_not(quarantine_has(list, "aes-128-cbc", "eip93-cbc-aes"), "names are no pairs");
}

Test(quarantine, refuses_what_is_no_name)
{
    char list[64] = "a aes-128-cbc";

    cr_expect_eq(quarantine_add(list, sizeof(list), "", "aes-128-cbc"), -EINVAL);
    cr_expect_eq(quarantine_add(list, sizeof(list), "a b", "aes-128-cbc"), -EINVAL);
    cr_expect_eq(quarantine_add(list, sizeof(list), "a\n", "aes-128-cbc"), -EINVAL);
    cr_expect_str_eq(list, "a aes-128-cbc");
}

Test(quarantine, stays_whole_when_it_is_full)
{
    char list[24] = "";

    cr_assert_eq(quarantine_add(list, sizeof(list), "a", "aes-128-cbc"), 0);
    cr_expect_eq(quarantine_add(list, sizeof(list), "b", "aes-128-cbc"), -ENOSPC);
    cr_expect_str_eq(list, "a aes-128-cbc");
    cr_expect_eq(quarantine_add(list, sizeof(list), "b", "des-cbc"), 0); // 23 bytes in all
    cr_expect_eq(strlen(list), sizeof(list) - 1);
}

Test(quarantine, names_what_hangs)
{
    char hung[128];

    quarantine_get_hung("", hung, sizeof(hung));
    cr_expect_str_eq(hung, "");
    quarantine_get_hung("a aes-128-cbc b hangs hangs aes-128-ctr c hangs", hung, sizeof(hung));
    cr_expect_str_eq(hung, "b c");
    quarantine_get_hung("b hangs cc hangs d hangs", hung, 6);
    cr_expect_str_eq(hung, "b cc", "what does not fit is left out");
}

Test(deny_list, has_whole_names)
{
    const char *list = "cbc-aes-x ctr(aes) -";

    cr_expect(deny_list_has(list, "cbc-aes-x"));
    cr_expect(deny_list_has(list, "ctr(aes)"));
    cr_expect(deny_list_has(list, "-"));
    cr_expect_not(deny_list_has(list, "cbc-aes"));
    cr_expect_not(deny_list_has(list, "aes)"));
    cr_expect_not(deny_list_has(list, ""));
    cr_expect_not(deny_list_has("", "cbc-aes-x"));
}
