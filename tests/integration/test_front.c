// SPDX-License-Identifier: MIT
// Correct clients of a real front, at every step of their way, and who may see and do what.
#include "front_raw.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "packet.h"
#include "fixture_proc.h"

#define USER_NOBODY  61995 // in no list
#define USER_ALLOWED 61996
#define GROUP_LISTED 61997
#define GROUP_ADMIN  61998

static struct fixture fixture;

static void front_teardown(void)
{
    fixture_stop(&fixture);
}

TestSuite(front, .fini = front_teardown, .timeout = 300);

static void stream_open(int client, uint64_t serial, uint32_t stream, struct message *ret_reply)
{
    const struct message m = {
        .type = MESSAGE_STREAM_OPEN,
        .serial = serial,
        .u.stream_open = {.stream = stream, .algorithm = ALGORITHM_AES_128_CBC},
    };
    cr_assert(raw_send_message(client, &m, NULL, 0));
    if (ret_reply != NULL)
        raw_expect(client, MESSAGE_STREAM_REPLY, ret_reply);
}

Test(front, channel_and_streams)
{
    struct raw_channel channel;
    struct message m;
    struct message_status_summary summary;

    fixture_start(&fixture, RAW_PATIENT);
    int client = raw_open(&fixture, &channel);
    for (uint32_t i = 0; i < 4; i++) {
        memset(shm_stream(&channel.map, i)->key, 0x40 + (int)i, 16);
        stream_open(client, 100 + i, i, &m);
        cr_assert_eq(m.serial, 100 + i);
        cr_assert_eq(m.u.stream_reply.stream, i);
        cr_assert_eq(m.u.stream_reply.reason, MESSAGE_OK);
        for (int k = 0; k < 64; k++) // the engine has taken the key away
            cr_assert_eq(shm_stream(&channel.map, i)->key[k], 0);
    }
    raw_status(&fixture, &summary);
    cr_assert_eq(summary.channels, 1);
    cr_assert_eq(summary.streams, 4);
    cr_assert_eq(summary.streams_total, 4);

    // Close and open again, without waiting for anything.
    for (uint64_t i = 0; i < 100; i++) {
        m = (struct message){.type = MESSAGE_STREAM_CLOSE, .u.stream_close = {2}};
        cr_assert(raw_send_message(client, &m, NULL, 0));
        stream_open(client, 1000 + i, 2, &m);
        cr_assert_eq(m.serial, 1000 + i);
        cr_assert_eq(m.u.stream_reply.reason, MESSAGE_OK);
    }
    raw_status(&fixture, &summary);
    cr_assert_eq(summary.streams, 4);
    cr_assert_eq(summary.violations_total, 0);
    close(client);
    raw_wait_channels(&fixture, 0);
    raw_status(&fixture, &summary);
    cr_assert_eq(summary.streams, 0);
    raw_channel_free(&channel);
}

Test(front, versions)
{
    static const struct {
        uint32_t min, max, reason;
    } cases[] = {
        {1, 1, MESSAGE_OK},
        {1, 9, MESSAGE_OK},
        {0, 1, MESSAGE_OK},
        {0, UINT32_MAX, MESSAGE_OK},
        {2, 9, MESSAGE_REASON_VERSION},
        {0, 0, MESSAGE_REASON_VERSION},
        {1, 0, MESSAGE_REASON_VERSION},
        {UINT32_MAX, UINT32_MAX, MESSAGE_REASON_VERSION},
    };
    struct raw_channel channel;
    struct message m;

    fixture_start(&fixture, RAW_PATIENT);
    raw_channel_make(&channel);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int client = raw_connect(&fixture);
        raw_hello_fill(&m);
        m.u.hello.version_min = cases[i].min;
        m.u.hello.version_max = cases[i].max;
        cr_assert(raw_send_message(client, &m, (const int[]){channel.memory, channel.bell[1]}, 2));
        raw_expect(client, MESSAGE_HELLO_REPLY, &m);
        cr_assert_eq(m.u.hello_reply.reason, cases[i].reason, "%u to %u", cases[i].min,
                     cases[i].max);
        cr_assert_eq(m.u.hello_reply.version, cases[i].reason == MESSAGE_OK);
        if (cases[i].reason != MESSAGE_OK)
            raw_expect_closed(client);
        close(client);
    }
    raw_wait_log_count(&fixture, "client refused: ", "no common protocol version", 4);
    raw_channel_free(&channel);
}

