// SPDX-License-Identifier: MIT
// STATUS through a front over socketpairs: one question to the engine for all, and who sees which
// rows.
#include "front_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct front_rig rig;

static void report_setup(void)
{
    struct message_role_config config;

    front_rig_config(&config);
    config.channels_max = config.channels_per_uid = 400;
    config.restarts = 3;
    config.streams_max = 77;
    config.locked_memory_max = 1000;
    config.locked_memory_per_uid = 100;
    config.requests_max = 2000;
    config.requests_per_uid = 200;
    config.connects_per_uid = 3000;
    front_rig_init(&rig, &config, -1);
    front_rig_offer(&rig);
}

static void report_teardown(void)
{
    front_rig_fini(&rig);
}

TestSuite(front_report, .init = report_setup, .fini = report_teardown);

static void expect_limit(const struct message_limits *limits, enum message_limit i, uint64_t in_all,
                         uint64_t per_uid, uint64_t used, uint64_t refused)
{
    cr_expect_eq(limits->in_all[i], in_all, "limit %d", (int)i);
    cr_expect_eq(limits->per_uid[i], per_uid, "limit %d", (int)i);
    cr_expect_eq(limits->used[i], used, "limit %d", (int)i);
    cr_expect_eq(limits->refused[i], refused, "limit %d", (int)i);
}

// With one channel of two slots.
static void expect_limits(const struct message_limits *limits)
{
    expect_limit(limits, MESSAGE_LIMIT_CHANNELS, 400, 400, 1, 0);
    expect_limit(limits, MESSAGE_LIMIT_STREAMS, 77, 0, 0, 0);
    expect_limit(limits, MESSAGE_LIMIT_SHARED_MEMORY, 0, 0, shm_allocated_size(2), 0);
    expect_limit(limits, MESSAGE_LIMIT_LOCKED_MEMORY, 1000, 100, 20, 22);
    expect_limit(limits, MESSAGE_LIMIT_REQUESTS, 2000, 200, 21, 23);
    expect_limit(limits, MESSAGE_LIMIT_CONNECTS, 0, 3000, 2, 0);
}

Test(front_report, rows_in_order)
{
    struct message ask, m;
    uint32_t channel;
    int opened = front_rig_open(&rig, &channel), client = front_rig_connect(&rig);
    struct message usage = {
        .type = MESSAGE_ENGINE_CHANNEL,
        .u.engine_channel = {.channel = channel,
                             .operations = 11,
                             .bytes = 12,
                             .software_bytes = 13,
                             .fallbacks = 14,
                             .lane_changes = 15,
                             .locked_memory = 16,
                             .requests = 17},
    };

    front_rig_status(&rig, client, 77);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_STATUS, &ask);
    front_rig_expect_nothing(client);
    usage.serial = ask.serial;
    front_rig_send(&rig, rig.engine, &usage, NULL, 0);
    front_rig_send(&rig, rig.engine,
                   &(struct message){.type = MESSAGE_ENGINE_SUMMARY,
                                     .serial = ask.serial,
                                     .u.engine_summary = {.afalg_errno = EAFNOSUPPORT,
                                                          .locked_memory = 20,
                                                          .requests = 21,
                                                          .locked_memory_refused = 22,
                                                          .requests_refused = 23}},
                   NULL, 0);
    front_rig_rows_reply(&rig, &ask, 2);

    front_rig_expect_client(client, MESSAGE_STATUS_SUMMARY, &m);
    cr_assert_eq(m.serial, 77);
    cr_assert_eq(m.u.status_summary.channels, 1);
    cr_assert_eq(m.u.status_summary.channels_total, 1);
    cr_assert_eq(m.u.status_summary.channels_max, 400);
    cr_assert_eq(m.u.status_summary.engine_restarts, 3);
    cr_assert_eq(m.u.status_summary.afalg_errno, EAFNOSUPPORT);
    cr_assert_eq(m.u.status_summary.mode, MESSAGE_OK);
    cr_assert_str_eq(m.u.status_summary.release, CRYPTOD_VERSION);
    cr_assert_neq(m.u.status_summary.kernel[0], '\0');
    expect_limits(&m.u.status_summary.limits);
    for (uint32_t i = 0; i < 2; i++) {
        front_rig_expect_client(client, MESSAGE_STATUS_ALGORITHM, &m);
        cr_assert_eq(m.serial, 77);
        cr_assert_eq(m.u.status_algorithm.algorithm, i);
    }
    front_rig_expect_client(client, MESSAGE_STATUS_CHANNEL, &m);
    cr_assert_eq(m.u.status_channel.channel, channel);
    cr_assert_eq(m.u.status_channel.uid, geteuid());
    cr_assert_eq(m.u.status_channel.pid, (uint32_t)getpid());
    cr_assert_eq(m.u.status_channel.operations, 11);
    cr_assert_eq(m.u.status_channel.bytes, 12);
    cr_assert_eq(m.u.status_channel.software_bytes, 13);
    cr_assert_eq(m.u.status_channel.fallbacks, 14);
    cr_assert_eq(m.u.status_channel.lane_changes, 15);
    front_rig_expect_client(client, MESSAGE_STATUS_USER, &m);
    cr_assert_eq(m.serial, 77);
    cr_assert_eq(m.u.status_user.uid, geteuid());
    const uint64_t used[MESSAGE_LIMIT_COUNT] = {1, 0, shm_allocated_size(2), 16, 17, 2};
    cr_assert_arr_eq(m.u.status_user.used, used, sizeof(used));
    front_rig_expect_client(client, MESSAGE_STATUS_END, &m);
    cr_assert_eq(m.u.status_end.reason, MESSAGE_OK);
    front_rig_expect_nothing(client);
    close(opened);
    close(client);
}

