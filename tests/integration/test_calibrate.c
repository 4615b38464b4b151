// SPDX-License-Identifier: MIT
// Calibration on order: by whom, by several, and by clients and to engines that go away meanwhile.
#include <criterion/criterion.h>
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "monitor_rig.h"
#include "packet.h"

#define SLOW       "engine.backends=cpu fault\nengine.fault=delay_ms=15\n"
#define SILENCE_MS 60000
#define GROUP      61995

static struct fixture f;

static void teardown(void)
{
    fixture_stop(&f);
}

TestSuite(calibrate, .fini = teardown, .timeout = 300);

struct asking {
    pthread_t thread;
    int result;
    _Atomic unsigned n_progress, done, total;
    size_t n_rows, n_measured;
};

static void on_progress(void *user, unsigned done, unsigned total)
{
    struct asking *asking = user;

    cr_expect_geq(done, asking->done, "progress goes back");
    asking->done = done;
    asking->total = total;
    asking->n_progress++;
}

static void *ask_main(void *arg)
{
    struct asking *asking = arg;
    struct cryptod_calibration *c = NULL;

    asking->result = cryptod_calibrate(f.socket, SILENCE_MS, on_progress, asking, &c);
    for (size_t i = 0; c != NULL && i < c->n_rows; i++) {
        asking->n_rows++;
        asking->n_measured += c->rows[i].software.ns[6] != CRYPTOD_NOT_MEASURED;
    }
    cryptod_calibration_free(c);
    return NULL;
}

static void ask(struct asking *asking)
{
    *asking = (struct asking){.result = 1};
    cr_assert_eq(pthread_create(&asking->thread, NULL, ask_main, asking), 0);
}

static void wait_progress(struct asking *asking)
{
    for (int i = 0; i < SILENCE_MS && asking->n_progress == 0; i++)
        rig_sleep_ms(1);
    cr_assert_gt(asking->n_progress, 0);
}

static void expect_all_well(struct asking *asking)
{
    pthread_join(asking->thread, NULL);
    cr_expect_eq(asking->result, 0, "%s", strerror(-asking->result));
    cr_expect_eq(asking->n_rows, 12);
    cr_expect_geq(asking->n_measured, 4);
    cr_expect_eq(asking->done, asking->total);
    cr_expect_eq(asking->total, 12 * CRYPTOD_CALIBRATION_SIZES);
}

// Other settings of `offload` measure nothing by themselves, and on order all the same.
Test(calibrate, measures_on_order_and_keeps_it)
{
    struct asking asking;
    char path[160];

    fixture_start(&f, SLOW);
    snprintf(path, sizeof(path), "%s/calibration", f.state);
    ask(&asking);
    wait_progress(&asking);
    cr_expect_neq(access(path, F_OK), 0);
    cr_expect_eq(rig_hello(f.socket, NULL), MESSAGE_OK, "it serves meanwhile");
    expect_all_well(&asking);
    fixture_wait_log(&f, "/calibration: written");
    cr_expect_eq(access(path, F_OK), 0);
    ask(&asking); // and again
    expect_all_well(&asking);
}

// While the one of the start runs it waits for that.
Test(calibrate, comes_after_the_one_of_the_start)
{
    struct asking asking;

    fixture_start(&f, SLOW "lanes.offload=auto\n");
    ask(&asking);
    expect_all_well(&asking);
    fixture_wait_log(&f, "rows measured");
    char *log = fixture_log(&f), *first = strstr(log, "rows measured");
    cr_expect_not_null(strstr(first + 1, "rows measured"), "one run for the start, one on order");
    free(log);
}

