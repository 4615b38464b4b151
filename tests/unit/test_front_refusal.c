// SPDX-License-Identifier: MIT
// Whoever is over a limit is told so, whatever it asks, and nobody else notices.
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front_rig.h"
#include "packet.h"
#include "shm.h"

static struct front_rig rig;

static void setup(void)
{
    struct message_role_config config;

    front_rig_config(&config);
    config.channels_max = config.channels_per_uid = 100;
    config.streams_max = 3;
    config.streams_per_uid = 3;
    config.shared_memory_max = config.shared_memory_per_uid = 3 * (uint32_t)shm_allocated_size(2);
    config.connects_max = 5;
    config.connects_per_uid = 4;
    front_rig_init(&rig, &config, -1);
    front_rig_offer(&rig);
}

static void teardown(void)
{
    front_rig_fini(&rig);
}

TestSuite(front_refusal, .init = setup, .fini = teardown);

static uint32_t expect_hello_refused(int client, uint64_t serial)
{
    struct message m;

    front_rig_expect_client(client, MESSAGE_HELLO_REPLY, &m);
    cr_assert_eq(m.serial, serial);
    cr_assert_eq(m.u.hello_reply.version, 0);
    front_rig_expect_closed(client);
    close(client);
    return m.u.hello_reply.reason;
}

// The test is root, whom the rate does not hold: another uid's client is made from one of its.
static int connect_over_the_rate(void)
{
    int client = front_rig_connect(&rig);

    front_rig_last_client(&rig)->refusal = MESSAGE_REASON_CONNECTS;
    front_rig_last_client(&rig)->over_limit = "connects_per_uid";
    return client;
}

Test(front_refusal, every_question_over_the_rate_is_answered)
{
    struct message m;
    int open = front_rig_open(&rig, NULL), client = connect_over_the_rate();

    front_rig_hello(&rig, client, 5, NULL);
    cr_expect_eq(expect_hello_refused(client, 5), MESSAGE_REASON_CONNECTS);

    client = connect_over_the_rate();
    front_rig_status(&rig, client, 6);
    front_rig_expect_client(client, MESSAGE_STATUS_END, &m);
    cr_expect_eq(m.serial, 6);
    cr_expect_eq(m.u.status_end.reason, MESSAGE_REASON_CONNECTS);
    front_rig_expect_closed(client);
    close(client);

    client = connect_over_the_rate();
    m = (struct message){.type = MESSAGE_CALIBRATE, .serial = 7};
    front_rig_send(&rig, client, &m, NULL, 0);
    front_rig_expect_client(client, MESSAGE_CALIBRATION_END, &m);
    cr_expect_eq(m.serial, 7);
    cr_expect_eq(m.u.calibration_end.reason, MESSAGE_REASON_CONNECTS);
    front_rig_expect_closed(client);
    close(client);

    front_rig_expect_nothing(rig.engine);
    cr_expect_eq(rig.front.refused_total, 3);
    cr_expect_eq(rig.front.violations_total, 0);
    cr_expect_eq(account_count(rig.front.account, ACCOUNT_CONNECTIONS), 0);
    front_rig_expect_nothing(open);
    close(open);
}

Test(front_refusal, what_breaks_the_rules_still_does)
{
    int client = connect_over_the_rate();

    front_rig_stream_open(&rig, client, 1, 0, 0);
    front_rig_expect_closed(client);
    cr_expect_eq(rig.front.violations_total, 1);
    close(client);
}

// A connection that is closed at once: with and without a question that is here already.
Test(front_refusal, parting_word)
{
    const struct account_limit none = {0};
    const struct message ask = {.type = MESSAGE_STATUS, .serial = 9};
    struct message m;
    int pair[2];

    account_set_limit(rig.front.account, ACCOUNT_CONNECTIONS, &none);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
    cr_assert_lt(client_new(&rig.front, pair[1]), 0);
    front_rig_expect_client(pair[0], MESSAGE_HELLO_REPLY, &m);
    cr_expect_eq(m.serial, 0);
    cr_expect_eq(m.u.hello_reply.reason, MESSAGE_REASON_CONNECTS);
    front_rig_expect_closed(pair[0]);
    close(pair[0]);

    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
    cr_assert_eq(packet_send(pair[0], &ask, NULL, 0), 0);
    cr_assert_lt(client_new(&rig.front, pair[1]), 0);
    front_rig_expect_client(pair[0], MESSAGE_STATUS_END, &m);
    cr_expect_eq(m.serial, 9);
    cr_expect_eq(m.u.status_end.reason, MESSAGE_REASON_CONNECTS);
    front_rig_expect_closed(pair[0]);
    close(pair[0]);
    cr_expect(LIST_EMPTY(&rig.front.clients));
    cr_expect_eq(rig.front.refused_total, 2);
}

