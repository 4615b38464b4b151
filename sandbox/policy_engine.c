// SPDX-License-Identifier: MIT
// The system calls of the engine alone: crypto sockets through libkcapi, and worker threads. It
// makes no socket but those of AF_ALG and NETLINK_CRYPTO, so every address that it binds is one of
// theirs.
#include "policy.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <linux/if_alg.h>
#include <linux/futex.h>
#include <linux/netlink.h>

#ifndef CLONE_DETACHED
#define CLONE_DETACHED 0x00400000
#endif
#ifndef MADV_GUARD_INSTALL // Linux 6.13
#define MADV_GUARD_INSTALL 102
#endif
#define SOCK_FLAGS (SOCK_CLOEXEC | SOCK_NONBLOCK)
#define SIGNAL_OF_SETXID                                                                           \
    (__SIGRTMIN + 1) // the C library's own signal; no signal of ours is handled
#define CLONE_OF_A_THREAD                                                                          \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |            \
     CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

// clang-format off
static const struct policy_rule rules[] = {
    {"socket", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(0, AF_ALG), POLICY_ARG_BARRING(1, SOCK_SEQPACKET, SOCK_FLAGS), POLICY_ARG_EQUAL(2, 0)},
     "the kernel's crypto"},
    {"socket", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(0, AF_NETLINK), POLICY_ARG_BARRING(1, SOCK_RAW, SOCK_FLAGS), POLICY_ARG_EQUAL(2, NETLINK_CRYPTO)},
     "libkcapi asks what a driver's name and sizes are"},
    {"bind", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(2, sizeof(struct sockaddr_alg))}, "names the algorithm; only the sockets above can be bound"},
    {"bind", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(2, sizeof(struct sockaddr_nl))}, "libkcapi, for its netlink socket"},
    {"getsockname", POLICY_ALLOW, 0, {{0}}, "libkcapi looks at its netlink socket"},
    {"accept", POLICY_ALLOW, 0, {{0}}, "operation sockets, as libkcapi makes them"},
    {"accept4", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(3, 0)}, "the same where accept has no call of its own"},
    {"setsockopt", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, SOL_ALG), POLICY_ARG_EQUAL(2, ALG_SET_KEY)}, "keys"},
    {"pipe2", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, 0)}, "libkcapi makes a pipe with each handle, though nothing is ever spliced"},
    {"pipe", POLICY_ALLOW, 0, {{0}}, "the same with an old C library"},
    {"fcntl", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, F_SETPIPE_SZ)}, "libkcapi, for that pipe"},
    {"fcntl64", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, F_SETPIPE_SZ)}, "the same on 32 bits"},
    {"fcntl", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, F_GETPIPE_SZ)}, "libkcapi, for that pipe"},
    {"fcntl64", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, F_GETPIPE_SZ)}, "the same on 32 bits"},
    {"uname", POLICY_ALLOW, 0, {{0}}, "libkcapi asks for the kernel's version"},
    {"time", POLICY_ALLOW, 0, {{0}}, "libkcapi numbers its netlink requests"},

    {"fallocate", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, 0)}, "pages for a keystream slot, before they are touched"},
    {"fallocate", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)}, "takes an idle slot's pages back"},

    {"mmap", POLICY_ALLOW, 0, {POLICY_ARG_WITHIN(2, PROT_READ | PROT_WRITE)}, "heap, stacks, clients' memory; no new code"},
    {"mmap2", POLICY_ALLOW, 0, {POLICY_ARG_WITHIN(2, PROT_READ | PROT_WRITE)}, "the same on 32 bits"},
    {"madvise", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(2, MADV_DONTNEED)}, "end of a thread; its heap gives memory back"},
    {"madvise", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(2, MADV_DONTDUMP)}, "clients' memory stays out of dumps"},
    {"madvise", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(2, MADV_GUARD_INSTALL)}, "guard of a thread's stack, with a C library from 2.42 on"},
    {"mprotect", POLICY_ALLOW, 0, {POLICY_ARG_WITHIN(2, PROT_READ | PROT_WRITE)}, "stack and heap of a thread; no new code"},
    {"getrandom", POLICY_ALLOW, 0, {{0}}, "OpenSSL's random numbers"},

    {"clone", POLICY_ALLOW, 0, {POLICY_ARG_BARRING(0, CLONE_OF_A_THREAD, CLONE_DETACHED)}, "worker threads; never a process"},
    {"clone3", POLICY_ERRNO, ENOSYS, {{0}}, "its flags lie in memory; the C library then uses clone"},
    {"rt_sigaction", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(0, SIGNAL_OF_SETXID)}, "the C library's first thread"},
    {"set_robust_list", POLICY_ALLOW, 0, {{0}}, "start of a thread"},
    {"rseq", POLICY_ALLOW, 0, {{0}}, "start of a thread"},
    {"prctl", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(0, PR_SET_NAME)}, "names of threads"},
    // The C library's heap asks /sys/devices/system/cpu/online how many threads may have heaps of their own, and
    // /proc/sys/vm/overcommit_memory how to give memory back. It goes on without an answer.
    {"openat", POLICY_ERRNO, EACCES, {{0}}, "no file by name; the heap of a thread tries"},
    {"open", POLICY_ERRNO, EACCES, {{0}}, "no file by name; the heap of a thread tries"},
    {"sched_getaffinity", POLICY_ALLOW, 0, {{0}}, "how many threads may have heaps of their own"},
    {"exit", POLICY_ALLOW, 0, {{0}}, "end of a thread"},
    {"futex", POLICY_ALLOW, 0, {POLICY_ARG_BARRING(1, FUTEX_WAIT, FUTEX_PRIVATE_FLAG)}, "locks"},
    {"futex", POLICY_ALLOW, 0, {POLICY_ARG_BARRING(1, FUTEX_WAKE, FUTEX_PRIVATE_FLAG)}, "locks"},
    {"futex", POLICY_ALLOW, 0, {POLICY_ARG_BARRING(1, FUTEX_WAIT_BITSET, FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME)}, "conditions, end of a thread"},
    {"futex_time64", POLICY_ALLOW, 0, {POLICY_ARG_BARRING(1, FUTEX_WAIT, FUTEX_PRIVATE_FLAG)}, "the same on 32 bits"},
    {"futex_time64", POLICY_ALLOW, 0, {POLICY_ARG_BARRING(1, FUTEX_WAKE, FUTEX_PRIVATE_FLAG)}, "the same on 32 bits"},
    {"futex_time64", POLICY_ALLOW, 0, {POLICY_ARG_BARRING(1, FUTEX_WAIT_BITSET, FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME)}, "the same on 32 bits"},

    {"sched_yield", POLICY_ALLOW, 0, {{0}}, "work ahead of need gives way to sessions"},
    {"setpriority", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(0, PRIO_PROCESS), POLICY_ARG_EQUAL(1, 0)}, "the thread that measures gives way to the others"},

    {"sendto", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(4, 0)}, "rings a bell without waiting; to no address"},
    {"recvfrom", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(4, 0)}, "empties a bell without waiting"},

    {"socketpair", POLICY_NEVER, 0, {{0}}, "bells come from clients"},
    {"listen", POLICY_NEVER, 0, {{0}}, "clients come through front"},
};

// Only of an engine that shall fail for a test.
static const struct policy_rule delay_rules[] = {
    {"clock_nanosleep", POLICY_ALLOW, 0, {{0}}, "delays that a test orders"},
    {"clock_nanosleep_time64", POLICY_ALLOW, 0, {{0}}, "the same on 32 bits"},
    {"nanosleep", POLICY_ALLOW, 0, {{0}}, "the same with an old C library"},
    {"restart_syscall", POLICY_ALLOW, 0, {{0}}, "a delay that was stopped and continued"},
};
// clang-format on

const struct policy_table policy_delay = {"delay", delay_rules,
                                          sizeof(delay_rules) / sizeof(delay_rules[0])};
const struct policy_table policy_engine = {"engine", rules, sizeof(rules) / sizeof(rules[0])};
