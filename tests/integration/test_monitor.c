// SPDX-License-Identifier: MIT
// The monitor with the real roles: start, stop, supervision, reload.
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "fixture_proc.h"
#include "monitor_rig.h"

static struct fixture f;

static void teardown(void)
{
    fixture_stop(&f);
}

TestSuite(monitor, .fini = teardown, .timeout = 180);

Test(monitor, serves_and_leaves_nothing)
{
    struct cryptod_status *status = NULL;
    struct stat st;

    fixture_start(&f, NULL);
    cr_assert_eq(cryptod_status_get(NULL, 2000, &status), 0);
    cr_expect_str_eq(status->release, CRYPTOD_VERSION);
    cr_expect_eq(status->software_only, false);
    cr_expect_eq(status->restarts, 0);
    cryptod_status_free(status);
    cr_assert_eq(stat(f.socket, &st), 0);
    cr_expect_eq(st.st_mode & 07777, 0666, "who may use it is decided by credentials");
    *strrchr(f.socket, '/') = '\0';
    cr_assert_eq(stat(f.socket, &st), 0);
    cr_expect_eq(st.st_mode & 07777, 0755);
    fixture_stop(&f); // looks for processes and the socket
}

Test(monitor, gives_roles_only_what_they_need)
{
    static const char *const roles[] = {"front", "engine"};

    setenv("OPENSSL_ia32cap", "~0x0", 1);
    setenv("CRYPTOD_TEST_SECRET", "1", 1);
    fixture_start(&f, NULL);
    for (size_t i = 0; i < 2; i++) {
        pid_t pid = fixture_wait_role(&f, roles[i], 0);
        char name[64], *environment = rig_read_proc(pid, "environ");
        char *comm = rig_read_proc(pid, "comm"), *limits = rig_read_proc(pid, "limits");

        cr_expect_not_null(strstr(environment, "OPENSSL_ia32cap=~0x0"), "the benches need it");
        cr_expect_not_null(strstr(environment, "OPENSSL_CONF=/dev/null"));
        cr_expect_null(strstr(environment, "PATH="));
        cr_expect_null(strstr(environment, "CRYPTOD_TEST_SECRET="));
        snprintf(name, sizeof(name), "cryptod-%s\n", roles[i]);
        cr_expect_str_eq(comm, name);
        cr_expect_not_null(strstr(limits, "Max core file size        0                    0 "));
        cr_expect_eq(rig_proc_status_number(pid, "Uid:"),
                     i == 0 ? FIXTURE_FRONT_UID : FIXTURE_ENGINE_UID);
        cr_expect_eq(rig_proc_status_number(pid, "CapEff:"), 0);
        cr_expect_eq(rig_proc_status_number(pid, "Seccomp:"), 2, "filters are on");
        cr_expect_eq(rig_proc_status_number(pid, "NoNewPrivs:"), 1);
        free(environment);
        free(comm);
        free(limits);
    }
}

// Either role may fail: both come back, the service with them, and a restart is counted.
static void kill_and_expect_both_back(const char *role, unsigned restarts)
{
    pid_t front = fixture_wait_role(&f, "front", 0), engine = fixture_wait_role(&f, "engine", 0);
    struct cryptod_status *status = NULL;

    cr_assert_eq(kill(strcmp(role, "front") == 0 ? front : engine, SIGKILL), 0);
    fixture_wait_role(&f, "front", front);
    fixture_wait_role(&f, "engine", engine);
    fixture_wait_serving(&f, false);
    cr_assert_eq(cryptod_status_get(NULL, 2000, &status), 0);
    cr_expect_eq(status->restarts, restarts);
    cryptod_status_free(status);
    cr_expect_eq(rig_hello(f.socket, NULL), MESSAGE_OK, "a channel can be opened again");
}

Test(monitor, starts_both_again_when_one_dies)
{
    fixture_start(&f, NULL);
    kill_and_expect_both_back("front", 1);
    fixture_wait_log(&f, "front killed by signal 9 (Killed); starting again in 100 ms");
    kill_and_expect_both_back("engine", 2);
    fixture_wait_log(&f, "engine killed by signal 9 (Killed); starting again in 200 ms");
}