// The client goes away after each of its steps, some of them before the daemon has answered.
static void leave_after(int step)
{
    struct raw_channel channel;
    struct message m;
    int client = raw_connect(&fixture);

    raw_channel_make(&channel);
    raw_hello_fill(&m);
    if (step >= 1)
        cr_assert(raw_send_message(client, &m, (const int[]){channel.memory, channel.bell[1]}, 2));
    if (step >= 2)
        raw_expect(client, MESSAGE_HELLO_REPLY, &m);
    if (step >= 3)
        stream_open(client, 1, 0, step >= 4 ? &m : NULL);
    if (step >= 5) {
        m = (struct message){.type = MESSAGE_STATUS};
        cr_assert(raw_send_message(client, &m, NULL, 0));
    }
    if (step >= 6)
        shutdown(client, SHUT_WR);
    close(client);
    raw_channel_free(&channel);
}

Test(front, leaving_at_each_step)
{
    enum { STEPS = 7, TIMES = 40 };

    fixture_start(&fixture, RAW_PATIENT);
    raw_witness_start(&fixture);
    pid_t front = fixture_role_pid(&fixture, "front"),
          engine = fixture_role_pid(&fixture, "engine");
    unsigned n_front = fixture_proc_count_descriptors(front),
             n_engine = fixture_proc_count_descriptors(engine);
    for (int i = 0; i < STEPS * TIMES; i++)
        leave_after(i % STEPS);
    raw_wait_channels(&fixture, 1);
    raw_wait_fds(front, n_front);
    raw_wait_fds(engine, n_engine);
    raw_witness_check();
    raw_witness_stop();
    cr_assert_eq(fixture_role_pid(&fixture, "front"), front);
    cr_assert_eq(fixture_role_pid(&fixture, "engine"), engine);
}

// A ring that breaks the rules is found by the engine; the front closes its client, and only that.
Test(front, fault_in_the_ring)
{
    struct raw_channel channel;
    char byte = 0;

    fixture_start(&fixture, RAW_PATIENT);
    raw_witness_start(&fixture);
    int client = raw_open(&fixture, &channel);
    shm_request(&channel.map, 0)->stream = 31;
    shm_request(&channel.map, 0)->n_bytes = UINT32_MAX;
    atomic_store(&shm_header(&channel.map)->submitted, 1);
    cr_assert_eq(write(channel.bell[0], &byte, 1), 1);
    raw_expect_closed(client);
    raw_wait_log_count(&fixture, "client closed: pid ", "a message or a request broke the rules",
                       1);
    raw_wait_channels(&fixture, 1);
    raw_witness_check();
    raw_witness_stop();
    close(client);
    raw_channel_free(&channel);
}

// ---------------------------------------------------------------- who may what; these run in
// children

// 0, or the number of the step that failed.
static int ask_status(const struct fixture *f, unsigned *ret_channel_rows)
{
    struct message m = {.type = MESSAGE_STATUS, .serial = 3};
    int client = raw_connect(f);

    *ret_channel_rows = 0;
    if (packet_write(client, &m) < 0)
        return 1;
    do {
        if (packet_read(client, MESSAGE_FRONT_TO_CLIENT, &m) < 0 || m.serial != 3)
            return 2;
        *ret_channel_rows += m.type == MESSAGE_STATUS_CHANNEL;
    } while (m.type != MESSAGE_STATUS_END);
    close(client);
    return m.u.status_end.reason == MESSAGE_OK ? 0 : 3;
}

