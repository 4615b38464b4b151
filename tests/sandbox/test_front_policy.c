// SPDX-License-Identifier: MIT
// Front's policy in both directions: what it must never do is death, and a whole life of front
// under it works.
#include <criterion/criterion.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
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
        {"mprotect(PROT_EXEC)", protect_code},
        {"setrlimit", raise_limit},
        {"fcntl(F_ADD_SEALS)", seal_memory},
        {"fcntl(F_DUPFD)", duplicate},
        {"stat", file_status},
    };

    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
        confined_assert_killed(confined_run(attack_run, &attacks[i]), attacks[i].name);
}

// ---------------------------------------------------------------- what front does all day

struct day { // made before the sandbox, as the monitor does
    int listener;
    int client; // connected to it
    int memory; // a sealed memfd, for the client to send
};

static int descriptor_send(int socket_fd, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {.iov_base = (char[]){"x"}, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(int));
    return sendmsg(socket_fd, &msg, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

static int descriptor_receive(int socket_fd)
{
    char byte, control[256];
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    int fd = -1;

    if (recvmsg(socket_fd, &msg, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&msg))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
    return fd;
}

static int client_take_in(const struct day *day, int *ret_memory)
{
    struct ucred credentials = {0};
    socklen_t n = sizeof(credentials);
    gid_t groups[64];
    struct statfs fs;
    struct stat st;
    int fd = accept4(day->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    CONFINED_STEP(fd >= 0);
    CONFINED_STEP(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &n) == 0);
    n = sizeof(groups);
    CONFINED_STEP(getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &n) == 0);
    CONFINED_STEP(descriptor_send(day->client, day->memory) == 0);
    *ret_memory = descriptor_receive(fd);
    CONFINED_STEP(*ret_memory >= 0);
    CONFINED_STEP(fstat(*ret_memory, &st) == 0 && st.st_size == 4096);
    CONFINED_STEP(fstatfs(*ret_memory, &fs) == 0);
    CONFINED_STEP(fcntl(*ret_memory, F_GETFL) >= 0);
    CONFINED_STEP(fcntl(*ret_memory, F_GET_SEALS) > 0);
    CONFINED_STEP(write(fd, "answer", 6) == 6);
    CONFINED_STEP(shutdown(fd, SHUT_RDWR) == 0 && close(fd) == 0);
    return 0;
}

static void timer_end(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    *(bool *)context = true;
}

static int loop_run(void)
{
    const struct timeval soon = {0, 1000};
    struct event_base *base = event_base_new();
    bool ended = false;

    CONFINED_STEP(base);
    CONFINED_STEP(event_base_once(base, -1, EV_TIMEOUT, timer_end, &ended, &soon) == 0);
    CONFINED_STEP(event_base_dispatch(base) >= 0 && ended);
    event_base_free(base);
    return 0;
}

static int day_run(const void *argument)
{
    const struct day *day = argument;
    struct timespec now;
    int memory = -1, r;
    void *big;

    if (sandbox_harden_process() != 0)
        return 121;
    confined_load(SANDBOX_FRONT, SANDBOX_KILL);
    r = client_take_in(day, &memory);
    CONFINED_STEP(r == 0);
    close(memory);
    r = loop_run();
    CONFINED_STEP(r == 0);
    big = malloc(16 << 20);
    CONFINED_STEP(big);
    big = realloc(big, 64 << 20);
    CONFINED_STEP(big);
    free(big);
    CONFINED_STEP(clock_gettime(CLOCK_BOOTTIME, &now) == 0);
    return 0;
}

Test(front_policy, a_day_of_front_survives)
{
    struct sockaddr_storage address = {.ss_family = AF_UNIX}; // the kernel names it
    struct day day = {
        .listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0),
        .client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0),
        .memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING),
    };
    socklen_t n = sizeof(address);

    cr_assert(bind(day.listener, (struct sockaddr *)&address, sizeof(sa_family_t)) == 0);
    cr_assert(getsockname(day.listener, (struct sockaddr *)&address, &n) == 0);
    cr_assert(listen(day.listener, 4) == 0);
    cr_assert(connect(day.client, (struct sockaddr *)&address, n) == 0);
    cr_assert(ftruncate(day.memory, 4096) == 0);
    cr_assert(fcntl(day.memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    confined_assert_exit(confined_run(day_run, &day), 0, "a day of front");
}

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
