// SPDX-License-Identifier: MIT
// One front over socketpairs: what a client says, what the engine hears, and what is given back.
#include "front_rig.h"

#include <criterion/criterion.h>
#include <sys/socket.h>
#include <unistd.h>

static struct front_rig rig;

static void session_setup(void)
{
    struct message_role_config config;

    front_rig_config(&config);
    front_rig_init(&rig, &config, -1);
    front_rig_offer(&rig);
    front_rig_expect_nothing(rig.engine);
}

static void session_teardown(void)
{
    front_rig_fini(&rig);
}

TestSuite(front_session, .init = session_setup, .fini = session_teardown);

static uint64_t count(enum account_kind kind)
{
    return account_count(rig.front.account, kind);
}

Test(front_session, hello_is_relayed_in_our_own_numbers)
{
    struct message add, reply;
    int client = front_rig_connect(&rig), bell;

    cr_assert_eq(count(ACCOUNT_CONNECTIONS), 1);
    front_rig_hello(&rig, client, UINT64_C(0x1122334455667788), &bell);
    front_rig_expect_engine(&rig, MESSAGE_CHANNEL_ADD, &add);
    cr_assert_neq(add.serial, UINT64_C(0x1122334455667788));
    cr_assert_neq(add.u.channel_add.channel, 0);
    cr_assert_eq(add.u.channel_add.uid, geteuid());
    cr_assert_eq(add.u.channel_add.pid, (uint32_t)getpid());
    cr_assert_eq(add.u.channel_add.n_slots, 2);
    cr_assert_eq(add.u.channel_add.n_streams, 4);
    front_rig_expect_nothing(client);
    cr_assert_eq(count(ACCOUNT_CONNECTIONS), 0);
    cr_assert_eq(count(ACCOUNT_CHANNELS), 1);

    front_rig_channel_reply(&rig, &add, MESSAGE_OK);
    front_rig_expect_client(client, MESSAGE_HELLO_REPLY, &reply);
    cr_assert_eq(reply.serial, UINT64_C(0x1122334455667788));
    cr_assert_eq(reply.u.hello_reply.version, 1);
    cr_assert_eq(reply.u.hello_reply.reason, MESSAGE_OK);
    cr_assert_eq(reply.u.hello_reply.channel, add.u.channel_add.channel);
    cr_assert_eq(reply.u.hello_reply.deadline_ms, 250);
    cr_assert_eq(reply.u.hello_reply.bulk_threshold, 1000);
    cr_assert_eq(reply.u.hello_reply.spin_us, 7);
    cr_assert_eq(reply.u.hello_reply.offer[2].request_min, 102);
    cr_assert_eq(reply.u.hello_reply.offer[ALGORITHM_COUNT - 1].lanes, 0);

    close(client);
    front_rig_turn(&rig);
    front_rig_expect_engine(&rig, MESSAGE_CHANNEL_REMOVE, NULL);
    cr_assert_eq(count(ACCOUNT_CHANNELS), 0);
    char byte; // the engine has closed its copy: nobody in the front holds the bell
    cr_assert_eq(recv(bell, &byte, 1, MSG_DONTWAIT), 0);
    close(bell);
}

Test(front_session, refusal_of_the_engine_is_told)
{
    struct message add, reply;
    int client = front_rig_connect(&rig);

    front_rig_hello(&rig, client, 5, NULL);
    front_rig_expect_engine(&rig, MESSAGE_CHANNEL_ADD, &add);
    front_rig_channel_reply(&rig, &add, MESSAGE_REASON_LIMIT);
    front_rig_expect_client(client, MESSAGE_HELLO_REPLY, &reply);
    cr_assert_eq(reply.u.hello_reply.reason, MESSAGE_REASON_LIMIT);
    cr_assert_eq(reply.u.hello_reply.version, 0);
    front_rig_expect_closed(client);
    front_rig_expect_nothing(rig.engine); // it does not have the channel
    cr_assert_eq(count(ACCOUNT_CHANNELS), 0);
    cr_assert_eq(rig.front.refused_total, 1);
    close(client);
}

Test(front_session, client_that_leaves_keeps_its_charge_until_the_engine_has_answered)
{
    struct message add, remove;
    int client = front_rig_connect(&rig);

    front_rig_hello(&rig, client, 5, NULL);
    close(client);
    front_rig_turn(&rig);
    front_rig_expect_engine(&rig, MESSAGE_CHANNEL_ADD, &add);
    front_rig_expect_engine(&rig, MESSAGE_CHANNEL_REMOVE, &remove);
    cr_assert_eq(remove.u.channel.channel, add.u.channel_add.channel);
    cr_assert_eq(count(ACCOUNT_CHANNELS), 1);
    front_rig_channel_reply(&rig, &add, MESSAGE_OK);
    cr_assert_eq(count(ACCOUNT_CHANNELS), 0);
    cr_assert(LIST_EMPTY(&rig.front.clients));
    cr_assert_eq(rig.front.channels_total, 0);
}

