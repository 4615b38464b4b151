// SPDX-License-Identifier: MIT
// Guarantees: what a kernel does to the trial, even if it never comes back, does not hold up or
// harm the caller. Must not know why one would want to know.
#include "reach.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/if_alg.h>

#define REACH_NOBODY  65534
#define REACH_WAIT_MS 2000
#define REACH_DROP_IN "cryptod-no-af-alg.conf"

// An errno, or 0.
static int try_as_nobody(void)
{
    const struct sockaddr_alg address = {
        .salg_family = AF_ALG, .salg_type = "skcipher", .salg_name = "cbc(aes)"};
    int fd;

    if (setgroups(0, NULL) < 0 || setresgid(REACH_NOBODY, REACH_NOBODY, REACH_NOBODY) < 0 ||
        setresuid(REACH_NOBODY, REACH_NOBODY, REACH_NOBODY) < 0)
        return -errno;
    fd = socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    return fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? errno : 0;
}

// A grandchild, so that nobody here has to wait for one that the kernel does not let go.
__attribute__((noreturn)) static void fork_trial(int fd)
{
    pid_t pid = fork();

    if (pid == 0) {
        int32_t result;

        alarm(REACH_WAIT_MS / 1000 + 1);
        result = try_as_nobody();
        _exit(write(fd, &result, sizeof(result)) == (ssize_t)sizeof(result) ? 0 : 1);
    }
    _exit(pid < 0 ? 1 : 0);
}

static int result_receive(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int32_t result;
    ssize_t n;

    if (poll(&p, 1, REACH_WAIT_MS) != 1)
        return -ETIMEDOUT;
    n = read(fd, &result, sizeof(result));
    return n == (ssize_t)sizeof(result) ? result : -EIO;
}

int reach_try(void)
{
    int ends[2], r, status;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    pid = fork();
    if (pid == 0)
        fork_trial(ends[1]);
    r = pid < 0 ? -errno : 0;
    close(ends[1]);
    while (r == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (r == 0)
        r = result_receive(ends[0]);
    close(ends[0]);
    return r;
}

static bool unit_denies(const char *folder, const char *unit)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s.d/" REACH_DROP_IN, folder, unit);
    return access(path, F_OK) == 0;
}

void reach_describe(int result, const char *folder, char *ret, size_t n)
{
    static const char *const units[] = {"ssh.service", "user@.service"};
    char denied[96] = "";

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        size_t at = strlen(denied);
        if (unit_denies(folder, units[i]))
            (void)snprintf(denied + at, sizeof(denied) - at, "%s%s", at > 0 ? ", " : "", units[i]);
    }
    if (result < 0)
        (void)snprintf(ret, n, "who else can reach it is not known: %s", strerror(-result));
    else if (result > 0)
        (void)snprintf(ret, n, "out of reach for an ordinary process: %s", strerror(result));
    else if (denied[0] == '\0')
        (void)snprintf(ret, n,
                       "in reach of any process of this machine; cryptod(8) says how to keep it");
    else
        (void)snprintf(ret, n, "in reach of any process of this machine but those of: %s", denied);
}
