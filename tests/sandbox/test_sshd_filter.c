// SPDX-License-Identifier: MIT
// The replica of sshd's sandbox itself: a test under it is worth something only if it refuses what
// sshd's does.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/net.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "confined.h"
#include "sshd_filter.h"

#define KILLED (-1)
#define NEAR   100 // the two ends of a connected pair: what a session has when the sandbox comes
#define FAR    101
#define PAGE   4096
#ifdef SYS_mmap2 // 32 bits, where SYS_mmap has its arguments in memory, if it is there at all
#undef SYS_mmap
#define SYS_mmap SYS_mmap2
#endif

TestSuite(sshd_filter, .timeout = 300);

static char pages[4 * PAGE] __attribute__((aligned(PAGE)));
static char bytes[256];
static uint32_t word;
static struct pollfd polls[2] = {{.fd = NEAR, .events = POLLOUT}, {.fd = FAR, .events = POLLOUT}};
static const struct timespec past = {0, 1};
static struct msghdr message;
#ifdef SYS_socketcall
static const unsigned long shutdown_args[3] = {NEAR, SHUT_RDWR};
#endif
#ifdef SYS_futex_time64
static const long long no_time[2];
#endif
static int value;
static socklen_t n_value = sizeof(value);
static socklen_t n_bytes = sizeof(bytes);

// Made as bare system calls: that is what the filter sees, and no library stands between.
struct call {
    const char *name;
    long number;
    long args[6];
    int outcome[SSHD_FILTER_COUNT]; // KILLED, or an errno, or 0
};

#define P(x) ((long)(x))
#define RW   (PROT_READ | PROT_WRITE)
#define RX   (PROT_READ | PROT_EXEC)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define DEATH                                                                                      \
    {                                                                                              \
        KILLED, KILLED, KILLED                                                                     \
    }
#define FINE                                                                                       \
    {                                                                                              \
        0, 0, 0                                                                                    \
    }