Test(front_session, answers_that_nobody_waits_for_are_ignored)
{
    uint32_t channel;
    int client = front_rig_open(&rig, &channel);
    struct message m = {
        .type = MESSAGE_CHANNEL_REPLY, .serial = 1, .u.channel = {.channel = channel}};

    front_rig_send(&rig, rig.engine, &m, NULL, 0); // answered already
    m.u.channel.channel = 0;
    front_rig_send(&rig, rig.engine, &m, NULL, 0);
    m = (struct message){
        .type = MESSAGE_ENGINE_REPLY, .serial = 77, .u.engine_stream = {.channel = channel}};
    front_rig_send(&rig, rig.engine, &m, NULL, 0);
    m = (struct message){.type = MESSAGE_CHANNEL_FAULT, .u.channel = {.channel = channel + 1}};
    front_rig_send(&rig, rig.engine, &m, NULL, 0);
    m = (struct message){.type = MESSAGE_STATUS_END, .serial = 77};
    front_rig_send(&rig, rig.engine, &m, NULL, 0);
    front_rig_expect_nothing(client);
    cr_assert_eq(rig.front.exit_status, 0);
    close(client);
}

Test(front_session, limits_of_channels)
{
    int clients[3], more = front_rig_connect(&rig);
    struct message reply;

    for (int i = 0; i < 3; i++)
        clients[i] = front_rig_open(&rig, NULL);
    front_rig_hello(&rig, more, 9, NULL);
    front_rig_expect_client(more, MESSAGE_HELLO_REPLY, &reply);
    cr_assert_eq(reply.u.hello_reply.reason, MESSAGE_REASON_LIMIT);
    front_rig_expect_closed(more);
    front_rig_expect_nothing(rig.engine);
    close(more);
    close(clients[0]);
    front_rig_turn(&rig);
    front_rig_expect_engine(&rig, MESSAGE_CHANNEL_REMOVE, NULL);
    clients[0] = front_rig_open(&rig, NULL);
    for (int i = 0; i < 3; i++)
        close(clients[i]);
}

Test(front_session, streams_open_and_close)
{
    struct message open, reply, closing;
    uint32_t channel;
    int client = front_rig_open(&rig, &channel);

    front_rig_stream_open(&rig, client, 41, 3, ALGORITHM_AES_256_CTR);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_OPEN, &open);
    cr_assert_eq(open.u.engine_stream.channel, channel);
    cr_assert_eq(open.u.engine_stream.stream, 3);
    cr_assert_eq(open.u.engine_stream.algorithm, ALGORITHM_AES_256_CTR);
    cr_assert_neq(open.serial, 41);
    front_rig_expect_nothing(client);
    front_rig_stream_reply(&rig, &open, MESSAGE_OK);
    front_rig_expect_client(client, MESSAGE_STREAM_REPLY, &reply);
    cr_assert_eq(reply.serial, 41);
    cr_assert_eq(reply.u.stream_reply.stream, 3);
    cr_assert_eq(reply.u.stream_reply.reason, MESSAGE_OK);
    cr_assert_eq(count(ACCOUNT_STREAMS), 1);
    cr_assert_eq(rig.front.streams_total, 1);

    front_rig_stream_close(&rig, client, 3);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_CLOSE, &closing);
    cr_assert_eq(closing.u.engine_stream.channel, channel);
    cr_assert_eq(closing.u.engine_stream.stream, 3);
    cr_assert_eq(count(ACCOUNT_STREAMS), 0);
    front_rig_stream_open(&rig, client, 42, 3, ALGORITHM_AES_128_CBC);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_OPEN, NULL);
    close(client);
}

// A client frees a stream whose opening is under way, and uses its number again at once.
Test(front_session, number_reused_before_the_answer)
{
    struct message first, second, reply;
    int client = front_rig_open(&rig, NULL);

    front_rig_stream_open(&rig, client, 41, 0, ALGORITHM_AES_256_CTR);
    front_rig_stream_close(&rig, client, 0);
    front_rig_stream_open(&rig, client, 42, 0, ALGORITHM_AES_128_CBC);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_OPEN, &first);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_CLOSE, NULL);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_OPEN, &second);
    cr_assert_neq(first.serial, second.serial);
    cr_assert_eq(count(ACCOUNT_STREAMS), 1);

    front_rig_stream_reply(&rig, &first, MESSAGE_REASON_ENGINE); // of the stream that is no more
    front_rig_expect_client(client, MESSAGE_STREAM_REPLY, &reply);
    cr_assert_eq(reply.serial, 41);
    cr_assert_eq(count(ACCOUNT_STREAMS), 1);
    front_rig_stream_reply(&rig, &second, MESSAGE_OK);
    front_rig_expect_client(client, MESSAGE_STREAM_REPLY, &reply);
    cr_assert_eq(reply.serial, 42);
    cr_assert_eq(rig.front.streams_total, 1);
    front_rig_stream_close(&rig, client, 0);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_CLOSE, NULL);
    cr_assert_eq(count(ACCOUNT_STREAMS), 0);
    front_rig_expect_nothing(client);
    close(client);
}