static void expect_answer(int client, uint32_t n_algorithms, uint32_t n_users, uint32_t reason)
{
    struct message m;

    front_rig_expect_client(client, MESSAGE_STATUS_SUMMARY, NULL);
    for (uint32_t i = 0; i < n_algorithms; i++)
        front_rig_expect_client(client, MESSAGE_STATUS_ALGORITHM, NULL);
    for (uint32_t i = 0; i < n_users; i++)
        front_rig_expect_client(client, MESSAGE_STATUS_USER, NULL);
    front_rig_expect_client(client, MESSAGE_STATUS_END, &m);
    cr_assert_eq(m.u.status_end.reason, reason);
    front_rig_expect_nothing(client);
}

Test(front_report, ordinary_users_get_no_channel_rows)
{
    struct message ask;
    int opened = front_rig_open(&rig, NULL), client = front_rig_connect(&rig);

    front_rig_last_client(&rig)->peer.admin = false;
    front_rig_status(&rig, client, 1);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_STATUS, &ask);
    front_rig_status_reply(&rig, &ask, 1);
    expect_answer(client, 1, 0, MESSAGE_OK);
    close(opened);
    close(client);
}

Test(front_report, allowed_to_everybody)
{
    struct message ask;
    int client = front_rig_connect(&rig);
    struct access_peer *peer = &front_rig_last_client(&rig)->peer;

    peer->allowed = peer->admin = false;
    front_rig_status(&rig, client, 1);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_STATUS, &ask);
    front_rig_status_reply(&rig, &ask, 1);
    expect_answer(client, 1, 0, MESSAGE_OK);
    close(client);
}

Test(front_report, one_question_serves_those_who_asked_before_it)
{
    struct message ask, next;
    int a = front_rig_connect(&rig), b = front_rig_connect(&rig), c = front_rig_connect(&rig);

    front_rig_status(&rig, a, 1);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_STATUS, &ask);
    front_rig_status(&rig, b, 2);
    front_rig_status(&rig, c, 3);
    front_rig_expect_nothing(rig.engine);
    front_rig_status_reply(&rig, &ask, 1);
    expect_answer(a, 1, 1, MESSAGE_OK);
    front_rig_expect_nothing(b);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_STATUS, &next);
    cr_assert_neq(next.serial, ask.serial);
    front_rig_status_reply(&rig, &ask, 5); // a late echo counts for nothing
    front_rig_expect_nothing(b);
    front_rig_status_reply(&rig, &next, 2);
    expect_answer(b, 2, 1, MESSAGE_OK);
    expect_answer(c, 2, 1, MESSAGE_OK);
    front_rig_expect_nothing(rig.engine);
    close(a);
    close(b);
    close(c);
}

Test(front_report, asker_that_leaves_is_forgotten)
{
    struct message ask;
    int client = front_rig_connect(&rig);

    front_rig_status(&rig, client, 1);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_STATUS, &ask);
    close(client);
    front_rig_turn(&rig);
    cr_assert(LIST_EMPTY(&rig.front.clients));
    front_rig_status_reply(&rig, &ask, 1);
    front_rig_expect_nothing(rig.engine);
    cr_assert_eq(rig.front.exit_status, 0);
}

