// SPDX-License-Identifier: MIT
// Which tables make up a role's policy, and the extra one of sanitizer builds.
#include "policy.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// clang-format off
static const struct policy_rule sanitizer_rules[] = {
    {"madvise", POLICY_ALLOW, 0, {{0}}, "sanitizer: its own memory stays out of dumps"},
    {"sigaltstack", POLICY_ALLOW, 0, {{0}}, "sanitizer: stacks of its signal handlers"},
};
// clang-format on

const struct policy_table policy_sanitizer = {"sanitizer", sanitizer_rules,
                                              sizeof(sanitizer_rules) / sizeof(sanitizer_rules[0])};
#else
const struct policy_table policy_sanitizer = {"sanitizer", NULL, 0};
#endif

const struct policy_table *policy_role_table(enum sandbox_role role, size_t i)
{
    const struct policy_table *const tables[POLICY_TABLES_MAX] = {
        role == SANDBOX_ENGINE ? &policy_engine : &policy_front,
        &policy_common,
        &policy_sanitizer,
    };

    return i < POLICY_TABLES_MAX ? tables[i] : NULL;
}