// It may send CLOSE before it has read that the opening was refused; then open again.
Test(front_session, refused_stream_may_be_closed_and_opened_again)
{
    struct message open, reply;
    int client = front_rig_open(&rig, NULL);

    front_rig_stream_open(&rig, client, 41, 1, ALGORITHM_AES_256_CTR);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_OPEN, &open);
    front_rig_stream_reply(&rig, &open, MESSAGE_REASON_ENGINE);
    cr_assert_eq(count(ACCOUNT_STREAMS), 0);
    front_rig_expect_client(client, MESSAGE_STREAM_REPLY, &reply);
    cr_assert_eq(reply.u.stream_reply.reason, MESSAGE_REASON_ENGINE);
    front_rig_stream_close(&rig, client, 1);
    front_rig_expect_nothing(rig.engine); // it has nothing to close
    front_rig_stream_open(&rig, client, 42, 1, ALGORITHM_AES_256_CTR);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_OPEN, &open);
    front_rig_stream_reply(&rig, &open, MESSAGE_REASON_COUNT + 5); // no reason that we know
    front_rig_expect_client(client, MESSAGE_STREAM_REPLY, &reply);
    cr_assert_eq(reply.u.stream_reply.reason, MESSAGE_REASON_INTERNAL);
    front_rig_stream_open(&rig, client, 43, 1, ALGORITHM_AES_256_CTR);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_OPEN, NULL);
    front_rig_expect_nothing(client);
    close(client);
}

Test(front_session, stream_limit_and_algorithm_are_answered_not_punished)
{
    struct message open, reply;
    int client = front_rig_open(&rig, NULL);

    for (uint32_t i = 0; i < 2; i++) {
        front_rig_stream_open(&rig, client, i, i, ALGORITHM_AES_128_CTR);
        front_rig_expect_engine(&rig, MESSAGE_ENGINE_OPEN, &open);
        front_rig_stream_reply(&rig, &open, MESSAGE_OK);
        front_rig_expect_client(client, MESSAGE_STREAM_REPLY, NULL);
    }
    front_rig_stream_open(&rig, client, 9, 2, ALGORITHM_AES_128_CTR);
    front_rig_expect_client(client, MESSAGE_STREAM_REPLY, &reply);
    cr_assert_eq(reply.u.stream_reply.reason, MESSAGE_REASON_LIMIT);
    front_rig_stream_open(&rig, client, 10, 2, ALGORITHM_CHACHA20); // known, not offered
    front_rig_expect_client(client, MESSAGE_STREAM_REPLY, &reply);
    cr_assert_eq(reply.u.stream_reply.reason, MESSAGE_REASON_ALGORITHM);
    cr_assert_eq(reply.serial, 10);
    front_rig_expect_nothing(rig.engine);
    front_rig_expect_nothing(client);
    close(client);
}

Test(front_session, fault_of_the_ring_closes_the_client)
{
    uint32_t channel;
    int client = front_rig_open(&rig, &channel), other = front_rig_open(&rig, NULL);
    const struct message fault = {
        .type = MESSAGE_CHANNEL_FAULT,
        .u.channel = {.channel = channel, .reason = MESSAGE_REASON_MALFORMED},
    };

    front_rig_send(&rig, rig.engine, &fault, NULL, 0);
    front_rig_expect_closed(client);
    front_rig_expect_nothing(other);
    front_rig_expect_engine(&rig, MESSAGE_CHANNEL_REMOVE, NULL);
    cr_assert_eq(count(ACCOUNT_CHANNELS), 1);
    close(client);
    close(other);
}

// Numbers of channels are not given twice while they are in use, also when the counter starts anew.
Test(front_session, channel_numbers_wrap)
{
    uint32_t first, channel;
    int a = front_rig_open(&rig, &first), b, c;

    rig.front.last_channel = UINT32_MAX - 1;
    b = front_rig_open(&rig, &channel);
    cr_assert_eq(channel, UINT32_MAX);
    cr_assert_eq(first, 1);
    c = front_rig_open(&rig, &channel);
    cr_assert_eq(channel, 2, "neither 0 nor the one in use");
    close(a);
    close(b);
    close(c);
}