// clang-format off
static const struct call calls[] = {
    {"write", SYS_write, {NEAR, P("x"), 1}, FINE},
    {"read", SYS_read, {NEAR, P(bytes), 1}, FINE},
    {"ppoll", SYS_ppoll, {P(polls), 1}, FINE},
    {"ppoll of two", SYS_ppoll, {P(polls), 2}, {EINVAL, EINVAL, EINVAL}},
    {"clock_gettime", SYS_clock_gettime, {CLOCK_MONOTONIC, P(bytes)}, FINE},
    {"close", SYS_close, {FAR}, FINE},
    {"shutdown", SYS_shutdown, {NEAR, SHUT_RDWR}, FINE},
#ifdef SYS_socketcall // how the C library makes these on 32-bit x86
    {"socketcall(shutdown)", SYS_socketcall, {SYS_SHUTDOWN, P(shutdown_args)}, FINE},
    {"socketcall(getpeername)", SYS_socketcall, {SYS_GETPEERNAME, P(shutdown_args)}, {EACCES, EACCES, EACCES}},
#endif
#ifdef SYS_futex_time64 // how it makes these on any 32 bits
    {"futex_time64(WAKE)", SYS_futex_time64, {P(&word), FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1}, {0, KILLED, 0}},
    {"futex_time64(LOCK_PI)", SYS_futex_time64, {P(&word), FUTEX_LOCK_PI}, {0, KILLED, KILLED}},
    {"ppoll_time64", SYS_ppoll_time64, {P(polls), 1}, FINE},
    {"clock_gettime64", SYS_clock_gettime64, {CLOCK_MONOTONIC, P(bytes)}, FINE},
    {"clock_nanosleep_time64", SYS_clock_nanosleep_time64, {CLOCK_MONOTONIC, 0, P(no_time)}, FINE},
    {"pselect6_time64", SYS_pselect6_time64, {0, 0, 0, 0, P(no_time)}, FINE},
#endif
    {"getrandom", SYS_getrandom, {P(bytes), 8}, FINE},
    {"mmap(MAP_PRIVATE)", SYS_mmap, {0, PAGE, RW, ANON, -1}, FINE},
    {"mmap(MAP_SHARED)", SYS_mmap, {0, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1}, {0, EINVAL, EINVAL}},
    {"mmap(PROT_EXEC)", SYS_mmap, {0, PAGE, RX, ANON, -1}, DEATH},
    {"mprotect", SYS_mprotect, {P(pages), PAGE, PROT_READ}, FINE},
    {"mprotect(PROT_EXEC)", SYS_mprotect, {P(pages), PAGE, RX}, DEATH},
    {"munmap", SYS_munmap, {P(pages), PAGE}, FINE},
    {"madvise(MADV_DONTDUMP)", SYS_madvise, {P(pages), PAGE, MADV_DONTDUMP}, FINE},
    {"madvise(MADV_NORMAL)", SYS_madvise, {P(pages), PAGE, MADV_NORMAL}, FINE},
    {"madvise(MADV_RANDOM)", SYS_madvise, {P(pages), PAGE, MADV_RANDOM}, {0, EINVAL, EINVAL}},
    {"futex(WAKE)", SYS_futex, {P(&word), FUTEX_WAKE, 1}, FINE},
    {"futex(WAKE, private)", SYS_futex, {P(&word), FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1}, FINE},
    {"futex(WAIT_BITSET)", SYS_futex, {P(&word), FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, P(&past), 0, 1},
     {ETIMEDOUT, ETIMEDOUT, ETIMEDOUT}},
    {"futex(LOCK_PI)", SYS_futex, {P(&word), FUTEX_LOCK_PI}, {0, KILLED, KILLED}},
    {"openat", SYS_openat, {AT_FDCWD, P("/dev/null"), O_RDONLY}, {EACCES, EACCES, EACCES}},
#ifdef SYS_newfstatat
    {"newfstatat", SYS_newfstatat, {AT_FDCWD, P("/"), P(bytes)}, {EACCES, EACCES, EACCES}},
#endif
    {"fstat", SYS_fstat, {NEAR, P(bytes)}, {EACCES, EACCES, EACCES}},
    {"shmget", SYS_shmget, {IPC_PRIVATE, PAGE, 0600}, {EACCES, EACCES, EACCES}},
    {"getsockopt", SYS_getsockopt, {NEAR, SOL_SOCKET, SO_ERROR, P(&value), P(&n_value)}, {KILLED, KILLED, 0}},
    {"getpeername", SYS_getpeername, {NEAR, P(bytes), P(&n_bytes)}, {KILLED, KILLED, 0}},
    {"setsockopt(IP_TOS)", SYS_setsockopt, {NEAR, IPPROTO_IP, IP_TOS, P(&value), sizeof(value)},
     {KILLED, KILLED, EOPNOTSUPP}},
    {"setsockopt(IPV6_TCLASS)", SYS_setsockopt, {NEAR, IPPROTO_IPV6, IPV6_TCLASS, P(&value), sizeof(value)},
     {KILLED, KILLED, EOPNOTSUPP}},
    {"setsockopt(IP_TTL)", SYS_setsockopt, {NEAR, IPPROTO_IP, IP_TTL, P(&value), sizeof(value)}, DEATH},
    {"setsockopt(SO_RCVTIMEO)", SYS_setsockopt, {NEAR, SOL_SOCKET, SO_RCVTIMEO, P(bytes), 16}, DEATH},
    {"socket", SYS_socket, {AF_UNIX, SOCK_SEQPACKET}, DEATH},
    {"connect", SYS_connect, {NEAR, P(bytes), 2}, DEATH},
    {"sendto", SYS_sendto, {NEAR, P("x"), 1, MSG_NOSIGNAL}, DEATH},
    {"recvfrom", SYS_recvfrom, {NEAR, P(bytes), 1, MSG_DONTWAIT}, DEATH},
    {"sendmsg", SYS_sendmsg, {NEAR, P(&message), MSG_NOSIGNAL}, DEATH},
    {"recvmsg", SYS_recvmsg, {NEAR, P(&message), MSG_DONTWAIT}, DEATH},
    {"readv", SYS_readv, {NEAR, P(bytes), 0}, DEATH},
    {"fcntl", SYS_fcntl, {NEAR, F_GETFL}, DEATH},
    {"dup", SYS_dup, {NEAR}, DEATH},
    {"eventfd2", SYS_eventfd2, {0}, DEATH},
    {"memfd_create", SYS_memfd_create, {P("x")}, DEATH},
    {"clone", SYS_clone, {SIGCHLD}, DEATH},
    {"mlock", SYS_mlock, {P(pages), PAGE}, DEATH},
    {"ioctl", SYS_ioctl, {NEAR, 0}, DEATH},
    {"prctl", SYS_prctl, {PR_GET_DUMPABLE}, DEATH},
    {"rt_sigaction", SYS_rt_sigaction, {SIGTERM, 0, 0, 8}, DEATH},
    {"kill", SYS_kill, {1, 0}, DEATH},
#ifndef __SANITIZE_ADDRESS__ // whose run-time may yield
    {"sched_yield", SYS_sched_yield, {0}, DEATH},
#endif
};
// clang-format on

