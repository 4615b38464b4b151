// SPDX-License-Identifier: MIT
// Front's policy in both directions: what it must never do is death. The other half of the
// second direction is test_front_work.c.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confined.h"
#include "policy_check.h"

TestSuite(front_policy, .timeout = 300);

Test(front_policy, rows_are_sound)
{
    policy_check_rows(SANDBOX_FRONT);
}

Test(front_policy, rows_survive)
{
    policy_check_rows_survive(SANDBOX_FRONT);
}

Test(front_policy, conditions_bite)
{
    policy_check_conditions_bite(SANDBOX_FRONT);
}

Test(front_policy, rest_is_refused)
{
    policy_check_rest_refused(SANDBOX_FRONT);
}

Test(front_policy, other_abis_are_refused)
{
    policy_check_other_abis(SANDBOX_FRONT);
}

Test(front_policy, multiplexed_calls_are_refused)
{
    policy_check_multiplexed(SANDBOX_FRONT);
}

Test(front_policy, lets_nothing_reach_out)
{
    static const char *const never[] = {
        "socket",
        "socketpair",
        "connect",
        "bind",
        "listen",
        "sendto",
        "sendmmsg",
        "open",
        "openat",
        "openat2",
        "creat",
        "execve",
        "execveat",
        "fork",
        "vfork",
        "clone",
        "clone3",
        "kill",
        "tkill",
        "ptrace",
        "prctl",
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
        "pidfd_getfd",
        "process_vm_readv",
        "process_vm_writev",
        "io_uring_setup",
        "memfd_create",
        "userfaultfd",
        "keyctl",
        "seccomp",
        "prlimit64",
        "setrlimit",
        "unlink",
        "mkdir",
    };

    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
        cr_expect(!policy_check_lets(SANDBOX_FRONT, never[i]), "%s", never[i]);
}

// ---------------------------------------------------------------- real calls that are death

static int socket_inet(void)
{
    return socket(AF_INET, SOCK_STREAM, 0);
}

static int socket_unix(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET, 0);
}

static int socket_alg(void)
{
    return socket(AF_ALG, SOCK_SEQPACKET, 0);
}

static int open_file(void)
{
    return open("/etc/passwd", O_RDONLY | O_CLOEXEC);
}

static int execute_shell(void)
{
    return execl("/bin/sh", "sh", "-c", "exit 0", (char *)NULL);
}

static int fork_child(void)
{
    return (int)fork();
}

static int kill_parent(void)
{
    return kill(getppid(), 0);
}

static int trace_parent(void)
{
    return (int)ptrace(PTRACE_SEIZE, getppid(), 0, 0);
}

static int map_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
           MAP_FAILED;
}

#ifndef __SANITIZE_ADDRESS__ // whose run-time maps more
static int map_client_memory(void)
{
    return mmap(NULL, 4096, PROT_READ, MAP_SHARED, 0, 0) == MAP_FAILED;
}
#endif

static int look_at_error(void)
{
    int error;
    socklen_t n = sizeof(error);

    return getsockopt(0, SOL_SOCKET, SO_ERROR, &error, &n);
}

static int protect_code(void)
{
    static char page[8192];

    return mprotect((void *)((uintptr_t)(page + 4095) & ~(uintptr_t)4095), 4096,
                    PROT_READ | PROT_EXEC);
}

static int raise_limit(void)
{
    struct rlimit limit = {1, 1};

    return setrlimit(RLIMIT_NOFILE, &limit);
}

static int seal_memory(void)
{
    return fcntl(0, F_ADD_SEALS, F_SEAL_WRITE);
}

static int duplicate(void)
{
    return fcntl(0, F_DUPFD, 0);
}

static int file_status(void)
{
    struct stat st;

    return stat("/", &st);
}

struct attack {
    const char *name;
    int (*run)(void);
};

static int attack_run(const void *argument)
{
    const struct attack *attack = argument;

    confined_load(SANDBOX_FRONT, SANDBOX_KILL);
    (void)attack->run();
    return 0;
}

Test(front_policy, attacks_are_death)
{
    static const struct attack attacks[] = {
        {"socket(AF_INET)", socket_inet},
        {"socket(AF_UNIX)", socket_unix},
        {"socket(AF_ALG)", socket_alg},
        {"open", open_file},
        {"execve", execute_shell},
        {"fork", fork_child},
        {"kill", kill_parent},
        {"ptrace", trace_parent},
        {"mmap(PROT_EXEC)", map_code},
#ifndef __SANITIZE_ADDRESS__
        {"mmap(MAP_SHARED)", map_client_memory},
#endif
        {"getsockopt(SO_ERROR)", look_at_error},
        {"mprotect(PROT_EXEC)", protect_code},
        {"setrlimit", raise_limit},
        {"fcntl(F_ADD_SEALS)", seal_memory},
        {"fcntl(F_DUPFD)", duplicate},
        {"stat", file_status},
    };

    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
        confined_assert_killed(confined_run(attack_run, &attacks[i]), attacks[i].name);
}

// ---------------------------------------------------------------- ends that it has itself to blame
// for

static int abort_run(const void *argument)
{
    (void)argument;
    (void)sandbox_harden_process();
    confined_load(SANDBOX_FRONT, SANDBOX_KILL);
    abort();
}

Test(front_policy, abort_looks_like_abort)
{
    int status = confined_run(abort_run, NULL);

    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %#x", (unsigned)status);
}

#ifndef __SANITIZE_ADDRESS__ // which has its own words for it
static int double_free_run(const void *argument)
{
    void (*volatile release)(void *) = free; // or the compiler sees what is going on
    void *memory = malloc(24);

    (void)argument;
    confined_load(SANDBOX_FRONT, SANDBOX_KILL);
    release(memory);
    release(memory); // NOLINT(clang-analyzer-unix.Malloc): on purpose
    return 0;
}

Test(front_policy, the_c_library_s_last_words_are_heard)
{
    char heard[256];
    int status = confined_run_heard(double_free_run, NULL, heard, sizeof(heard));

    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %#x", (unsigned)status);
    cr_assert(strstr(heard, "free"), "heard only: %s", heard);
}
#endif
