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
    front_rig_init(&rig, &config, -1);
    front_rig_offer(&rig);
}

static void report_teardown(void)
{
    front_rig_fini(&rig);
}

TestSuite(front_report, .init = report_setup, .fini = report_teardown);

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
                             .lane_changes = 15},
    };

    front_rig_status(&rig, client, 77);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_STATUS, &ask);
    front_rig_expect_nothing(client);
    usage.serial = ask.serial;
    front_rig_send(&rig, rig.engine, &usage, NULL, 0);
    front_rig_status_reply(&rig, &ask, 2);

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
    front_rig_expect_client(client, MESSAGE_STATUS_END, &m);
    cr_assert_eq(m.u.status_end.reason, MESSAGE_OK);
    front_rig_expect_nothing(client);
    close(opened);
    close(client);
}

static void expect_answer(int client, uint32_t n_algorithms, uint32_t n_channels, uint32_t reason)
{
    struct message m;

    front_rig_expect_client(client, MESSAGE_STATUS_SUMMARY, NULL);
    for (uint32_t i = 0; i < n_algorithms; i++)
        front_rig_expect_client(client, MESSAGE_STATUS_ALGORITHM, NULL);
    for (uint32_t i = 0; i < n_channels; i++)
        front_rig_expect_client(client, MESSAGE_STATUS_CHANNEL, NULL);
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
    expect_answer(a, 1, 0, MESSAGE_OK);
    front_rig_expect_nothing(b);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_STATUS, &next);
    cr_assert_neq(next.serial, ask.serial);
    front_rig_status_reply(&rig, &ask, 5); // a late echo counts for nothing
    front_rig_expect_nothing(b);
    front_rig_status_reply(&rig, &next, 2);
    expect_answer(b, 2, 0, MESSAGE_OK);
    expect_answer(c, 2, 0, MESSAGE_OK);
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
    front_rig_expect_client(client, MESSAGE_STATUS_END, &m);
    cr_assert_eq(m.u.status_end.reason, MESSAGE_REASON_ENGINE);

    front_rig_status(&rig, other, 2); // at once, and without another question
    expect_answer(other, 0, 0, MESSAGE_REASON_ENGINE);
    front_rig_expect_nothing(rig.engine);

    front_rig_status_reply(&rig, &ask, 1); // it has come back
    front_rig_status(&rig, client, 3);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_STATUS, &ask);
    front_rig_status_reply(&rig, &ask, 1);
    expect_answer(client, 1, 0, MESSAGE_OK);
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
        front_rig_expect_client(
            client, n_rows < CHANNELS ? MESSAGE_STATUS_CHANNEL : MESSAGE_STATUS_END, &m);
        if (m.type == MESSAGE_STATUS_CHANNEL) {
            cr_assert_lt(m.u.status_channel.channel, last);
            last = m.u.status_channel.channel;
        }
        n_rows++;
    } while (m.type != MESSAGE_STATUS_END);
    cr_assert_eq(n_rows, CHANNELS + 1);
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
