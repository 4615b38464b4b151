// SPDX-License-Identifier: MIT
// Cases 40 and 42 from the field: a passed descriptor that vanishes on its way, and floods of them.
//
// 40: a policy (SELinux's, AppArmor's) denies a passed descriptor: the kernel drops it and says
// MSG_CTRUNC. A descriptor limit that is reached does the same, which a test can have anywhere.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client_flow.h"
#include "fixture_proc.h"
#include "front_raw.h"

static struct fixture fixture;
static struct client_flow flow;

static void teardown(void)
{
    fixture_stop(&fixture);
}

TestSuite(cases_descriptors, .timeout = 300, .fini = teardown);

// ---------------------------------------------------------------- 40

static bool is_open_in(pid_t pid, unsigned fd)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int)pid, fd);
    return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

// Limits another process to n more descriptors. Returns the limits that it had.
static struct rlimit leave_descriptors(pid_t pid, unsigned n)
{
    struct rlimit had, limit;
    unsigned top = 0;

    for (unsigned n_free = 0; n_free < n + 1; top++)
        n_free += !is_open_in(pid, top);
    if (prlimit(pid, RLIMIT_NOFILE, NULL, &had) < 0)
        cr_skip_test("no CAP_SYS_RESOURCE: another user's limits cannot be changed here");
    limit = (struct rlimit){.rlim_cur = top - 1, .rlim_max = had.rlim_max};
    cr_assert_eq(prlimit(pid, RLIMIT_NOFILE, &limit, NULL), 0, "%d", errno);
    return had;
}

// Sessions cannot be opened now, and programs go on.
static void expect_software(void)
{
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(cryptod_open(NULL, 30000), -ENOBUFS, "attempt %d", i);
        client_flow_step(&flow, 40000);
    }
    cr_expect_eq(cryptod_stream_lane(flow.stream), CRYPTOD_LANE_SOFTWARE);
}

static void expect_service(void)
{
    cr_assert_eq(cryptod_open(NULL, 30000), 0);
    client_flow_enter_lane(&flow);
    cryptod_close();
}

// A client of another process, whose channel is open all the time.
static struct raw_channel other;

static void expect_other_is_open(int client)
{
    struct message m = {.type = MESSAGE_STATUS, .serial = 1};

    cr_assert(raw_send_message(client, &m, NULL, 0));
    do {
        cr_assert_eq(recv(client, NULL, 0, MSG_PEEK | MSG_TRUNC) > 0, true);
        char buf[MESSAGE_LEN_MAX];
        ssize_t n = recv(client, buf, sizeof(buf), 0);
        cr_assert_eq(message_decode((const uint8_t *)buf, (size_t)n, MESSAGE_FRONT_TO_CLIENT, &m),
                     0);
    } while (m.type != MESSAGE_STATUS_END);
}

static void expect_no_blame(void)
{
    raw_wait_log_count(&fixture, "client refused: ", "out of memory or descriptors", 1);
    cr_expect_eq(raw_log_count(&fixture, "client closed: ", NULL), 0, "nobody broke a rule");
}

// Front is left with room for the connection, and for one or none of the two that are passed.
Test(cases_descriptors, case_40_vanished_on_the_way_to_front)
{
    fixture_start(&fixture, CLIENT_PATIENT);
    int client = raw_open(&fixture, &other);
    pid_t front = fixture_role_pid(&fixture, "front");
    unsigned n_front = fixture_proc_count_descriptors(front);
    client_flow_init(&flow, ALGORITHM_AES_256_CTR, true);
    for (unsigned n = 1; n <= 2; n++) {
        struct rlimit had = leave_descriptors(front, n);
        expect_software();
        cr_assert_eq(prlimit(front, RLIMIT_NOFILE, &had, NULL), 0);
    }
    expect_no_blame();
    raw_wait_fds(front, n_front);
    expect_other_is_open(client);
    expect_service();
    cr_expect_eq(fixture_role_pid(&fixture, "front"), front);
    client_flow_fini(&flow);
    close(client);
    raw_channel_free(&other);
}

static void limit_descriptors(void *user)
{
    const struct rlimit few = {60, 60};

    (void)user;
    prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE); // with which the monitor would raise it again
    setrlimit(RLIMIT_NOFILE, &few);
}

