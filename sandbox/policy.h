// SPDX-License-Identifier: MIT
// What a system-call policy is made of: rows with an argument condition and a reason, in tables
// that are data only. policy_common.c holds what any role does, policy_front.c and policy_engine.c
// what one role does. Knows nothing of how a policy is loaded (seccomp.c).
#ifndef CRYPTOD_SANDBOX_POLICY_H
#define CRYPTOD_SANDBOX_POLICY_H

#include <stddef.h>
#include <stdint.h>

#include "sandbox.h"

enum policy_test {
    POLICY_NO_TEST, // ends the list of a row's arguments
    POLICY_EQUAL,   // argument == value
    POLICY_WITHIN,  // no bit of the argument outside value
    POLICY_BARRING, // (argument with the bits `but` cleared) == value
    POLICY_OWN_PID, // argument is the process that loads the policy
};

struct policy_arg {
    enum policy_test test;
    unsigned index; // 0 .. 5
    uint64_t value;
    uint64_t but;
    const char *text; // the condition in words, for people
};

#define POLICY_ARG_EQUAL(i, v)                                                                     \
    {                                                                                              \
        POLICY_EQUAL, (i), (uint64_t)(v), 0, "arg" #i " == " #v                                    \
    }
#define POLICY_ARG_WITHIN(i, v)                                                                    \
    {                                                                                              \
        POLICY_WITHIN, (i), (uint64_t)(v), 0, "arg" #i " within " #v                               \
    }
#define POLICY_ARG_BARRING(i, v, b)                                                                \
    {                                                                                              \
        POLICY_BARRING, (i), (uint64_t)(v), (uint64_t)(b), "arg" #i " == " #v " (" #b " allowed)"  \
    }
#define POLICY_ARG_OWN_PID(i)                                                                      \
    {                                                                                              \
        POLICY_OWN_PID, (i), 0, 0, "arg" #i " == own process"                                      \
    }

enum policy_verdict {
    POLICY_ALLOW,
    POLICY_ERRNO, // fails with `error`
    POLICY_NEVER, // dies, as everything that no row names; the row says why nobody may add it
};

#define POLICY_ARGS_MAX 3

struct policy_rule {
    const char *call; // name; a call that this architecture does not have is left out
    enum policy_verdict verdict;
    int error; // POLICY_ERRNO: positive errno
    struct policy_arg args[POLICY_ARGS_MAX];
    const char *reason;
};

struct policy_table {
    const char *name; // "front"
    const struct policy_rule *rules;
    size_t n_rules;
};

extern const struct policy_table policy_common;
extern const struct policy_table policy_front;
extern const struct policy_table policy_engine;
extern const struct policy_table policy_delay; // SANDBOX_FAULTY_ENGINE's, with the engine's

// Present only in a program built with a sanitizer, whose run-time calls more: else n_rules is 0.
extern const struct policy_table policy_sanitizer;

// The tables that make up a role's policy, or NULL past the last one.
const struct policy_table *policy_role_table(enum sandbox_role role, size_t i);

#endif
