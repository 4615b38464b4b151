// SPDX-License-Identifier: MIT
// Guarantees that a role has exactly its descriptors, default signals, a minimal environment, and
// dies with the monitor. Must not know when or why roles are started.
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "log.h"

#define SPAWN_FIRST_FREE      (ROLE_FD_LISTENER + 1)
#define SPAWN_NOFILE          65536
#define SPAWN_ENVIRONMENT_MAX 16

int spawn_open_program(int *ret_fd)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

const char *spawn_role_name(enum config_role role)
{
    return role == CONFIG_ROLE_FRONT ? "front" : "engine";
}

// OPENSSL_CONF is ours: a system-wide configuration may load our own provider, and the engine would
// be its own client.
static void spawn_make_environment(char *environment[])
{
    static const char *const kept[] = {
        "JOURNAL_STREAM=", "OPENSSL_ia32cap=", "OPENSSL_armcap=", "ASAN_OPTIONS=",
        "UBSAN_OPTIONS=",  "TSAN_OPTIONS=",    "LSAN_OPTIONS=",   "CRYPTOD_SANDBOX_TRAP=",
    };
    static char no_openssl_conf[] = "OPENSSL_CONF=/dev/null";
    size_t n = 0;

    environment[n++] = no_openssl_conf;
    for (char **e = environ; e != NULL && *e != NULL; e++)
        for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
            if (n < SPAWN_ENVIRONMENT_MAX - 1 && strncmp(*e, kept[i], strlen(kept[i])) == 0)
                environment[n++] = *e;
    environment[n] = NULL;
}

static void spawn_raise_limit(__rlimit_resource_t resource, rlim_t wanted)
{
    struct rlimit limit = {.rlim_cur = wanted, .rlim_max = wanted};

    if (setrlimit(resource, &limit) == 0 || getrlimit(resource, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max; // without CAP_SYS_RESOURCE
    (void)setrlimit(resource, &limit);
}

static void spawn_set_limits(enum config_role role)
{
    struct rlimit none = {0, 0};

    (void)setrlimit(RLIMIT_CORE, &none);
    spawn_raise_limit(RLIMIT_NOFILE, SPAWN_NOFILE);
    if (role == CONFIG_ROLE_ENGINE)
        spawn_raise_limit(RLIMIT_MEMLOCK, RLIM_INFINITY); // keys are locked in memory
}

static void spawn_reset_signals(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        if (number != SIGPIPE) // stays ignored: a log reader that went away must not end a role
            (void)sigaction(number, &standard, NULL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

// Moves each to its number. First all of them out of the way of the numbers, then into place.
static int spawn_place_fds(const struct spawn_fds *fds, int *program_fd)
{
    const int from[] = {fds->monitor, fds->peer, fds->listener, *program_fd};
    const int to[] = {ROLE_FD_MONITOR, ROLE_FD_PEER, ROLE_FD_LISTENER, SPAWN_FIRST_FREE};
    int high[4];

    for (size_t i = 0; i < 4; i++) {
        high[i] = from[i] < 0 ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, SPAWN_FIRST_FREE + 1);
        if (from[i] >= 0 && high[i] < 0)
            return -errno;
    }
    for (size_t i = 0; i < 4; i++) {
        if (high[i] < 0)
            close(to[i]);
        else if (dup3(high[i], to[i], i == 3 ? O_CLOEXEC : 0) < 0)
            return -errno;
    }
    *program_fd = SPAWN_FIRST_FREE;
    closefrom(SPAWN_FIRST_FREE + 1);
    return 0;
}

static int spawn_silence_standard_fds(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (fd < 0 || dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
        return -errno;
    close(fd);
    return 0;
}

__attribute__((noreturn)) static void spawn_run(int program_fd, enum config_role role,
                                                const struct spawn_fds *fds, pid_t monitor)
{
    static char title[][32] = {"cryptod: front", "cryptod: engine"}, option[] = "--role";
    char name[16], *argv[] = {title[role], option, name, NULL};
    char *environment[SPAWN_ENVIRONMENT_MAX];
    int r;

    snprintf(name, sizeof(name), "%s", spawn_role_name(role));
    // Signals are blocked up to here: libevent's handlers would report them to the monitor.
    spawn_reset_signals();
    r = prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : 0;
    if (getppid() != monitor) // it died before that
        _exit(SPAWN_EXIT_FAILED);
    spawn_set_limits(role);
    spawn_make_environment(environment);
    if (r == 0)
        r = spawn_silence_standard_fds();
    if (r == 0)
        r = spawn_place_fds(fds, &program_fd);
    if (r == 0) {
        fexecve(program_fd, argv, environment);
        r = -errno;
    }
    log_error("cannot start %s: %s", name, strerror(-r));
    _exit(SPAWN_EXIT_FAILED);
}

int spawn_role(int program_fd, enum config_role role, const struct spawn_fds *fds, pid_t *ret_pid)
{
    pid_t monitor = getpid(), pid;
    sigset_t all, old;
    int r;

    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, &old) < 0)
        return -errno;
    pid = fork();
    if (pid == 0)
        spawn_run(program_fd, role, fds, monitor);
    r = pid < 0 ? -errno : 0;
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    if (r == 0)
        *ret_pid = pid;
    return r;
}
