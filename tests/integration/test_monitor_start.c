// SPDX-License-Identifier: MIT
// How the monitor starts, in good and in bad surroundings, with systemd and without.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "monitor_rig.h"

static struct fixture f, second;

static void teardown(void)
{
    fixture_stop(&second);
    fixture_stop(&f);
}

TestSuite(monitor_start, .fini = teardown, .timeout = 180);

// The daemon must end with status 1 and exactly one line in the log, which contains text.
static void expect_refusal(struct fixture *daemon, const char *text)
{
    int status = fixture_wait_end(daemon);
    char *log = fixture_log(daemon);

    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %#x", (unsigned)status);
    cr_expect_not_null(strstr(log, text), "'%s' is not in: %s", text, log);
    cr_expect_eq(strchr(log, '\n'), log + strlen(log) - 1, "one line, not: %s", log);
    free(log);
}

Test(monitor_start, refuses_a_bad_configuration)
{
    fixture_launch(&f, "lanes.sped=1\n");
    expect_refusal(&f, "key 'sped': unknown in section [lanes]");
}

Test(monitor_start, refuses_an_unknown_user)
{
    fixture_launch(&f, "daemon.engine_user=no-such-user\n");
    expect_refusal(&f, "key 'engine_user': no user 'no-such-user'");
}

static void become_nobody(void *user)
{
    (void)user;
    if (setgroups(0, NULL) < 0 || setgid(FIXTURE_FRONT_UID) < 0 || setuid(FIXTURE_FRONT_UID) < 0)
        _exit(99);
}

Test(monitor_start, refuses_to_start_as_a_user)
{
    fixture_launch_with(&f, NULL, become_nobody, NULL);
    expect_refusal(&f, "must be started as root");
}

static void drop_chroot(void *user)
{
    (void)user;
    if (prctl(PR_CAPBSET_DROP, CAP_SYS_CHROOT) < 0)
        _exit(99);
}

// A sandbox that cannot be had is no reason to try again, and none to do without it.
Test(monitor_start, ends_if_a_role_cannot_be_locked_away)
{
    fixture_launch_with(&f, NULL, drop_chroot, NULL);
    int status = fixture_wait_end(&f);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %#x", (unsigned)status);
    fixture_wait_log(&f, "ended with exit status 1; the lines above say why");
    fixture_wait_log(&f, "front: error: cannot start: Operation not permitted");
    cr_expect_neq(access(f.socket, F_OK), 0, "the socket is left behind");
}

static void point_at_socket_of(struct fixture *other, const struct fixture *one)
{
    char extra[256];

    snprintf(extra, sizeof(extra), "daemon.socket=%s\n", one->socket);
    fixture_launch(other, extra);
}

Test(monitor_start, refuses_the_socket_of_a_living_daemon)
{
    fixture_start(&f, NULL);
    point_at_socket_of(&second, &f);
    expect_refusal(&second, ": another cryptod is running");
    fixture_wait_serving(&f, false);
}

Test(monitor_start, takes_over_the_socket_of_a_dead_daemon)
{
    fixture_start(&f, NULL);
    cr_assert_eq(kill(f.monitor, SIGKILL), 0);
    fixture_wait_end(&f);
    cr_assert_eq(access(f.socket, F_OK), 0);
    point_at_socket_of(&second, &f);
    snprintf(second.socket, sizeof(second.socket), "%s", f.socket);
    fixture_wait_serving(&second, false);
    fixture_stop(&second); // and removes it, asserted there
}

Test(monitor_start, does_not_remove_what_is_no_socket)
{
    struct stat st;

    fixture_launch(&f, "lanes.sped=1\n"); // for its folder
    fixture_wait_end(&f);
    snprintf(f.socket, sizeof(f.socket), "%s/file", f.folder);
    int fd = open(f.socket, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    close(fd);
    point_at_socket_of(&second, &f);
    expect_refusal(&second, ": exists and is not a socket");
    cr_expect(stat(f.socket, &st) == 0 && S_ISREG(st.st_mode));
}

// ---------------------------------------------------------------- systemd

static void pass_socket(void *user)
{
    char pid[32];

    if (dup2(*(int *)user, 3) < 0) // SD_LISTEN_FDS_START; dup2 clears CLOEXEC
        _exit(99);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", "1", 1);
}

// A descriptor that is not 3, so that dup2() makes a new one.
static int listen_outside(const char *name, int type, char path[96])
{
    const char *parent = getenv("TMPDIR");
    int fd;

    snprintf(path, 96, "%s/%s.%d", parent != NULL ? parent : P_tmpdir, name, (int)getpid());
    unlink(path);
    fd = fcntl(rig_listen(path, type), F_DUPFD_CLOEXEC, 10);
    cr_assert_geq(fd, 10);
    return fd;
}

Test(monitor_start, uses_the_socket_that_systemd_passes)
{
    char path[96];
    int fd = listen_outside("cryptod-test-activation", SOCK_SEQPACKET, path);

    fixture_launch_with(&f, NULL, pass_socket, &fd);
    close(fd);
    cr_expect_neq(access(f.socket, F_OK), 0, "no other socket is made");
    snprintf(f.socket, sizeof(f.socket), "%s", path);
    fixture_wait_serving(&f, false);
    cr_expect_eq(rig_hello(path, NULL), MESSAGE_OK);
    cr_assert_eq(kill(f.monitor, SIGTERM), 0);
    int status = fixture_wait_end(&f);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_expect_eq(access(path, F_OK), 0, "it is systemd's, and stays");
    unlink(path);
}

Test(monitor_start, refuses_a_passed_socket_of_another_kind)
{
    char path[96];
    int fd = listen_outside("cryptod-test-stream", SOCK_STREAM, path);

    fixture_launch_with(&f, NULL, pass_socket, &fd);
    close(fd);
    unlink(path);
    expect_refusal(&f, "is not a listening Unix SOCK_SEQPACKET socket");
}

// Waits until a notification contains text.
static void expect_notification(int fd, const char *text)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char got[4096];

    while (poll(&p, 1, 20000) == 1) {
        ssize_t n = recv(fd, got, sizeof(got) - 1, 0);
        cr_assert_geq(n, 0);
        got[n] = '\0';
        if (strstr(got, text) != NULL)
            return;
    }
    cr_assert_fail("systemd was not told %s", text);
}

Test(monitor_start, tells_systemd)
{
    char path[96];
    int fd = listen_outside("cryptod-test-notify", SOCK_DGRAM, path);

    setenv("NOTIFY_SOCKET", path, 1);
    setenv("WATCHDOG_USEC", "400000", 1);
    fixture_launch(&f, NULL);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    expect_notification(fd, "READY=1\nSTATUS=Serving (0 restarts)");
    fixture_wait_serving(&f, false);
    expect_notification(fd, "WATCHDOG=1");
    expect_notification(fd, "WATCHDOG=1");
    cr_assert_eq(kill(f.monitor, SIGHUP), 0);
    expect_notification(fd, "RELOADING=1\nMONOTONIC_USEC=");
    expect_notification(fd, "READY=1");
    pid_t engine = fixture_wait_role(&f, "engine", 0);
    cr_assert_eq(kill(engine, SIGKILL), 0);
    expect_notification(fd, "STATUS=Starting (1 restarts)");
    expect_notification(fd, "STATUS=Serving (1 restarts)");
    fixture_stop(&f);
    expect_notification(fd, "STOPPING=1");
    unlink(path);
    close(fd);
}