Test(front_refusal, shared_memory)
{
    int open[3];

    for (int i = 0; i < 3; i++)
        open[i] = front_rig_open(&rig, NULL);
    int client = front_rig_connect(&rig);
    front_rig_hello(&rig, client, 5, NULL);
    cr_expect_eq(expect_hello_refused(client, 5), MESSAGE_REASON_SIZE);
    cr_expect_eq(account_count(rig.front.account, ACCOUNT_CHANNELS), 3);
    cr_expect_eq(account_count_refused(rig.front.account, ACCOUNT_SHARED_MEMORY), 1);
    close(open[0]);
    front_rig_turn(&rig);
    struct message m;
    front_rig_expect_engine(&rig, MESSAGE_CHANNEL_REMOVE, &m);
    open[0] = front_rig_open(&rig, NULL);
    for (int i = 0; i < 3; i++)
        close(open[i]);
    front_rig_turn(&rig);
    cr_expect_eq(account_count(rig.front.account, ACCOUNT_SHARED_MEMORY), 0);
}

// Of all channels together; the one that is refused keeps what it has.
Test(front_refusal, streams)
{
    struct message m;
    int a = front_rig_open(&rig, NULL), b = front_rig_open(&rig, NULL);

    front_rig_stream_open(&rig, a, 1, 0, 0);
    front_rig_stream_open(&rig, a, 2, 1, 0);
    front_rig_stream_open(&rig, b, 3, 0, 0);
    front_rig_stream_open(&rig, b, 4, 1, 0);
    front_rig_expect_client(b, MESSAGE_STREAM_REPLY, &m);
    cr_expect_eq(m.serial, 4);
    cr_expect_eq(m.u.stream_reply.reason, MESSAGE_REASON_LIMIT);
    for (int i = 0; i < 3; i++) {
        front_rig_expect_engine(&rig, MESSAGE_ENGINE_OPEN, &m);
        front_rig_stream_reply(&rig, &m, MESSAGE_OK);
    }
    cr_expect_eq(account_count(rig.front.account, ACCOUNT_STREAMS), 3);
    front_rig_expect_client(b, MESSAGE_STREAM_REPLY, &m);
    cr_expect_eq(m.u.stream_reply.reason, MESSAGE_OK);

    front_rig_stream_close(&rig, a, 0); // makes room
    front_rig_stream_open(&rig, b, 5, 1, 0);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_CLOSE, NULL);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_OPEN, NULL);
    close(a);
    close(b);
}

// A reload changes what comes, and takes nothing back.
Test(front_refusal, new_limits_hold_at_once)
{
    struct message m = {.type = MESSAGE_ROLE_CONFIG, .u.role_config = rig.front.config};
    int a = front_rig_open(&rig, NULL);

    front_rig_stream_open(&rig, a, 1, 0, 0);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_OPEN, NULL);
    m.u.role_config.streams_max = 1;
    m.u.role_config.connects_per_uid = 77;
    front_rig_send(&rig, rig.monitor, &m, NULL, 0);
    front_rig_stream_open(&rig, a, 2, 1, 0);
    front_rig_expect_client(a, MESSAGE_STREAM_REPLY, &m);
    cr_expect_eq(m.u.stream_reply.reason, MESSAGE_REASON_LIMIT);
    cr_expect_eq(rig.front.rate.per_uid, 77);
    cr_expect_eq(account_count(rig.front.account, ACCOUNT_STREAMS), 1);
    close(a);
}

// Case 40: what was passed could not be had, for the descriptor limit here: no fault of the client.
Test(front_refusal, descriptors_that_vanished)
{
    const struct message hello = {
        .type = MESSAGE_HELLO,
        .serial = 5,
        .u.hello = {.version_min = 1, .version_max = 1, .n_slots = 2, .n_streams = 4},
    };
    int client = front_rig_connect(&rig), top = 0;
    struct rlimit limit, small;

    while (top < 200 && (fcntl(top, F_GETFD) >= 0 || fcntl(client, F_DUPFD_CLOEXEC, top) == top))
        top++; // no gaps below
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (unsigned room = 0; room < 2; room++) {
        int other = front_rig_connect(&rig);
        cr_assert_eq(packet_send(other, &hello, (const int[]){client, client}, 2), 0);
        small = (struct rlimit){(rlim_t)top + 2 + room, limit.rlim_max}; // two of the connection
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &small), 0);
        front_rig_turn(&rig);
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        cr_expect_eq(expect_hello_refused(other, 5), MESSAGE_REASON_INTERNAL);
    }
    cr_expect_eq(rig.front.violations_total, 0);
    cr_expect_eq(rig.front.refused_total, 2);
    front_rig_expect_nothing(rig.engine);
}
