// SPDX-License-Identifier: MIT
// The lists follow sandbox-seccomp-filter.c of OpenSSH (preauth_insns) in the order in which it
// asks: what is refused with an error, what is allowed, and death for the rest.
#include "sshd_filter.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/net.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "call_number.h"

#define INSNS_MAX 1024
#define LOW       (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0u : 4u)
#define HIGH      (4u - LOW)
#define DENY(e)   (SECCOMP_RET_ERRNO | (uint32_t)(e))
// OpenSSH ends the thread. Here the process, so that a second thread's fault cannot go unseen.
#define KILL        SECCOMP_RET_KILL_PROCESS
#define MMAP_FLAGS  (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_FIXED_NOREPLACE)
#define FUTEX_FLAGS (FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME)

struct filter {
    struct sock_filter insns[INSNS_MAX];
    size_t n;
};

struct test { // (argument & ~mask) == value
    unsigned argument;
    uint64_t mask;
    uint64_t value;
};

static const char *const refused[] = {"lstat",     "lstat64", "fstat",  "fstat64", "open",
                                      "openat",    "stat",    "stat64", "statx",   "newfstatat",
                                      "fstatat64", "shmget",  "shmat",  "ipc",     "shmdt"};

static const char *const allowed[] = {"brk",
                                      "clock_gettime",
                                      "clock_gettime64",
                                      "close",
                                      "exit",
                                      "exit_group",
                                      "geteuid",
                                      "geteuid32",
                                      "getpgid",
                                      "getpid",
                                      "getrandom",
                                      "gettid",
                                      "gettimeofday",
                                      "getuid",
                                      "getuid32",
                                      "mremap",
                                      "munmap",
                                      "nanosleep",
                                      "clock_nanosleep",
                                      "clock_nanosleep_time64",
                                      "_newselect",
                                      "ppoll",
                                      "ppoll_time64",
                                      "poll",
                                      "pselect6",
                                      "pselect6_time64",
                                      "read",
                                      "rt_sigprocmask",
                                      "select",
                                      "shutdown",
                                      "sigprocmask",
                                      "time",
                                      "write",
                                      "writev"};

const char *sshd_filter_name(enum sshd_filter_version version)
{
    static const char *const names[SSHD_FILTER_COUNT] = {"9.2", "9.9", "10.1"};

    return names[version];
}

static void insn_add(struct filter *f, int code, uint32_t k, size_t if_true, size_t if_false)
{
    if (f->n == INSNS_MAX)
        abort();
    f->insns[f->n++] = (struct sock_filter){
        .code = (uint16_t)code, .jt = (uint8_t)if_true, .jf = (uint8_t)if_false, .k = k};
}

