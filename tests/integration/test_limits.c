// SPDX-License-Identifier: MIT
// Each limit of the real daemon, met by one user while another works: the one is refused with a
// reason and goes on in software, rightly; the other does not notice; and status shows it.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client_flow.h"
#include "front_raw.h"

#define USER  61993 // allowed
#define ADMIN 61994 // the admin group
#define PLAIN 61995 // not allowed, but may ask for the status

#define CONF RAW_PATIENT "daemon.allow_users=61993\ndaemon.group=61994\n"

static struct fixture fixture;
static struct client_flow flow, other_flow; // of the user's process

static void teardown(void)
{
    fixture_stop(&fixture);
}

TestSuite(limits, .timeout = 300, .fini = teardown);

// Another user's process. It is made before the test has a channel: the library would give it one
// of its own, as root.
static struct {
    pid_t pid;
    int go;
} other;

static void prepare_as(uid_t uid, int (*run)(const struct fixture *f))
{
    int pipes[2];
    char byte;

    cr_assert_eq(pipe2(pipes, O_CLOEXEC), 0);
    other.pid = fork();
    cr_assert_geq(other.pid, 0);
    if (other.pid == 0) {
        close(pipes[1]);
        if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
            _exit(100);
        prctl(PR_SET_PDEATHSIG, SIGKILL); // it may be stopped when the test fails
        _exit(read(pipes[0], &byte, 1) == 1 ? run(&fixture) : 101);
    }
    close(pipes[0]);
    other.go = pipes[1];
}

static void run_other(void)
{
    cr_assert_eq(write(other.go, "", 1), 1);
    const int step = client_wait(other.pid);
    cr_expect_eq(step, 0, "step %d of the other user", step);
    close(other.go);
}

// With a witness, root.
static void start(const char *conf, uint32_t algorithm, int (*run)(const struct fixture *f))
{
    fixture_start(&fixture, conf);
    client_flow_init(&flow, algorithm, true);
    client_flow_init(&other_flow, algorithm, true);
    prepare_as(USER, run);
    raw_witness_start(&fixture);
}

// With a witness that still works; as root it is another user than USER.
static void finish(void)
{
    raw_witness_check();
    raw_witness_stop();
    client_flow_fini(&flow);
    client_flow_fini(&other_flow);
}

static void in_log(const char *reason)
{
    char text[160];

    snprintf(text, sizeof(text), "uid %d", USER);
    raw_wait_log_count(&fixture, text, reason, 1);
}

static uint64_t refused(enum cryptod_limit limit)
{
    struct cryptod_status *status = NULL;

    cr_assert_eq(cryptod_status_get(fixture.socket, 30000, &status), 0);
    uint64_t n = status->limits[limit].refused;
    cryptod_status_free(status);
    return n;
}

// Steps until bytes of the stream went through its lane. In a child: no Criterion.
static bool uses_lane(struct client_flow *f)
{
    uint64_t before = client_lane_bytes();

    for (int i = 0; i < 3000; i++) {
        if (!client_flow_step_is_right(f, 32768))
            return false;
        if (client_lane_bytes() > before)
            return true;
        usleep(10000);
    }
    return false;
}

static int open_here(const struct fixture *f)
{
    return cryptod_open(f->socket, 30000);
}

// ---------------------------------------------------------------- streams

static int use_two_streams(const struct fixture *f)
{
    if (open_here(f) != 0)
        return 1;
    if (!uses_lane(&flow))
        return 2;
    for (int i = 0; i < 50; i++) {
        if (!client_flow_step_is_right(&other_flow, 32768))
            return 3;
        usleep(1000);
    }
    if (cryptod_stream_lane(other_flow.stream) != CRYPTOD_LANE_SOFTWARE)
        return 4;
    if (client_counters().fallbacks != 0)
        return 5;
    return client_flow_step_is_right(&flow, 32768) &&
                   cryptod_stream_lane(flow.stream) != CRYPTOD_LANE_SOFTWARE
               ? 0
               : 6;
}

Test(limits, streams)
{
    start(CONF "limits.streams_per_uid=1\n", ALGORITHM_AES_256_CBC, use_two_streams);
    run_other();
    in_log("a limit of this user or of the daemon is reached (streams_per_uid)");
    cr_expect_geq(refused(CRYPTOD_LIMIT_STREAMS), 1);
    finish();
}

// ---------------------------------------------------------------- memory that sessions bring

