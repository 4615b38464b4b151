// SPDX-License-Identifier: MIT
// The child never returns into the test framework: it ends with _exit(), so no exit handler runs in
// a sandbox.
#include "confined.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HANG_GUARD_S      60
#define STATUS_NOT_LOADED 120

static pid_t child_start(confined_body body, const void *argument, int error_fd)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    cr_assert(pid >= 0, "fork: %s", strerror(errno));
    if (pid > 0)
        return pid;
    alarm(HANG_GUARD_S);
    if (error_fd >= 0)
        dup2(error_fd, STDERR_FILENO);
    _exit(body(argument));
}

static int child_wait(pid_t pid)
{
    int status = -1;

    cr_assert(waitpid(pid, &status, 0) == pid, "waitpid: %s", strerror(errno));
    return status;
}

int confined_run(confined_body body, const void *argument)
{
    return child_wait(child_start(body, argument, -1));
}

int confined_run_heard(confined_body body, const void *argument, char *ret_text, size_t n_text)
{
    size_t n = 0;
    ssize_t got;
    int ends[2];
    pid_t pid;

    cr_assert(pipe2(ends, O_CLOEXEC) == 0);
    pid = child_start(body, argument, ends[1]);
    close(ends[1]);
    while (n + 1 < n_text && (got = read(ends[0], ret_text + n, n_text - 1 - n)) > 0)
        n += (size_t)got;
    ret_text[n] = '\0';
    close(ends[0]);
    return child_wait(pid);
}

// Nothing but write(), which every sandbox here allows.
int confined_complain(const char *file, unsigned line, const char *condition)
{
    char text[256];
    int n = snprintf(text, sizeof(text), "%s:%u: not so: %s\n", file, line, condition);

    (void)!write(STDERR_FILENO, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
    return 1;
}

void confined_load(enum sandbox_role role, enum sandbox_action action)
{
    if (sandbox_load(role, action) != 0)
        _exit(STATUS_NOT_LOADED);
}

void confined_assert_exit(int status, int expected, const char *what)
{
    cr_assert(!WIFSIGNALED(status), "%s: died by signal %d", what, WTERMSIG(status));
    cr_assert(WEXITSTATUS(status) == expected, "%s: exit status %d instead of %d", what,
              WEXITSTATUS(status), expected);
}

void confined_assert_killed(int status, const char *what)
{
    cr_assert(WIFSIGNALED(status), "%s: was not killed, exit status %d", what, WEXITSTATUS(status));
    cr_assert(WTERMSIG(status) == SIGSYS, "%s: killed by signal %d", what, WTERMSIG(status));
}

void confined_wait_state(pid_t pid, char state)
{
    const struct timespec pause = {0, 5000000};
    char path[64], text[256];
    bool reached = false;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    for (int i = 0; i < 6000 && !reached; i++) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = read(fd, text, sizeof(text) - 1);
        const char *end;

        close(fd);
        cr_assert(n > 0, "process %d is gone", (int)pid);
        text[n] = '\0';
        end = strrchr(text, ')');
        reached = end && end[1] == ' ' && end[2] == state;
        if (!reached)
            nanosleep(&pause, NULL);
    }
    cr_assert(reached, "process %d never got to state %c", (int)pid, state);
}