static void kill_five_times(const char *role)
{
    pid_t pid = 0;

    for (int i = 0; i < 5; i++) {
        pid = fixture_wait_role(&f, role, pid);
        cr_assert_eq(kill(pid, SIGKILL), 0);
    }
}

static void expect_closed_at_once(void)
{
    int fd = rig_connect(f.socket);
    char byte;

    cr_expect_eq(read(fd, &byte, 1), 0, "the end, within the socket's 5 s limit");
    close(fd);
}

Test(monitor, gives_up_step_by_step_and_begins_anew_on_reload)
{
    struct cryptod_status *status = NULL;

    fixture_start(&f, NULL);
    kill_five_times("engine");
    fixture_wait_serving(&f, true);
    cr_expect_eq(fixture_role_pid(&f, "engine"), 0);
    cr_assert_eq(cryptod_status_get(NULL, 2000, &status), 0);
    cr_expect_not_null(strstr(status->text, "5 failures within a minute, the last: engine killed"),
                       "%s", status->text);
    cryptod_status_free(status);
    cr_expect_eq(rig_hello(f.socket, NULL), MESSAGE_REASON_SOFTWARE);
    cr_expect_neq(cryptod_open(NULL, 1000), 0);

    kill_five_times("front");
    fixture_wait_log(&f, "clients are closed at once from now on");
    expect_closed_at_once();
    expect_closed_at_once();
    cr_expect_eq(fixture_role_pid(&f, "front"), 0);

    cr_assert_eq(kill(f.monitor, SIGHUP), 0);
    fixture_wait_serving(&f, false);
    cr_expect_eq(rig_hello(f.socket, NULL), MESSAGE_OK);
}

Test(monitor, reloads)
{
    struct message_hello_reply reply;

    fixture_start(&f, "lanes.deadline_ms=1111\n");
    pid_t front = fixture_role_pid(&f, "front");
    cr_assert_eq(rig_hello(f.socket, &reply), MESSAGE_OK);
    cr_expect_eq(reply.deadline_ms, 1111);

    fixture_configure(&f, "lanes.deadline_ms=2222\n");
    cr_assert_eq(kill(f.monitor, SIGHUP), 0);
    fixture_wait_log(&f, "front: new configuration");
    cr_assert_eq(rig_hello(f.socket, &reply), MESSAGE_OK);
    cr_expect_eq(reply.deadline_ms, 2222);

    fixture_configure(&f, "lanes.deadline_ms=3333\nlanes.sped=1\n");
    cr_assert_eq(kill(f.monitor, SIGHUP), 0);
    fixture_wait_log(&f, "key 'sped': unknown in section [lanes]; the old configuration stays");
    char *log = fixture_log(&f), *line = strstr(log, "cryptod.conf:");
    cr_assert_not_null(line);
    cr_expect_gt(strtol(line + strlen("cryptod.conf:"), NULL, 10), 1, "the line is named");
    free(log);
    cr_assert_eq(rig_hello(f.socket, &reply), MESSAGE_OK);
    cr_expect_eq(reply.deadline_ms, 2222, "a bad file changes nothing");
    cr_expect_eq(fixture_role_pid(&f, "front"), front);
}

Test(monitor, says_which_keys_need_a_restart)
{
    fixture_start(&f, NULL);
    fixture_configure(&f,
                      "daemon.socket=/run/other.sock\ndaemon.front_user=61992\nengine.workers=1\n");
    cr_assert_eq(kill(f.monitor, SIGHUP), 0);
    fixture_wait_log(&f, "configuration read again");
    fixture_wait_log(&f, "key 'socket' is taken over by a restart only");
    fixture_wait_log(&f, "keys 'front_user' and 'engine_user' are taken over by a restart only");
    fixture_wait_log(&f, "keys of section [engine] are taken over by a restart only");
    fixture_wait_serving(&f, false);
}