static int ask_as(uid_t uid, gid_t gid, bool measure)
{
    int status = -1;
    pid_t pid = fork();

    cr_assert_geq(pid, 0);
    if (pid == 0) {
        struct cryptod_calibration *c = NULL;
        int r;

        if (setgroups(0, NULL) < 0 || setgid(gid) < 0 || setuid(uid) < 0)
            _exit(99);
        r = measure ? cryptod_calibrate(f.socket, SILENCE_MS, NULL, NULL, &c)
                    : cryptod_calibration_get(f.socket, SILENCE_MS, &c);
        cryptod_calibration_free(c);
        _exit(-r);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

Test(calibrate, is_for_root_and_the_admin_group)
{
    char extra[128];

    snprintf(extra, sizeof(extra), "daemon.group=%d\ndaemon.allow_users=61994\n", GROUP);
    fixture_start(&f, extra);
    cr_expect_eq(ask_as(61993, 61993, true), EACCES);
    cr_expect_eq(ask_as(61993, 61993, false), EACCES);
    cr_expect_eq(ask_as(61994, 61994, true), EACCES, "sessions are allowed, this is not");
    cr_expect_eq(ask_as(61993, GROUP, false), 0);
    cr_expect_eq(ask_as(61993, GROUP, true), 0);
    cr_expect_eq(ask_as(0, 0, true), 0);
}

Test(calibrate, one_at_a_time)
{
    struct cryptod_calibration *c = NULL;
    struct asking first;

    fixture_start(&f, SLOW);
    ask(&first);
    wait_progress(&first);
    cr_expect_eq(cryptod_calibrate(f.socket, SILENCE_MS, NULL, NULL, &c), -EBUSY);
    cr_expect_eq(cryptod_calibration_get(f.socket, SILENCE_MS, &c), 0, "what is in use is told");
    cryptod_calibration_free(c);
    expect_all_well(&first);
}

Test(calibrate, a_client_that_goes_away_changes_nothing)
{
    struct message m = {.type = MESSAGE_CALIBRATE, .serial = 1, .u.calibrate = {.measure = 1}};
    struct cryptod_calibration *c = NULL;
    int fds[MESSAGE_FDS_MAX];

    fixture_start(&f, SLOW);
    int control = rig_connect(f.socket);
    cr_assert_eq(packet_send(control, &m, NULL, 0), 0);
    cr_assert_eq(packet_recv(control, MESSAGE_FRONT_TO_CLIENT, &m, fds), 0);
    cr_expect_eq(m.type, MESSAGE_CALIBRATION_PROGRESS);
    close(control);
    cr_expect_eq(rig_hello(f.socket, NULL), MESSAGE_OK);
    cr_expect_eq(cryptod_calibrate(f.socket, SILENCE_MS, NULL, NULL, &c), -EBUSY,
                 "it goes on for nobody");
    fixture_wait_log(&f, "rows measured");
    cr_expect_eq(cryptod_calibrate(f.socket, SILENCE_MS, NULL, NULL, &c), 0);
    cryptod_calibration_free(c);
    fixture_wait_serving(&f, false);
}

Test(calibrate, an_engine_that_dies_is_told_of)
{
    struct cryptod_calibration *c = NULL;
    struct asking asking;

    fixture_start(&f, SLOW);
    ask(&asking);
    wait_progress(&asking);
    pid_t engine = fixture_role_pid(&f, "engine");
    cr_assert_eq(kill(engine, SIGKILL), 0);
    pthread_join(asking.thread, NULL);
    cr_expect_eq(asking.result, -ECONNRESET);
    fixture_wait_role(&f, "engine", engine);
    fixture_wait_serving(&f, false);
    cr_expect_eq(cryptod_calibrate(f.socket, SILENCE_MS, NULL, NULL, &c), 0);
    cryptod_calibration_free(c);
}

Test(calibrate, a_stop_does_not_wait_for_it)
{
    struct asking asking;

    fixture_start(&f, SLOW);
    ask(&asking);
    wait_progress(&asking);
    fixture_stop(&f); // asserts an orderly end
    pthread_join(asking.thread, NULL);
    cr_expect_eq(asking.result, -ECONNRESET);
}

// ---------------------------------------------------------------- the command

static int run_command(const char *arguments, char *ret_out, size_t n_out)
{
    char command[512];

    snprintf(command, sizeof(command), "%s --socket %s %s 2>&1", fixture_built("cryptoctl"),
             f.socket, arguments);
    FILE *pipe = popen(command, "re");
    cr_assert_not_null(pipe);
    size_t n = fread(ret_out, 1, n_out - 1, pipe);
    ret_out[n] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(calibrate, command_prints_tables_and_json)
{
    static char out[65536];

    fixture_start(&f, NULL);
    cr_expect_eq(run_command("calibrate", out, sizeof(out)), 0, "%s", out);
    cr_expect_not_null(strstr(out, "measuring: 100 %\n"), "%s", out);
    cr_expect_not_null(strstr(out, "ALGORITHM"), "%s", out);
    cr_expect_not_null(strstr(out, "aes-256-ctr"), "%s", out);
    cr_expect_not_null(strstr(out, "waking the daemon and being woken: "), "%s", out);
    cr_expect_eq(run_command("calibrate --show", out, sizeof(out)), 0, "%s", out);
    cr_expect_null(strstr(out, "measuring: "), "%s", out);
    cr_expect_eq(run_command("calibrate --show --json", out, sizeof(out)), 0, "%s", out);
    cr_expect_eq(out[0], '{');
    cr_expect_not_null(strstr(out, "\"wake_ns\""), "%s", out);
    cr_expect_not_null(strstr(out, "\"keystream\""), "%s", out);
    cr_expect_eq(run_command("calibrates", out, sizeof(out)), 2);
    fixture_stop(&f);
    cr_expect_eq(run_command("calibrate", out, sizeof(out)), 3, "%s", out);
}