static int open_four_sessions(const struct fixture *f)
{
    int error = 0;

    // Each in a process of its own that stays until the last has tried.
    for (int i = 0; i < 4; i++) {
        int pipes[2];
        if (pipe(pipes) < 0)
            return 90;
        if (fork() == 0) {
            char byte = (char)-open_here(f);
            if (write(pipes[1], &byte, 1) != 1)
                _exit(1);
            sleep(600); // the test kills the whole group
            _exit(0);
        }
        char byte;
        if (read(pipes[0], &byte, 1) != 1)
            return 91;
        if (i < 3 && byte != 0)
            return 10 + i;
        error = byte;
    }
    return error == EUSERS ? 0 : 20;
}

static int in_a_group(const struct fixture *f)
{
    if (setpgid(0, 0) < 0)
        return 99;
    pid_t child = fork();
    int status;
    if (child == 0)
        _exit(open_four_sessions(f));
    if (waitpid(child, &status, 0) != child)
        return 98;
    signal(SIGTERM, SIG_IGN);
    kill(0, SIGTERM);
    return WEXITSTATUS(status);
}

Test(limits, shared_memory)
{
    start(CONF "limits.shared_memory_per_uid=1M\n", ALGORITHM_AES_256_CBC, in_a_group);
    run_other();
    in_log("too large for a limit of this user or of the daemon (shared_memory_per_uid)");
    cr_expect_geq(refused(CRYPTOD_LIMIT_SHARED_MEMORY), 1);
    raw_wait_channels(&fixture, 1);
    finish();
}

// ---------------------------------------------------------------- keystream and requests

// Two fast streams, where there is room for the window of one. Whatever is refused, the bytes are
// right.
static int work_at_a_limit(const struct fixture *f)
{
    if (open_here(f) != 0)
        return 1;
    if (!uses_lane(&flow) || !uses_lane(&other_flow))
        return 2;
    for (int i = 0; i < 100; i++)
        if (!client_flow_step_is_right(&flow, 300000) ||
            !client_flow_step_is_right(&other_flow, 300000))
            return 3;
    if (client_lane_bytes() == 0)
        return 4;
    return client_counters().timeouts == 0 ? 0 : 5;
}

Test(limits, locked_memory)
{
    start(CONF "limits.locked_memory_per_uid=3M\n", ALGORITHM_AES_256_CTR, work_at_a_limit);
    run_other();
    in_log("requests refused: uid 61993 is at a limit (locked_memory_per_uid)");
    cr_expect_geq(refused(CRYPTOD_LIMIT_LOCKED_MEMORY), 1);
    finish();
}

Test(limits, requests_in_flight)
{
    start(CONF "limits.requests_per_uid=6\n", ALGORITHM_AES_256_CTR, work_at_a_limit);
    run_other();
    in_log("requests refused: uid 61993 is at a limit (requests_per_uid)");
    cr_expect_geq(refused(CRYPTOD_LIMIT_REQUESTS), 1);
    finish();
}

// ---------------------------------------------------------------- connects a second

// Often enough that both ways meet the limit, on a slow machine too.
static int connect_too_often(const struct fixture *f)
{
    bool status_refused = false, open_refused = false;

    for (int i = 0; i < 300 && !(status_refused && open_refused); i++) {
        struct cryptod_status *status = NULL;
        int r = cryptod_status_get(f->socket, 30000, &status);
        if (r == 0)
            cryptod_status_free(status);
        else if (r != -EDQUOT)
            return 1;
        status_refused = status_refused || r != 0;
        r = open_here(f);
        if (r == 0)
            cryptod_close();
        else if (r != -EDQUOT)
            return 2;
        open_refused = open_refused || r != 0;
    }
    return !status_refused ? 3 : !open_refused ? 4 : 0;
}

Test(limits, connects_a_second)
{
    start(CONF "limits.connects_per_uid=1\n", ALGORITHM_AES_256_CTR, connect_too_often);
    run_other();
    in_log("too many connects, a second or at a time (connects_per_uid)");
    cr_expect_geq(refused(CRYPTOD_LIMIT_CONNECTS), 2);
    for (int i = 0; i < 50; i++) // root, as a storm of logins is
        (void)refused(CRYPTOD_LIMIT_CONNECTS);
    finish();
}

// ---------------------------------------------------------------- status