struct trial {
    const struct call *call;
    enum sshd_filter_version version;
};

static int trial_run(const void *argument)
{
    const struct trial *trial = argument;
    const long *a;

    if (sshd_filter_apply(trial->version) != 0)
        return 120;
    a = trial->call->args;
    return syscall(trial->call->number, a[0], a[1], a[2], a[3], a[4], a[5]) == -1 ? errno : 0;
}

static void ends_make(void)
{
    int ends[2];

    cr_assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    cr_assert(dup3(ends[0], NEAR, O_CLOEXEC) == NEAR && dup3(ends[1], FAR, O_CLOEXEC) == FAR);
    close(ends[0]);
    close(ends[1]);
}

static void trials_run(enum sshd_filter_version version)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const struct trial trial = {&calls[i], version};
        int status;

        ends_make();
        cr_assert(write(FAR, "y", 1) == 1); // something to read
        status = confined_run(trial_run, &trial);
        if (calls[i].outcome[version] == KILLED)
            confined_assert_killed(status, calls[i].name);
        else
            confined_assert_exit(status, calls[i].outcome[version], calls[i].name);
    }
}

Test(sshd_filter, calls_of_9_2)
{
    trials_run(SSHD_FILTER_9_2);
}

Test(sshd_filter, calls_of_9_9)
{
    trials_run(SSHD_FILTER_9_9);
}

Test(sshd_filter, calls_of_10_1)
{
    trials_run(SSHD_FILTER_10_1);
}

// RLIMIT_FSIZE 0: who logs to a file from a session dies.
static int file_run(const void *argument)
{
    FILE *file = tmpfile();

    CONFINED_STEP(file && sshd_filter_apply(*(const enum sshd_filter_version *)argument) == 0);
    return (int)write(fileno(file), "x", 1);
}

Test(sshd_filter, file_writes_are_death)
{
    for (int v = 0; v < SSHD_FILTER_COUNT; v++) {
        const enum sshd_filter_version version = (enum sshd_filter_version)v;
        int status = confined_run(file_run, &version);

        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ, "%s",
                  sshd_filter_name(version));
    }
}

// The child tells that it is about to wait, waits for a second on a socket where nothing comes, is
// stopped and continued meanwhile.
static int stopped_run(enum sshd_filter_version version, void (*wait_for)(struct pollfd *p))
{
    int status = -1;
    char byte;
    pid_t pid;

    ends_make();
    pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        struct pollfd p = {.fd = FAR, .events = POLLIN};

        if (sshd_filter_apply(version) != 0 || write(FAR, "r", 1) != 1)
            _exit(120);
        wait_for(&p);
        _exit(0);
    }
    cr_assert(read(NEAR, &byte, 1) == 1);
    confined_wait_state(pid, 'S');
    cr_assert(kill(pid, SIGSTOP) == 0);
    confined_wait_state(pid, 'T');
    cr_assert(kill(pid, SIGCONT) == 0);
    cr_assert(waitpid(pid, &status, 0) == pid);
    return status;
}

static void wait_with_poll(struct pollfd *p)
{
    (void)poll(p, 1, 1000);
}

static void wait_with_ppoll(struct pollfd *p)
{
    const struct timespec second = {1, 0};

    (void)ppoll(p, 1, &second, NULL);
}

// poll() is continued through restart_syscall, which is not on the list; ppoll() is not.
Test(sshd_filter, stop_and_continue)
{
    for (int v = 0; v < SSHD_FILTER_COUNT; v++) {
        const enum sshd_filter_version version = (enum sshd_filter_version)v;

        confined_assert_killed(stopped_run(version, wait_with_poll), "poll, stopped and continued");
        confined_assert_exit(stopped_run(version, wait_with_ppoll), 0,
                             "ppoll, stopped and continued");
    }
}

static int demote_run(const void *argument)
{
    (void)argument;
    CONFINED_STEP(sshd_filter_demote(61980, 61981) == 0);
    CONFINED_STEP(getuid() == 61980 && geteuid() == 61980 && getgid() == 61981);
    CONFINED_STEP(access("/etc/passwd", F_OK) == -1);
    CONFINED_STEP(setuid(0) == -1);
    return trial_run(&(const struct trial){&calls[0], SSHD_FILTER_9_2});
}

Test(sshd_filter, demoted_to_nobody_in_nowhere)
{
    if (geteuid() != 0)
        cr_skip_test("needs root, to have something to give up");
    ends_make();
    confined_assert_exit(confined_run(demote_run, NULL), 0, "demoted child");
}