static void load_add(struct filter *f, size_t offset)
{
    insn_add(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

// If it is this call and all tests hold: the verdict. Else on to the next rule, with the call's
// number loaded again.
static void rule_add(struct filter *f, const char *call, size_t n_tests, const struct test *tests,
                     uint32_t verdict)
{
    int number = call_number(call);
    size_t after_test = 6 * n_tests + 1; // instructions up to the reload

    if (number == __NR_SCMP_ERROR)
        abort();
    if (number < 0) // not on this architecture
        return;
    insn_add(f, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, after_test + (n_tests > 0));
    for (size_t i = 0; i < n_tests; i++) {
        size_t offset = offsetof(struct seccomp_data, args) + tests[i].argument * sizeof(uint64_t);

        for (int half = 0; half < 2; half++) {
            int shift = half * 32;

            after_test -= 3;
            load_add(f, offset + (half == 0 ? LOW : HIGH));
            insn_add(f, BPF_ALU | BPF_AND | BPF_K, (uint32_t)(~tests[i].mask >> shift), 0, 0);
            insn_add(f, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(tests[i].value >> shift), 0,
                     after_test);
        }
    }
    insn_add(f, BPF_RET | BPF_K, verdict, 0, 0);
    if (n_tests > 0)
        load_add(f, offsetof(struct seccomp_data, nr));
}

static void futex_add(struct filter *f, const char *call)
{
    static const uint32_t operations[] = {FUTEX_WAIT,        FUTEX_WAIT_BITSET, FUTEX_WAKE,
                                          FUTEX_WAKE_BITSET, FUTEX_REQUEUE,     FUTEX_CMP_REQUEUE};

    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        rule_add(f, call, 1, &(struct test){1, FUTEX_FLAGS, operations[i]}, SECCOMP_RET_ALLOW);
}

static void madvise_add(struct filter *f)
{
    static const uint32_t advices[] = {MADV_NORMAL,   MADV_FREE,     MADV_DONTNEED,
                                       MADV_DONTFORK, MADV_DONTDUMP, MADV_WIPEONFORK};

    for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++)
        rule_add(f, "madvise", 1, &(struct test){2, 0, advices[i]}, SECCOMP_RET_ALLOW);
    rule_add(f, "madvise", 0, NULL, DENY(EINVAL));
}

static void memory_add(struct filter *f, enum sshd_filter_version version)
{
    const struct test tests[2] = {{3, MMAP_FLAGS, 0}, {2, PROT_READ | PROT_WRITE, 0}};
    static const char *const calls[] = {"mmap", "mmap2"};

    for (size_t i = 0; i < 2; i++) {
        if (version == SSHD_FILTER_9_2) {
            rule_add(f, calls[i], 1, &tests[1], SECCOMP_RET_ALLOW);
            continue;
        }
        rule_add(f, calls[i], 2, tests, SECCOMP_RET_ALLOW);
        rule_add(f, calls[i], 1, &tests[0], KILL);
        rule_add(f, calls[i], 0, NULL, DENY(EINVAL));
    }
    rule_add(f, "mprotect", 1, &tests[1], SECCOMP_RET_ALLOW);
    if (version == SSHD_FILTER_9_2)
        rule_add(f, "madvise", 0, NULL, SECCOMP_RET_ALLOW);
    else
        madvise_add(f);
}

static void socket_add(struct filter *f)
{
    const struct test tos[2] = {{1, 0, IPPROTO_IP}, {2, 0, IP_TOS}};
    const struct test tclass[2] = {{1, 0, IPPROTO_IPV6}, {2, 0, IPV6_TCLASS}};

    rule_add(f, "getsockopt", 0, NULL, SECCOMP_RET_ALLOW);
    rule_add(f, "getsockname", 0, NULL, SECCOMP_RET_ALLOW);
    rule_add(f, "getpeername", 0, NULL, SECCOMP_RET_ALLOW);
    rule_add(f, "setsockopt", 2, tos, SECCOMP_RET_ALLOW);
    rule_add(f, "setsockopt", 2, tclass, SECCOMP_RET_ALLOW);
}

// 9.3 to 10.0 let no futex_time64 through: a fault of theirs on 32 bits, and part of what must be
// survived.
static void version_add(struct filter *f, enum sshd_filter_version version)
{
    switch (version) {
    case SSHD_FILTER_9_2:
        rule_add(f, "futex", 0, NULL, SECCOMP_RET_ALLOW);
        rule_add(f, "futex_time64", 0, NULL, SECCOMP_RET_ALLOW);
        break;
    case SSHD_FILTER_9_9:
        futex_add(f, "futex");
        break;
    case SSHD_FILTER_10_1:
        futex_add(f, "futex");
        futex_add(f, "futex_time64");
        socket_add(f);
        break;
    }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// The sanitizer's own run-time, which no sshd contains. It comes first: these rules only ever allow
// more.
static void sanitizer_add(struct filter *f)
{
    static const char *const calls[] = {"sched_yield", "sigaltstack"};
    const struct test memory[2] = {{3, MMAP_FLAGS | MAP_NORESERVE, 0},
                                   {2, PROT_READ | PROT_WRITE, 0}};

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        rule_add(f, calls[i], 0, NULL, SECCOMP_RET_ALLOW);
    rule_add(f, "mmap", 2, memory, SECCOMP_RET_ALLOW);
}
#endif

static void program_build(struct filter *f, enum sshd_filter_version version)
{
    load_add(f, offsetof(struct seccomp_data, arch));
    insn_add(f, BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 1, 0);
    insn_add(f, BPF_RET | BPF_K, KILL, 0, 0);
    load_add(f, offsetof(struct seccomp_data, nr));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    sanitizer_add(f);
#endif
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        rule_add(f, refused[i], 0, NULL, DENY(EACCES));
    // How the C library of 32-bit x86 makes every call of a socket.
    rule_add(f, "socketcall", 1, &(struct test){0, 0, SYS_SHUTDOWN}, SECCOMP_RET_ALLOW);
    rule_add(f, "socketcall", 0, NULL, DENY(EACCES));
    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
        rule_add(f, allowed[i], 0, NULL, SECCOMP_RET_ALLOW);
    memory_add(f, version);
    version_add(f, version);
    insn_add(f, BPF_RET | BPF_K, KILL, 0, 0);
}

int sshd_filter_demote(uint32_t uid, uint32_t gid)
{
    char path[] = "/tmp/cryptod-test-root-XXXXXX";

    if (!mkdtemp(path))
        return -errno;
    if (chdir(path) < 0 || rmdir(path) < 0 || chroot(".") < 0 || chdir("/") < 0 ||
        setgroups(1, &gid) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return -errno;
    return 0;
}

int sshd_filter_apply(enum sshd_filter_version version)
{
    const struct rlimit zero = {0, 0};
    const struct rlimit one = {1, 1}; // with 0, poll() of one descriptor fails
    struct filter f = {.n = 0};
    struct sock_fprog program = {.filter = f.insns};

    program_build(&f, version);
    program.len = (unsigned short)f.n;
    if (setrlimit(RLIMIT_FSIZE, &zero) < 0 || setrlimit(RLIMIT_NOFILE, &one) < 0 ||
        setrlimit(RLIMIT_NPROC, &zero) < 0)
        return -errno;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        return -errno;
    return 0;
}
