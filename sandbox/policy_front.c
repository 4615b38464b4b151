// SPDX-License-Identifier: MIT
// The system calls of front alone: it takes in clients on a socket that it was given. It can make
// no socket.
#include "policy.h"

// clang-format off
static const struct policy_rule rules[] = {
    {"accept4", POLICY_ALLOW, 0, {{0}}, "takes in a client"},
    {"getpeername", POLICY_ALLOW, 0, {{0}}, "a bell must be connected"},

    {"open", POLICY_NEVER, 0, {{0}}, "no file by name"},
    {"openat", POLICY_NEVER, 0, {{0}}, "no file by name"},
    {"accept", POLICY_NEVER, 0, {{0}}, "descriptors are close-on-exec from the start"},
    {"socket", POLICY_NEVER, 0, {{0}}, "who parses clients' bytes makes no socket"},
    {"socketpair", POLICY_NEVER, 0, {{0}}, "who parses clients' bytes makes no socket"},
    {"bind", POLICY_NEVER, 0, {{0}}, "who parses clients' bytes makes no socket"},
    {"sendto", POLICY_NEVER, 0, {{0}}, "nothing to an address"},
    {"listen", POLICY_NEVER, 0, {{0}}, "the listening socket is given"},
    {"clone", POLICY_NEVER, 0, {{0}}, "front has one thread"},
    {"clone3", POLICY_NEVER, 0, {{0}}, "front has one thread"},
};
// clang-format on

const struct policy_table policy_front = {"front", rules, sizeof(rules) / sizeof(rules[0])};