Test(front_report, second_question_before_the_answer_is_a_violation)
{
    int client = front_rig_connect(&rig);

    front_rig_status(&rig, client, 1);
    front_rig_status(&rig, client, 2);
    front_rig_expect_closed(client);
    cr_assert_eq(rig.front.violations_total, 1);
    close(client);
}

Test(front_report, silent_engine_is_reported)
{
    struct message ask, m;
    int client = front_rig_connect(&rig), other = front_rig_connect(&rig);

    front_rig_status(&rig, client, 1);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_STATUS, &ask);
    front_rig_turn_until_readable(&rig, client);
    front_rig_expect_client(client, MESSAGE_STATUS_SUMMARY, &m);
    cr_assert_str_eq(m.u.status_summary.text, "the engine does not answer");
    front_rig_expect_client(client, MESSAGE_STATUS_USER, NULL);
    front_rig_expect_client(client, MESSAGE_STATUS_END, &m);
    cr_assert_eq(m.u.status_end.reason, MESSAGE_REASON_ENGINE);

    front_rig_status(&rig, other, 2); // at once, and without another question
    expect_answer(other, 0, 1, MESSAGE_REASON_ENGINE);
    front_rig_expect_nothing(rig.engine);

    front_rig_status_reply(&rig, &ask, 1); // it has come back
    front_rig_status(&rig, client, 3);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_STATUS, &ask);
    front_rig_status_reply(&rig, &ask, 1);
    expect_answer(client, 1, 1, MESSAGE_OK);
    close(client);
    close(other);
}

// More rows than the socket takes: they come as they are read, in order and whole.
Test(front_report, slow_reader_gets_all)
{
    enum { CHANNELS = 300 };
    const int small = 1;
    int channels[CHANNELS];
    struct message ask, m;
    uint32_t n_rows = 0;

    for (int i = 0; i < CHANNELS; i++)
        channels[i] = front_rig_open(&rig, NULL);
    int client = front_rig_connect(&rig);
    cr_assert_eq(
        setsockopt(front_rig_last_client(&rig)->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)),
        0);
    front_rig_status(&rig, client, 1);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_STATUS, &ask);
    front_rig_status_reply(&rig, &ask, 1);
    cr_assert_gt(front_rig_last_client(&rig)->answer.row, 0);
    cr_assert_lt(front_rig_last_client(&rig)->answer.row, CHANNELS);

    front_rig_expect_client(client, MESSAGE_STATUS_SUMMARY, NULL);
    front_rig_turn(&rig);
    front_rig_expect_client(client, MESSAGE_STATUS_ALGORITHM, NULL);
    uint32_t last = UINT32_MAX; // the newest client comes first
    do {
        front_rig_turn_until_readable(&rig, client);
        front_rig_expect_client(client,
                                n_rows < CHANNELS    ? MESSAGE_STATUS_CHANNEL
                                : n_rows == CHANNELS ? MESSAGE_STATUS_USER
                                                     : MESSAGE_STATUS_END,
                                &m);
        if (m.type == MESSAGE_STATUS_CHANNEL) {
            cr_assert_lt(m.u.status_channel.channel, last);
            last = m.u.status_channel.channel;
        }
        n_rows++;
    } while (m.type != MESSAGE_STATUS_END);
    cr_assert_eq(n_rows, CHANNELS + 2);
    for (int i = 0; i < CHANNELS; i++)
        close(channels[i]);
    close(client);
}

Test(front_report, reader_that_leaves_in_the_middle)
{
    enum { CHANNELS = 300 };
    const int small = 1;
    int channels[CHANNELS];
    struct message ask;

    for (int i = 0; i < CHANNELS; i++)
        channels[i] = front_rig_open(&rig, NULL);
    int client = front_rig_connect(&rig);
    cr_assert_eq(
        setsockopt(front_rig_last_client(&rig)->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)),
        0);
    front_rig_status(&rig, client, 1);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_STATUS, &ask);
    front_rig_status_reply(&rig, &ask, 1);
    close(client);
    front_rig_turn(&rig);
    cr_assert_eq(account_count(rig.front.account, ACCOUNT_CONNECTIONS), 0);
    for (int i = 0; i < CHANNELS; i++)
        close(channels[i]);
    front_rig_turn(&rig);
    cr_assert(LIST_EMPTY(&rig.front.clients));
}
