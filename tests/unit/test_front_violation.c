// SPDX-License-Identifier: MIT
// One front over socketpairs: what closes a client, and that all it had is given back.
#include "front_rig.h"

#include <criterion/criterion.h>
#include <sys/socket.h>
#include <unistd.h>

static struct front_rig rig;

static void violation_setup(void)
{
    struct message_role_config config;

    front_rig_config(&config);
    front_rig_init(&rig, &config, -1);
    front_rig_offer(&rig);
}

static void violation_teardown(void)
{
    front_rig_fini(&rig);
}

TestSuite(front_violation, .init = violation_setup, .fini = violation_teardown);

static uint64_t count(enum account_kind kind)
{
    return account_count(rig.front.account, kind);
}

// Each of these closes the client that does it, and gives back its channel.
static void expect_violation(int client)
{
    front_rig_expect_closed(client);
    front_rig_expect_engine(&rig, MESSAGE_CHANNEL_REMOVE, NULL);
    cr_assert_eq(count(ACCOUNT_CHANNELS), 0);
    cr_assert_eq(count(ACCOUNT_STREAMS), 0);
    cr_assert_eq(rig.front.violations_total, 1);
    cr_assert_eq(rig.front.exit_status, 0);
    close(client);
}

Test(front_violation, stream_out_of_range)
{
    int client = front_rig_open(&rig, NULL);
    front_rig_stream_open(&rig, client, 1, 4, ALGORITHM_AES_128_CTR);
    expect_violation(client);
}

Test(front_violation, unknown_algorithm)
{
    int client = front_rig_open(&rig, NULL);
    front_rig_stream_open(&rig, client, 1, 0, ALGORITHM_COUNT);
    expect_violation(client);
}

Test(front_violation, close_of_closed)
{
    int client = front_rig_open(&rig, NULL);
    front_rig_stream_close(&rig, client, 0);
    expect_violation(client);
}

Test(front_violation, close_out_of_range)
{
    int client = front_rig_open(&rig, NULL);
    front_rig_stream_close(&rig, client, UINT32_MAX);
    expect_violation(client);
}

Test(front_violation, open_twice)
{
    struct message open;
    int client = front_rig_open(&rig, NULL);

    front_rig_stream_open(&rig, client, 1, 0, ALGORITHM_AES_128_CTR);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_OPEN, &open);
    front_rig_stream_open(&rig, client, 2, 0, ALGORITHM_AES_128_CTR);
    front_rig_expect_closed(client);
    front_rig_expect_engine(&rig, MESSAGE_CHANNEL_REMOVE, NULL);
    cr_assert_eq(count(ACCOUNT_STREAMS), 1); // until the engine has answered
    front_rig_stream_reply(&rig, &open, MESSAGE_OK);
    cr_assert_eq(count(ACCOUNT_STREAMS), 0);
    cr_assert_eq(count(ACCOUNT_CHANNELS), 0);
    close(client);
}

Test(front_violation, too_many_openings)
{
    struct message open[2];
    int client = front_rig_open(&rig, NULL);

    for (uint32_t i = 0; i < 2; i++) {
        front_rig_stream_open(&rig, client, i, 0, ALGORITHM_AES_128_CTR);
        front_rig_expect_engine(&rig, MESSAGE_ENGINE_OPEN, &open[i]);
        front_rig_stream_close(&rig, client, 0);
        front_rig_expect_engine(&rig, MESSAGE_ENGINE_CLOSE, NULL);
    }
    front_rig_stream_open(&rig, client, 3, 0, ALGORITHM_AES_128_CTR);
    front_rig_expect_closed(client);
    front_rig_expect_engine(&rig, MESSAGE_CHANNEL_REMOVE, NULL);
    front_rig_stream_reply(&rig, &open[1], MESSAGE_OK);
    cr_assert_eq(count(ACCOUNT_CHANNELS), 1);
    front_rig_stream_reply(&rig, &open[0], MESSAGE_OK);
    cr_assert_eq(count(ACCOUNT_CHANNELS), 0);
    close(client);
}

Test(front_violation, second_hello)
{
    int client = front_rig_open(&rig, NULL);
    front_rig_hello(&rig, client, 2, NULL);
    expect_violation(client);
}

Test(front_violation, stream_before_hello)
{
    int client = front_rig_connect(&rig);

    front_rig_stream_open(&rig, client, 1, 0, ALGORITHM_AES_128_CTR);
    front_rig_expect_closed(client);
    front_rig_expect_nothing(rig.engine);
    cr_assert_eq(count(ACCOUNT_CONNECTIONS), 0);
    close(client);
}

Test(front_violation, stream_before_the_answer_to_hello)
{
    struct message add;
    int client = front_rig_connect(&rig);

    front_rig_hello(&rig, client, 2, NULL);
    front_rig_expect_engine(&rig, MESSAGE_CHANNEL_ADD, &add);
    front_rig_stream_open(&rig, client, 1, 0, ALGORITHM_AES_128_CTR);
    front_rig_expect_closed(client);
    front_rig_expect_engine(&rig, MESSAGE_CHANNEL_REMOVE, NULL);
    front_rig_channel_reply(&rig, &add, MESSAGE_OK);
    cr_assert_eq(count(ACCOUNT_CHANNELS), 0);
    close(client);
}

// What does not read its answers is closed; nothing is kept for it.
Test(front_violation, client_that_does_not_read_is_closed)
{
    const int small = 1;
    struct message open;
    int client = front_rig_open(&rig, NULL);

    cr_assert_eq(
        setsockopt(front_rig_last_client(&rig)->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)),
        0);
    for (uint64_t i = 0; i < 1000 && rig.front.violations_total == 0; i++) {
        front_rig_stream_open(&rig, client, i, 0, ALGORITHM_AES_128_CTR);
        front_rig_expect_engine(&rig, MESSAGE_ENGINE_OPEN, &open);
        front_rig_stream_reply(&rig, &open, MESSAGE_REASON_ENGINE);
    }
    cr_assert_eq(rig.front.violations_total, 1);
    front_rig_expect_engine(&rig, MESSAGE_CHANNEL_REMOVE, NULL);
    cr_assert_eq(count(ACCOUNT_CHANNELS), 0);
    close(client);
}