// Without a channel of the library, or each child would have one too.
static int see_users(const struct fixture *f, size_t n_users)
{
    struct cryptod_status *status = NULL;
    int r = cryptod_status_get(f->socket, 30000, &status);

    if (r != 0)
        return 1;
    const struct cryptod_status_limit *limits = status->limits;
    if (limits[CRYPTOD_LIMIT_CHANNELS].used != 2 || limits[CRYPTOD_LIMIT_CHANNELS].in_all != 10 ||
        limits[CRYPTOD_LIMIT_CHANNELS].per_uid != 7 || limits[CRYPTOD_LIMIT_STREAMS].used != 1 ||
        limits[CRYPTOD_LIMIT_SHARED_MEMORY].used == 0 ||
        limits[CRYPTOD_LIMIT_LOCKED_MEMORY].used == 0 || limits[CRYPTOD_LIMIT_CONNECTS].used == 0)
        r = 2;
    else if (status->n_user_rows != n_users)
        r = 10 + (int)status->n_user_rows;
    for (size_t i = 0; r == 0 && i < n_users; i++) {
        const struct cryptod_status_user *row = &status->user_rows[i];
        const bool has_stream = row->uid == USER;
        if (row->used[CRYPTOD_LIMIT_CHANNELS] != (row->uid == 0 || row->uid == USER) ||
            row->used[CRYPTOD_LIMIT_STREAMS] != has_stream ||
            (row->used[CRYPTOD_LIMIT_LOCKED_MEMORY] > 0) != has_stream)
            r = 3;
    }
    cryptod_status_free(status);
    return r;
}

static int see_totals(const struct fixture *f)
{
    return see_users(f, 0);
}

// root, USER and himself
static int see_three(const struct fixture *f)
{
    return see_users(f, 3);
}

static int hold_a_session(const struct fixture *f)
{
    if (open_here(f) != 0 || !uses_lane(&flow))
        return 1;
    raise(SIGSTOP);
    return 0;
}

Test(limits, status_shows_them_and_an_ordinary_user_only_totals)
{
    struct raw_channel channel;
    int status;

    fixture_start(&fixture, CONF "limits.channels_max=10\nlimits.channels_per_uid=7\n");
    client_flow_init(&flow, ALGORITHM_AES_256_CTR, true);
    prepare_as(USER, hold_a_session);
    int root = raw_open(&fixture, &channel);
    cr_assert_eq(write(other.go, "", 1), 1);
    cr_assert_eq(waitpid(other.pid, &status, WUNTRACED), other.pid);
    cr_assert(WIFSTOPPED(status), "status %#x", (unsigned)status);
    raw_run_as(&fixture, PLAIN, NULL, 0, see_totals);
    raw_run_as(&fixture, USER, NULL, 0, see_totals);
    raw_run_as(&fixture, ADMIN, NULL, 0, see_three);
    raw_run_as(&fixture, PLAIN, (const gid_t[]){ADMIN}, 1, see_three);
    cr_assert_eq(kill(other.pid, SIGKILL), 0);
    cr_assert_eq(waitpid(other.pid, NULL, 0), other.pid);
    close(other.go);
    close(root);
    raw_channel_free(&channel);
    raw_wait_channels(&fixture, 0);
    client_flow_fini(&flow);
}

// ---------------------------------------------------------------- access

// As sshd's child that carries the data: it comes as root, by the fork handler, and then becomes a
// user whom nobody has allowed anything. Its shell, forked from it, is that user from the start.
static int become_ordinary(const struct fixture *f)
{
    (void)f;
    pid_t child = fork();
    int status;

    if (child == 0) {
        if (setresgid(PLAIN, PLAIN, PLAIN) < 0 || setresuid(PLAIN, PLAIN, PLAIN) < 0)
            _exit(1);
        if (!uses_lane(&flow))
            _exit(2);
        pid_t shell = fork();
        if (shell == 0)
            _exit(client_flow_step_is_right(&flow, 32768) && client_lane_bytes() == 0 ? 0 : 1);
        if (waitpid(shell, &status, 0) != shell || status != 0)
            _exit(3);
        if (!uses_lane(&flow))
            _exit(4);
        _exit(client_counters().fallbacks == 0 ? 0 : 5);
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 9;
}

Test(limits, sessions_of_ordinary_users_come_as_root)
{
    fixture_start(&fixture, RAW_PATIENT);
    client_flow_init(&flow, ALGORITHM_AES_256_CTR, true);
    client_flow_init(&other_flow, ALGORITHM_AES_256_CTR, true);
    raw_witness_start(&fixture);
    const int step = become_ordinary(&fixture);
    cr_expect_eq(step, 0, "step %d", step);
    raw_wait_log_count(&fixture, "client refused", "uid 61995: this user may not use cryptod", 1);
    finish();
}