static int say_hello(const struct fixture *f, uint32_t expected)
{
    struct raw_channel channel;
    struct message m;
    char byte;
    int client = raw_connect(f);

    raw_channel_make(&channel);
    raw_hello_fill(&m);
    if (!raw_send_message(client, &m, (const int[]){channel.memory, channel.bell[1]}, 2))
        return 10;
    if (packet_read(client, MESSAGE_FRONT_TO_CLIENT, &m) < 0 || m.type != MESSAGE_HELLO_REPLY)
        return 11;
    if (m.u.hello_reply.reason != expected)
        return 12;
    if (expected != MESSAGE_OK && recv(client, &byte, 1, 0) != 0)
        return 13;
    close(client);
    raw_channel_free(&channel);
    return 0;
}

static int be_nobody(const struct fixture *f)
{
    unsigned n_rows;
    int step = ask_status(f, &n_rows);

    if (step == 0 && n_rows != 0)
        step = 20;
    return step != 0 ? step : say_hello(f, MESSAGE_REASON_ACCESS);
}

static int be_allowed(const struct fixture *f)
{
    unsigned n_rows;
    int step = ask_status(f, &n_rows);

    if (step == 0 && n_rows != 0)
        step = 20;
    return step != 0 ? step : say_hello(f, MESSAGE_OK);
}

static int be_admin(const struct fixture *f)
{
    unsigned n_rows;
    int step = ask_status(f, &n_rows);

    if (step == 0 && n_rows != 1)
        step = 20;
    return step != 0 ? step : say_hello(f, MESSAGE_OK);
}

Test(front, users_and_groups)
{
    const gid_t listed = GROUP_LISTED, admin = GROUP_ADMIN;
    struct raw_channel channel;
    unsigned n_rows;

    fixture_start(&fixture,
                  "daemon.allow_users=61996\ndaemon.allow_groups=61997\ndaemon.group=61998\n");
    int client = raw_open(&fixture, &channel); // one row to see
    raw_run_as(&fixture, USER_NOBODY, NULL, 0, be_nobody);
    raw_wait_log_count(&fixture, "client refused: ", "uid 61995: this user may not use cryptod", 1);
    raw_run_as(&fixture, USER_ALLOWED, NULL, 0, be_allowed);
    raw_run_as(&fixture, USER_NOBODY, &listed, 1, be_allowed);
    raw_run_as(&fixture, USER_NOBODY, &admin, 1, be_admin);
    raw_run_as(&fixture, GROUP_ADMIN, NULL, 0, be_admin); // as the primary group
    cr_assert_eq(ask_status(&fixture, &n_rows), 0);
    cr_assert_eq(n_rows, 1);
    cr_assert_eq(be_admin(&fixture), 0);
    close(client);
    raw_channel_free(&channel);
    raw_wait_channels(&fixture, 0);
}

// An engine that stands still does not take the status, nor the front, with it.
Test(front, engine_that_stands_still)
{
    struct message m = {.type = MESSAGE_STATUS, .serial = 1};

    // Long enough that the monitor does not lose its patience first.
    fixture_start(&fixture, RAW_PATIENT "daemon.ping_interval_ms=10000\n");
    pid_t engine = fixture_role_pid(&fixture, "engine");
    int client = raw_connect(&fixture);
    cr_assert_eq(kill(engine, SIGSTOP), 0);
    cr_assert(raw_send_message(client, &m, NULL, 0));
    raw_expect(client, MESSAGE_STATUS_SUMMARY, &m);
    cr_assert_str_eq(m.u.status_summary.text, "the engine does not answer");
    raw_expect(client, MESSAGE_STATUS_USER, &m); // whoever asks
    raw_expect(client, MESSAGE_STATUS_END, &m);
    cr_assert_eq(m.u.status_end.reason, MESSAGE_REASON_ENGINE);
    cr_assert_eq(kill(engine, SIGCONT), 0);
    raw_witness_start(&fixture);
    raw_witness_stop();
    cr_assert_eq(fixture_role_pid(&fixture, "engine"), engine);
    close(client);
}
