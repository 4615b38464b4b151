// SPDX-License-Identifier: MIT
// The system calls of the engine alone: crypto sockets through libkcapi, and worker threads. It
// makes no socket but those of AF_ALG and NETLINK_CRYPTO, so every address that it binds is one of
// theirs.
#include "policy.h"

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <linux/if_alg.h>
#include <linux/netlink.h>

#ifndef CLONE_DETACHED
#define CLONE_DETACHED 0x00400000
#endif
#define SOCK_FLAGS (SOCK_CLOEXEC | SOCK_NONBLOCK)
#define CLONE_OF_A_THREAD                                                                          \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |            \
     CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

// clang-format off
static const struct policy_rule rules[] = {
    {"socket", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(0, AF_ALG), POLICY_ARG_BARRING(1, SOCK_SEQPACKET, SOCK_FLAGS), POLICY_ARG_EQUAL(2, 0)},
     "the kernel's crypto"},
    {"socket", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(0, AF_NETLINK), POLICY_ARG_BARRING(1, SOCK_RAW, SOCK_FLAGS), POLICY_ARG_EQUAL(2, NETLINK_CRYPTO)},
     "libkcapi asks what a driver's name and sizes are"},
    {"bind", POLICY_ALLOW, 0, {{0}}, "names the algorithm; only the sockets above can be bound"},
    {"accept", POLICY_ALLOW, 0, {{0}}, "operation sockets, as libkcapi makes them"},
    {"accept4", POLICY_ALLOW, 0, {{0}}, "operation sockets"},
    {"setsockopt", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, SOL_ALG)}, "keys"},
    {"setsockopt", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, SOL_SOCKET), POLICY_ARG_EQUAL(2, SO_SNDBUF)}, "libkcapi: room for 64 KiB"},
    {"setsockopt", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, SOL_SOCKET), POLICY_ARG_EQUAL(2, SO_RCVBUF)}, "libkcapi: room for 64 KiB"},
    {"pipe", POLICY_ALLOW, 0, {{0}}, "libkcapi makes one with each handle"},
    {"mlock", POLICY_ALLOW, 0, {{0}}, "keys stay out of swap"},
    {"mlock2", POLICY_ALLOW, 0, {{0}}, "keys stay out of swap"},
    {"munlock", POLICY_ALLOW, 0, {{0}}, "keys stay out of swap"},

    {"clone", POLICY_ALLOW, 0, {POLICY_ARG_BARRING(0, CLONE_OF_A_THREAD, CLONE_DETACHED)}, "worker threads; never a process"},
    {"clone3", POLICY_ERRNO, ENOSYS, {{0}}, "its flags lie in memory; the C library then uses clone"},
    {"set_robust_list", POLICY_ALLOW, 0, {{0}}, "start of a thread"},
    {"rseq", POLICY_ALLOW, 0, {{0}}, "start of a thread"},
    {"prctl", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(0, PR_SET_NAME)}, "names of threads"},
    {"sched_getaffinity", POLICY_ALLOW, 0, {{0}}, "heap: how many arenas"},

    {"socketpair", POLICY_NEVER, 0, {{0}}, "bells come from clients"},
    {"listen", POLICY_NEVER, 0, {{0}}, "clients come through front"},
};
// clang-format on

const struct policy_table policy_engine = {"engine", rules, sizeof(rules) / sizeof(rules[0])};
