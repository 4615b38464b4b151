// SPDX-License-Identifier: MIT
// The engine's policy in both directions: no socket but the kernel's crypto, no process, no page
// tricks. The other half of the second direction is test_engine_work.c.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/if_alg.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "confined.h"
#include "policy_check.h"

TestSuite(engine_policy, .timeout = 300);

Test(engine_policy, rows_are_sound)
{
    policy_check_rows(SANDBOX_ENGINE);
}

Test(engine_policy, rows_survive)
{
    policy_check_rows_survive(SANDBOX_ENGINE);
}

Test(engine_policy, conditions_bite)
{
    policy_check_conditions_bite(SANDBOX_ENGINE);
}

Test(engine_policy, rest_is_refused)
{
    policy_check_rest_refused(SANDBOX_ENGINE);
}

// An engine that fails on order may do what an engine does, and sleep.
Test(engine_policy, a_faulty_engine_may_sleep_and_nothing_more)
{
    static const char *const sleeps[] = {"clock_nanosleep", "nanosleep", "restart_syscall"};

    policy_check_rows(SANDBOX_FAULTY_ENGINE);
    policy_check_rows_survive(SANDBOX_FAULTY_ENGINE);
    policy_check_conditions_bite(SANDBOX_FAULTY_ENGINE);
    policy_check_rest_refused(SANDBOX_FAULTY_ENGINE);
    for (size_t i = 0; i < sizeof(sleeps) / sizeof(sleeps[0]); i++) {
        cr_expect(!policy_check_lets(SANDBOX_ENGINE, sleeps[i]), "%s", sleeps[i]);
        cr_expect(policy_check_lets(SANDBOX_FAULTY_ENGINE, sleeps[i]), "%s", sleeps[i]);
    }
}

Test(engine_policy, other_abis_are_refused)
{
    policy_check_other_abis(SANDBOX_ENGINE);
}

Test(engine_policy, multiplexed_calls_are_refused)
{
    policy_check_multiplexed(SANDBOX_ENGINE);
}

Test(engine_policy, lets_nothing_reach_out)
{
    static const char *const never[] = {
        "socketpair",
        "connect",
        "listen",
        "sendmmsg",
        "open",
        "openat",
        "openat2",
        "creat",
        "execve",
        "execveat",
        "fork",
        "vfork",
        "kill",
        "tkill",
        "ptrace",
        "splice",
        "vmsplice",
        "tee",
        "io_setup",
        "io_submit",
        "ioctl",
        "setuid",
        "setresuid",
        "chroot",
        "mount",
        "bpf",
        "unshare",
        "setns",
        "pidfd_open",
        "keyctl",
        "seccomp",
        "prlimit64",
        "setrlimit",
        "pidfd_getfd",
        "process_vm_readv",
        "io_uring_setup",
        "memfd_create",
        "userfaultfd",
        "process_vm_writev",
        "unlink",
        "mkdir",
    };

    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
        cr_expect(!policy_check_lets(SANDBOX_ENGINE, never[i]), "%s", never[i]);
}

// ---------------------------------------------------------------- real calls that are death

struct socket_kind {
    int domain, type, protocol;
    const char *name;
};

static int socket_run(const void *argument)
{
    const struct socket_kind *kind = argument;

    confined_load(SANDBOX_ENGINE, SANDBOX_KILL);
    (void)socket(kind->domain, kind->type, kind->protocol);
    return 0;
}