static void expect_stopped_role_is_replaced(const char *role)
{
    pid_t pid = fixture_wait_role(&f, role, 0);
    char text[64];

    cr_assert_eq(kill(pid, SIGSTOP), 0);
    fixture_wait_role(&f, role, pid);
    snprintf(text, sizeof(text), "%s did not answer 20 pings", role);
    fixture_wait_log(&f, text);
    fixture_wait_serving(&f, false);
}

Test(monitor, replaces_a_role_that_hangs)
{
    fixture_start(&f, "daemon.ping_interval_ms=100\ndaemon.ping_limit=20\n");
    expect_stopped_role_is_replaced("front");
    expect_stopped_role_is_replaced("engine");
}

// Like a machine that was suspended: the roles could not answer because nobody asked.
Test(monitor, blames_nobody_for_its_own_pause)
{
    fixture_start(&f, "daemon.ping_interval_ms=100\ndaemon.ping_limit=40\n");
    pid_t front = fixture_wait_role(&f, "front", 0), engine = fixture_wait_role(&f, "engine", 0);

    cr_assert_eq(kill(f.monitor, SIGSTOP), 0);
    rig_sleep_ms(5000);
    cr_assert_eq(kill(f.monitor, SIGCONT), 0);
    rig_sleep_ms(500);
    cr_expect_eq(fixture_role_pid(&f, "front"), front);
    cr_expect_eq(fixture_role_pid(&f, "engine"), engine);
}

// Stopped roles do not see the end of their descriptors.
Test(monitor, takes_its_roles_along_when_it_is_killed)
{
    fixture_start(&f, NULL);
    cr_assert_eq(kill(fixture_wait_role(&f, "front", 0), SIGSTOP), 0);
    cr_assert_eq(kill(fixture_wait_role(&f, "engine", 0), SIGSTOP), 0);
    cr_assert_eq(kill(f.monitor, SIGKILL), 0);
    fixture_wait_end(&f); // asserts that no role is left
    cr_expect_eq(access(f.socket, F_OK), 0, "nobody was there to remove it");
}

Test(monitor, ends_a_stopped_role_at_a_stop)
{
    fixture_start(&f, NULL);
    cr_assert_eq(kill(fixture_wait_role(&f, "engine", 0), SIGSTOP), 0);
    fixture_stop(&f);
}

// Makes a process that SIGKILL does not end, like one that hangs in a driver: it stops for its
// tracer, us, at its exit, before its descriptors are closed.
static void make_unkillable(pid_t pid)
{
    if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)PTRACE_O_TRACEEXIT) < 0)
        cr_skip_test("ptrace is not allowed here");
    cr_assert_eq(kill(pid, SIGKILL), 0);
    cr_assert_eq(waitpid(pid, NULL, 0), pid, "it stops: %s", strerror(errno));
}

static void let_go(pid_t pid)
{
    cr_expect(fixture_proc_lives(pid), "it was there all the time");
    ptrace(PTRACE_CONT, pid, NULL, NULL);
    waitpid(pid, NULL, 0);
}

Test(monitor, does_not_wait_for_a_role_that_cannot_be_killed)
{
    fixture_start(&f, "daemon.ping_interval_ms=100\ndaemon.ping_limit=20\n");
    pid_t engine = fixture_wait_role(&f, "engine", 0);

    make_unkillable(engine);
    fixture_wait_role(&f, "engine", engine);
    fixture_wait_serving(&f, false);
    fixture_wait_log(&f, "engine did not answer 20 pings");
    cr_expect_eq(rig_hello(f.socket, NULL), MESSAGE_OK, "a new one serves beside it");
    let_go(engine);
}

Test(monitor, stops_without_a_role_that_cannot_be_killed)
{
    fixture_start(&f, NULL);
    pid_t engine = fixture_wait_role(&f, "engine", 0);
    int status;

    make_unkillable(engine);
    cr_assert_eq(kill(f.monitor, SIGTERM), 0);
    fixture_wait_log(&f, "left behind, because they cannot be killed: 1 processes");
    let_go(engine);
    status = fixture_wait_end(&f);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", (unsigned)status);
    cr_expect_neq(access(f.socket, F_OK), 0, "the socket is left behind");
}
