// SPDX-License-Identifier: MIT
// The system calls of front alone: it takes in clients on a socket that it was given. It can make
// no socket.
#include "policy.h"

#include <sys/mman.h>
#include <sys/socket.h>

// clang-format off
static const struct policy_rule rules[] = {
    {"accept4", POLICY_ALLOW, 0, {{0}}, "takes in a client"},
    {"getpeername", POLICY_ALLOW, 0, {{0}}, "a bell must be connected"},
    {"getsockopt", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, SOL_SOCKET), POLICY_ARG_EQUAL(2, SO_ACCEPTCONN)}, "a bell does not listen"},
    {"getsockopt", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, SOL_SOCKET), POLICY_ARG_EQUAL(2, SO_PEERCRED)}, "who a client is"},
    {"getsockopt", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, SOL_SOCKET), POLICY_ARG_EQUAL(2, SO_PEERGROUPS)}, "what groups it is in"},
    {"mmap", POLICY_ALLOW, 0, {POLICY_ARG_WITHIN(2, PROT_READ | PROT_WRITE), POLICY_ARG_EQUAL(3, MAP_PRIVATE | MAP_ANONYMOUS)},
     "heap; never a client's memory, where keys pass"},
    {"mmap2", POLICY_ALLOW, 0, {POLICY_ARG_WITHIN(2, PROT_READ | PROT_WRITE), POLICY_ARG_EQUAL(3, MAP_PRIVATE | MAP_ANONYMOUS)},
     "the same on 32 bits"},

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
