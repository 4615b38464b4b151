// SPDX-License-Identifier: MIT
// The system calls that any role makes: its memory, its clock, its signals, descriptors that it has
// already. Must not hold a call that reaches another process, a file by name, or a new socket.
#include "policy.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

// clang-format off
static const struct policy_rule rules[] = {
    {"read", POLICY_ALLOW, 0, {{0}}, "bells, control sockets"},
    {"write", POLICY_ALLOW, 0, {{0}}, "bells, log lines"},
    {"writev", POLICY_ALLOW, 0, {{0}}, "the C library's last words before abort()"},
    {"close", POLICY_ALLOW, 0, {{0}}, "a client's descriptors, when it goes"},
    {"sendmsg", POLICY_ALLOW, 0, {{0}}, "messages with descriptors"},
    {"recvmsg", POLICY_ALLOW, 0, {{0}}, "messages with descriptors"},
    {"epoll_ctl", POLICY_ALLOW, 0, {{0}}, "event loop"},
    {"epoll_wait", POLICY_ALLOW, 0, {{0}}, "event loop"},
    {"epoll_pwait", POLICY_ALLOW, 0, {{0}}, "event loop, where epoll_wait does not exist"},

    {"fcntl", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, F_GETFL)}, "a client's memory must be writable, its bell non-blocking"},
    {"fcntl", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, F_GET_SEALS)}, "a client's memory must be sealed"},
    {"fcntl64", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, F_GETFL)}, "the same on 32 bits"},
    {"fcntl64", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, F_GET_SEALS)}, "the same on 32 bits"},
    {"fstat", POLICY_ALLOW, 0, {{0}}, "size and kind of a client's memory"},
    {"fstat64", POLICY_ALLOW, 0, {{0}}, "the same on 32 bits"},
    {"newfstatat", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(3, AT_EMPTY_PATH)}, "how the C library makes fstat()"},
    {"fstatat64", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(3, AT_EMPTY_PATH)}, "the same on 32 bits"},
    {"statx", POLICY_ALLOW, 0, {POLICY_ARG_BARRING(2, AT_EMPTY_PATH, AT_NO_AUTOMOUNT)}, "the same on 32 bits with times of 64"},
    {"fstatfs", POLICY_ALLOW, 0, {{0}}, "a client's memory must be ordinary pages"},
    {"fstatfs64", POLICY_ALLOW, 0, {{0}}, "the same on 32 bits"},
    {"getsockopt", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, SOL_SOCKET), POLICY_ARG_EQUAL(2, SO_DOMAIN)}, "whether a bell is one"},
    {"getsockopt", POLICY_ALLOW, 0, {POLICY_ARG_EQUAL(1, SOL_SOCKET), POLICY_ARG_EQUAL(2, SO_TYPE)}, "whether a bell is one"},

    {"brk", POLICY_ALLOW, 0, {{0}}, "heap"},
    {"munmap", POLICY_ALLOW, 0, {{0}}, "heap, clients' memory"},
    {"mremap", POLICY_ALLOW, 0, {{0}}, "heap"},

    {"clock_gettime", POLICY_ALLOW, 0, {{0}}, "time, where the vdso does not serve it"},
    {"clock_gettime64", POLICY_ALLOW, 0, {{0}}, "the same on 32 bits"},
    {"gettimeofday", POLICY_ALLOW, 0, {{0}}, "event loop's time, where the vdso does not serve it"},
    {"rt_sigprocmask", POLICY_ALLOW, 0, {{0}}, "abort(), start of a thread"},
    {"getpid", POLICY_ALLOW, 0, {{0}}, "abort()"},
    {"gettid", POLICY_ALLOW, 0, {{0}}, "abort()"},
    {"tgkill", POLICY_ALLOW, 0, {POLICY_ARG_OWN_PID(0), POLICY_ARG_EQUAL(2, SIGABRT)}, "abort() of this process only"},
    {"exit_group", POLICY_ALLOW, 0, {{0}}, "end of the process"},

    {"execve", POLICY_NEVER, 0, {{0}}, "a role never becomes another program"},
    {"execveat", POLICY_NEVER, 0, {{0}}, "a role never becomes another program"},
    {"ptrace", POLICY_NEVER, 0, {{0}}, "another role holds keys"},
    {"process_vm_readv", POLICY_NEVER, 0, {{0}}, "another role holds keys"},
    {"process_vm_writev", POLICY_NEVER, 0, {{0}}, "another role holds keys"},
    {"pidfd_getfd", POLICY_NEVER, 0, {{0}}, "another role holds crypto sockets"},
    {"kill", POLICY_NEVER, 0, {{0}}, "the monitor ends roles, nobody else"},
    {"openat2", POLICY_NEVER, 0, {{0}}, "no file by name"},
    {"connect", POLICY_NEVER, 0, {{0}}, "no connection to anywhere"},
    {"splice", POLICY_NEVER, 0, {{0}}, "page tricks with crypto sockets were a root exploit (CVE-2026-31431)"},
    {"vmsplice", POLICY_NEVER, 0, {{0}}, "page tricks with crypto sockets were a root exploit (CVE-2026-31431)"},
    {"tee", POLICY_NEVER, 0, {{0}}, "page tricks with crypto sockets were a root exploit (CVE-2026-31431)"},
    {"io_setup", POLICY_NEVER, 0, {{0}}, "no asynchronous I/O: it wedges drivers"},
    {"io_submit", POLICY_NEVER, 0, {{0}}, "no asynchronous I/O: it wedges drivers"},
    {"io_uring_setup", POLICY_NEVER, 0, {{0}}, "its operations pass by this filter"},
    {"ioctl", POLICY_NEVER, 0, {{0}}, "no device"},
    {"prlimit64", POLICY_NEVER, 0, {{0}}, "limits stay as they were set"},
    {"bpf", POLICY_NEVER, 0, {{0}}, "kernel surface"},
    {"unshare", POLICY_NEVER, 0, {{0}}, "kernel surface"},
    {"setns", POLICY_NEVER, 0, {{0}}, "kernel surface"},
    {"userfaultfd", POLICY_NEVER, 0, {{0}}, "kernel surface"},
    {"socketcall", POLICY_NEVER, 0, {{0}}, "sockets through one call on some 32-bit architectures: what it is asked for lies in memory"},
    {"seccomp", POLICY_NEVER, 0, {{0}}, "the filter is final"},
};
// clang-format on

const struct policy_table policy_common = {"common", rules, sizeof(rules) / sizeof(rules[0])};