// The engine has two of each session, front has one: the engine is full first.
Test(cases_descriptors, case_40_vanished_on_the_way_to_the_engine)
{
    enum { MOST = 30 };
    struct raw_channel channels[MOST];
    int clients[MOST], n = 0;
    struct message m;

    fixture_launch_with(&fixture, CLIENT_PATIENT, limit_descriptors, NULL);
    fixture_wait_serving(&fixture, false);
    fixture_settle(&fixture);
    pid_t engine = fixture_role_pid(&fixture, "engine");
    unsigned n_engine = fixture_proc_count_descriptors(engine);
    client_flow_init(&flow, ALGORITHM_AES_256_CTR, true);
    int client = raw_open(&fixture, &other);
    do {
        cr_assert_lt(n, MOST, "the engine has never enough");
        raw_channel_make(&channels[n]);
        clients[n] = raw_connect(&fixture);
        raw_hello_fill(&m);
        cr_assert(raw_send_message(clients[n], &m,
                                   (const int[]){channels[n].memory, channels[n].bell[1]}, 2));
        raw_expect(clients[n], MESSAGE_HELLO_REPLY, &m);
        n++;
    } while (m.u.hello_reply.reason == MESSAGE_OK);
    cr_expect_eq(m.u.hello_reply.reason, MESSAGE_REASON_INTERNAL);
    expect_software();
    expect_no_blame();
    expect_other_is_open(client);
    for (int i = 0; i < n; i++) {
        close(clients[i]);
        raw_channel_free(&channels[i]);
    }
    raw_wait_fds(engine, n_engine + 2);
    expect_service();
    cr_expect_eq(fixture_role_pid(&fixture, "engine"), engine);
    client_flow_fini(&flow);
    close(client);
    raw_channel_free(&other);
}

// ---------------------------------------------------------------- 42

// A message of that type with n descriptors, of kinds in turn.
static void flood(const struct message *m, size_t n, const int *kinds, size_t n_kinds)
{
    int client = raw_connect(&fixture);
    int fds[RAW_FDS_MAX];

    for (size_t i = 0; i < n; i++)
        fds[i] = i % (n_kinds + 1) == n_kinds ? client : kinds[i % (n_kinds + 1)]; // itself, too
    raw_send_message(client, m, fds, n);
    raw_send_message(client, m, fds, n); // behind a question that is answered
    raw_expect_closed(client);
    close(client);
}

Test(cases_descriptors, case_42_floods_are_refused_and_the_count_stays)
{
    static const size_t counts[] = {1, 3, 4, 100, RAW_FDS_MAX};
    struct raw_channel channel;
    struct message hello, status = {.type = MESSAGE_STATUS, .serial = 1};
    int pipes[2];

    fixture_start(&fixture, RAW_PATIENT);
    raw_witness_start(&fixture);
    raw_channel_make(&channel);
    raw_hello_fill(&hello);
    cr_assert_eq(pipe(pipes), 0);
    pid_t front = fixture_role_pid(&fixture, "front"),
          engine = fixture_role_pid(&fixture, "engine");
    unsigned n_front = fixture_proc_count_descriptors(front),
             n_engine = fixture_proc_count_descriptors(engine);
    const int kinds[] = {channel.memory, channel.bell[1], pipes[0], STDERR_FILENO};

    for (int round = 0; round < 40; round++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            flood(&hello, counts[i], kinds, 4);
            flood(&status, counts[i], kinds, 4);
        }
        cr_assert_leq(fixture_proc_count_descriptors(front), n_front + 2, "round %d", round);
    }
    raw_wait_fds(front, n_front);
    raw_wait_fds(engine, n_engine);
    raw_wait_log_count(&fixture, "client closed: ", "malformed message or wrong descriptors", 20);

    // In the kernel, between a client that sends and a daemon that does not read: the user's limit
    // (ETOOMANYREFS, EAGAIN) and not the daemon's.
    cr_assert_eq(kill(front, SIGSTOP), 0);
    int waiting[20];
    for (int i = 0; i < 20; i++) {
        int fds[RAW_FDS_MAX];
        for (size_t k = 0; k < RAW_FDS_MAX; k++)
            fds[k] = channel.memory;
        waiting[i] = raw_connect(&fixture);
        raw_send_message(waiting[i], &hello, fds, RAW_FDS_MAX);
    }
    cr_assert_eq(kill(front, SIGCONT), 0);
    for (int i = 0; i < 20; i++) {
        raw_expect_closed(waiting[i]);
        close(waiting[i]);
    }
    raw_wait_fds(front, n_front);
    raw_witness_check();
    raw_witness_stop();
    raw_channel_free(&channel);
    cr_expect_eq(fixture_role_pid(&fixture, "front"), front);
    cr_expect_eq(fixture_role_pid(&fixture, "engine"), engine);
}
