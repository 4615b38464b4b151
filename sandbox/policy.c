// SPDX-License-Identifier: MIT
// Which tables make up a role's policy, and the extra one of sanitizer builds.
#include "policy.h"

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// clang-format off
static const struct policy_rule sanitizer_rules[] = {
    {"madvise", POLICY_ALLOW, 0, {{0}}, "sanitizer: its own memory stays out of dumps"},
    {"mmap", POLICY_ALLOW, 0, {POLICY_ARG_WITHIN(2, PROT_READ | PROT_WRITE)}, "sanitizer: its own memory, without reserve"},
    {"sigaltstack", POLICY_ALLOW, 0, {{0}}, "sanitizer: stacks of its signal handlers"},
#if defined(__SANITIZE_THREAD__)
    {"nanosleep", POLICY_ALLOW, 0, {{0}}, "sanitizer: a thread of its own that sleeps"},
    {"sched_yield", POLICY_ALLOW, 0, {{0}}, "sanitizer: its locks"},
#endif
};
// clang-format on

const struct policy_table policy_sanitizer = {"sanitizer", sanitizer_rules,
                                              sizeof(sanitizer_rules) / sizeof(sanitizer_rules[0])};
#else
const struct policy_table policy_sanitizer = {"sanitizer", NULL, 0};
#endif

const struct policy_table *policy_role_table(enum sandbox_role role, size_t i)
{
    static const struct policy_table *const tables[SANDBOX_ROLES][5] = {
        [SANDBOX_FRONT] = {&policy_front, &policy_common, &policy_sanitizer},
        [SANDBOX_ENGINE] = {&policy_engine, &policy_common, &policy_sanitizer},
        [SANDBOX_FAULTY_ENGINE] = {&policy_engine, &policy_delay, &policy_common,
                                   &policy_sanitizer},
    };

    return i < 5 ? tables[role][i] : NULL;
}