Test(engine_policy, other_sockets_are_death)
{
    static const struct socket_kind kinds[] = {
        {AF_INET, SOCK_STREAM, 0, "TCP"},
        {AF_INET6, SOCK_STREAM, 0, "TCP over IPv6"},
        {AF_INET, SOCK_DGRAM, 0, "UDP"},
        {AF_UNIX, SOCK_SEQPACKET, 0, "AF_UNIX"},
        {AF_UNIX, SOCK_STREAM, 0, "AF_UNIX stream"},
        {AF_PACKET, SOCK_RAW, 0, "AF_PACKET"},
        {AF_VSOCK, SOCK_STREAM, 0, "AF_VSOCK"},
        {AF_NETLINK, SOCK_RAW, NETLINK_ROUTE, "NETLINK_ROUTE"},
        {AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER, "NETLINK_NETFILTER"},
        {AF_NETLINK, SOCK_DGRAM, NETLINK_CRYPTO, "NETLINK_CRYPTO as datagrams"},
        {AF_ALG, SOCK_STREAM, 0, "AF_ALG stream"},
        {AF_ALG, SOCK_SEQPACKET, 1, "AF_ALG with a protocol"},
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        confined_assert_killed(confined_run(socket_run, &kinds[i]), kinds[i].name);
}

Test(engine_policy, crypto_sockets_are_let)
{
    static const struct socket_kind kinds[] = {
        {AF_ALG, SOCK_SEQPACKET, 0, "AF_ALG"},
        {AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, "AF_ALG, close-on-exec"},
        {AF_NETLINK, SOCK_RAW, NETLINK_CRYPTO, "NETLINK_CRYPTO"},
        {AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_CRYPTO, "NETLINK_CRYPTO, close-on-exec"},
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        confined_assert_exit(confined_run(socket_run, &kinds[i]), 0, kinds[i].name);
}

struct attack {
    const char *name;
    long (*run)(void);
};

static long fork_child(void)
{
    return fork();
}

static long execute_shell(void)
{
    return execl("/bin/sh", "sh", "-c", "exit 0", (char *)NULL);
}

static long new_namespace(void)
{
    return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
}

static long splice_in(void)
{
    return splice(0, NULL, 1, NULL, 1, 0);
}

static long vmsplice_in(void)
{
    struct iovec iov = {.iov_base = NULL, .iov_len = 0};

    return vmsplice(0, &iov, 1, 0);
}

static long tee_in(void)
{
    return tee(0, 1, 1, 0);
}

static long aio_begin(void)
{
    unsigned long context = 0;

    return syscall(SYS_io_setup, 1, &context);
}

static long map_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
           MAP_FAILED;
}

static long become_dumpable(void)
{
    return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static long set_tcp_option(void)
{
    int one = 1;

    return setsockopt(0, 6, 1, &one, sizeof(one));
}

static long bind_to_device(void)
{
    return setsockopt(0, SOL_SOCKET, SO_BINDTODEVICE, "lo", 2);
}

static long send_to_address(void)
{
    const struct sockaddr address = {.sa_family = AF_INET};

    return sendto(0, "x", 1, MSG_DONTWAIT, &address, sizeof(address));
}

static long slow_down_others(void)
{
    return setpriority(PRIO_PROCESS, (id_t)getppid(), 19);
}

static long slow_down_user(void)
{
    return setpriority(PRIO_USER, 0, 19);
}

static long sleep_on(void)
{
    return nanosleep(&(struct timespec){.tv_nsec = 1}, NULL);
}

static long lend_priority(void)
{
    static uint32_t word;

    return syscall(SYS_futex, &word, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0);
}

static long requeue(void)
{
    static uint32_t words[2];

    return syscall(SYS_futex, &words[0], FUTEX_CMP_REQUEUE_PI, 1, 1, &words[1], 0);
}

#ifndef __SANITIZE_ADDRESS__ // whose run-time has advice of its own
static long poison_page(void)
{
    return madvise(NULL, 4096, MADV_HWPOISON);
}
#endif

static long name_a_file(void)
{
    const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/socket"};

    return bind(0, (const struct sockaddr *)&address, sizeof(address));
}

static long set_key_by_number(void)
{
    int serial = 1;

    return setsockopt(0, SOL_ALG, 7, &serial, sizeof(serial)); // ALG_SET_KEY_BY_KEY_SERIAL
}

static long ask_for_peer(void)
{
    struct ucred credentials;
    socklen_t n = sizeof(credentials);

    return getsockopt(0, SOL_SOCKET, SO_PEERCRED, &credentials, &n);
}

static int attack_run(const void *argument)
{
    const struct attack *attack = argument;

    confined_load(SANDBOX_ENGINE, SANDBOX_KILL);
    (void)attack->run();
    return 0;
}

Test(engine_policy, attacks_are_death)
{
    static const struct attack attacks[] = {
        {"fork", fork_child},
        {"execve", execute_shell},
        {"clone(CLONE_NEWUSER)", new_namespace},
        {"splice", splice_in},
        {"vmsplice", vmsplice_in},
        {"tee", tee_in},
        {"io_setup", aio_begin},
        {"mmap(PROT_EXEC)", map_code},
        {"prctl(PR_SET_DUMPABLE)", become_dumpable},
        {"sendto an address", send_to_address},
        {"setsockopt(IPPROTO_TCP)", set_tcp_option},
        {"setsockopt(SO_BINDTODEVICE)", bind_to_device},
        {"setpriority of another process", slow_down_others},
        {"setpriority of a user", slow_down_user},
        {"nanosleep", sleep_on},
        {"futex(FUTEX_LOCK_PI)", lend_priority},
        {"futex(FUTEX_CMP_REQUEUE_PI)", requeue},
#ifndef __SANITIZE_ADDRESS__
        {"madvise(MADV_HWPOISON)", poison_page},
#endif
        {"bind of a Unix socket", name_a_file},
        {"setsockopt(ALG_SET_KEY_BY_KEY_SERIAL)", set_key_by_number},
        {"getsockopt(SO_PEERCRED)", ask_for_peer},
    };

    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
        confined_assert_killed(confined_run(attack_run, &attacks[i]), attacks[i].name);
}
