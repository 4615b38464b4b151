// SPDX-License-Identifier: MIT
// Messages that are not what they should be, each kind of them at each place, with a transfer
// beside them that must not notice: cut off at each length, flipped at each bit, halves, many at
// once, with floods of descriptors.
#include "hostile_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "packet.h"
#include "fixture_proc.h"

static struct hostile_rig rig;

static void setup(void)
{
    hostile_setup(&rig, NULL);
}

static void teardown(void)
{
    hostile_teardown(&rig);
}

TestSuite(hostile_messages, .init = setup, .fini = teardown, .timeout = 500);

// Everything that a client may say, right. The last two want an open channel, CLOSE an open stream
// besides.
static const struct message right[] = {
    {.type = MESSAGE_HELLO,
     .serial = 1,
     .u.hello = {MESSAGE_VERSION_MIN, MESSAGE_VERSION_MAX, HOSTILE_SLOTS, HOSTILE_STREAMS}},
    {.type = MESSAGE_STATUS, .serial = 2},
    {.type = MESSAGE_CALIBRATE, .serial = 3},
    {.type = MESSAGE_STREAM_OPEN, .serial = 4, .u.stream_open = {0, ALGORITHM_AES_128_CBC}},
    {.type = MESSAGE_STREAM_CLOSE, .serial = 5, .u.stream_close = {0}},
};
#define N_RIGHT (sizeof(right) / sizeof(right[0]))

// A client as far as it must be for that message, and the descriptors that go with it.
struct act {
    struct hostile_client client;
    int fds[2];
    size_t n_fds;
};

static void act_begin(struct act *act, const struct message *m)
{
    *act = (struct act){.client = {.control = -1, .bell = -1, .memory = -1}};
    if (m->type == MESSAGE_STREAM_OPEN || m->type == MESSAGE_STREAM_CLOSE) {
        hostile_client_open(&act->client, &rig);
        if (m->type == MESSAGE_STREAM_CLOSE)
            hostile_client_open_stream(&act->client, 0, ALGORITHM_AES_128_CBC);
        return;
    }
    if (m->type == MESSAGE_HELLO) {
        hostile_client_make(&act->client, &act->fds[1]);
        act->fds[0] = act->client.memory;
        act->n_fds = 2;
    }
    act->client.control = raw_connect(&rig.fixture);
}

static void act_end(struct act *act)
{
    if (act->n_fds == 2)
        close(act->fds[1]);
    hostile_client_close(&act->client);
}

static uint64_t count_violations(void)
{
    struct message_status_summary summary;

    raw_status(&rig.fixture, &summary);
    return summary.violations_total;
}

// Whatever the daemon makes of what was said, it answers the next question, or has closed.
static void expect_answer_or_end(int client)
{
    const struct message ask = {.type = MESSAGE_STATUS, .serial = 77};
    struct message m;
    int r;

    if (!raw_send_message(client, &ask, NULL, 0))
        return;
    do {
        r = packet_read(client, MESSAGE_FRONT_TO_CLIENT, &m);
    } while (r == 0 && m.serial != 77);
    cr_assert(r == 0 || r == -ENODATA || r == -ECONNRESET, "%s", strerror(-r));
}

Test(hostile_messages, cut_off_at_each_length)
{
    uint64_t n_violations = count_violations();

    for (size_t i = 0; i < N_RIGHT; i++) {
        uint8_t bytes[MESSAGE_LEN_MAX + 8] = {0};
        size_t n_right;

        cr_assert_eq(message_encode(&right[i], bytes, sizeof(bytes), &n_right), 0);
        for (size_t n = 0; n <= n_right + 8; n++) {
            struct act act;

            if (n == n_right)
                continue;
            act_begin(&act, &right[i]);
            // Also with the length that it has, so that length and packet agree.
            if (n % 2 == 1 && n > 8)
                bytes[4] = (uint8_t)n;
            (void)raw_send(act.client.control, bytes, n, act.fds, n > 0 ? act.n_fds : 0);
            bytes[4] = (uint8_t)n_right;
            raw_expect_closed(act.client.control);
            act_end(&act);
            n_violations++;
        }
        hostile_check_all(&rig);
        cr_assert_eq(count_violations(), n_violations, "%s", message_info(right[i].type)->name);
    }
}

Test(hostile_messages, flipped_at_each_bit)
{
    uint64_t n_least = count_violations();

    for (size_t i = 0; i < N_RIGHT; i++) {
        uint8_t bytes[MESSAGE_LEN_MAX];
        struct message decoded;
        size_t n;

        cr_assert_eq(message_encode(&right[i], bytes, sizeof(bytes), &n), 0);
        for (size_t bit = 0; bit < 8 * n; bit++) {
            struct act act;

            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            const int r = message_decode(bytes, n, MESSAGE_CLIENT_TO_FRONT, &decoded);
            act_begin(&act, &right[i]);
            (void)raw_send(act.client.control, bytes, n, act.fds, act.n_fds);
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            if (r < 0) {
                raw_expect_closed(act.client.control);
                n_least++;
            } else {
                expect_answer_or_end(act.client.control);
            }
            act_end(&act);
        }
        hostile_check_all(&rig);
        cr_assert_geq(count_violations(), n_least, "%s", message_info(right[i].type)->name);
    }
}

// A message in two packets is two wrong ones, and two in one packet are one wrong one.
Test(hostile_messages, halves_and_doubles)
{
    for (size_t i = 0; i < N_RIGHT; i++)
        for (int twice = 0; twice < 2; twice++) {
            uint8_t bytes[2 * MESSAGE_LEN_MAX];
            struct act act;
            size_t n;

            act_begin(&act, &right[i]);
            cr_assert_eq(message_encode(&right[i], bytes, sizeof(bytes), &n), 0);
            memcpy(bytes + n, bytes, n);
            (void)raw_send(act.client.control, bytes, twice ? 2 * n : n / 2, act.fds, act.n_fds);
            (void)raw_send(act.client.control, bytes + n / 2, n - n / 2, NULL, 0);
            raw_expect_closed(act.client.control);
            act_end(&act);
        }
    hostile_check_all(&rig);
}

// All at once, without waiting for an answer: what is answered is answered in its order.
Test(hostile_messages, pipelined)
{
    enum { ROUNDS = 200, OPENS = 3 };

    for (int round = 0; round < ROUNDS; round++) {
        struct hostile_client client;
        struct message m;
        int bell;

        hostile_client_make(&client, &bell);
        client.control = raw_connect(&rig.fixture);
        cr_assert(
            raw_send_message(client.control, &right[0], (const int[]){client.memory, bell}, 2));
        // Streams before the answer to HELLO are out of order; the front may see them later than
        // that.
        for (uint64_t i = 0; i < OPENS; i++) {
            m = right[3];
            m.serial = 100 + i;
            if (!raw_send_message(client.control, &m, NULL, 0) ||
                !raw_send_message(client.control, &right[4], NULL, 0))
                break;
        }
        close(bell);
        int r = packet_read(client.control, MESSAGE_FRONT_TO_CLIENT, &m);
        if (r == 0) {
            cr_assert_eq(m.type, MESSAGE_HELLO_REPLY);
            for (uint64_t i = 0; r == 0 && i < OPENS; i++) {
                r = packet_read(client.control, MESSAGE_FRONT_TO_CLIENT, &m);
                cr_assert(r < 0 || (m.type == MESSAGE_STREAM_REPLY && m.serial == 100 + i));
            }
        }
        cr_assert(r == 0 || r == -ENODATA || r == -ECONNRESET, "%s", strerror(-r));
        hostile_client_close(&client);
    }
    hostile_check_all(&rig);
}

// The same when the channel is open: nothing is lost.
Test(hostile_messages, pipelined_streams)
{
    enum { ROUNDS = 100, OPENS = 16 }; // as many as streams_per_channel
    struct hostile_client client;
    struct message m;

    hostile_client_open(&client, &rig);
    for (int round = 0; round < ROUNDS; round++) {
        for (uint64_t i = 0; i < OPENS; i++) {
            m = right[3];
            m.serial = i;
            cr_assert(raw_send_message(client.control, &m, NULL, 0));
            cr_assert(raw_send_message(client.control, &right[4], NULL, 0));
        }
        for (uint64_t i = 0; i < OPENS; i++) {
            raw_expect(client.control, MESSAGE_STREAM_REPLY, &m);
            cr_assert_eq(m.serial, i);
        }
    }
    hostile_client_close(&client);
    hostile_check_all(&rig);
}

// 253 descriptors a message, from many clients at once, with every kind of message; the daemon
// never keeps one of them.
Test(hostile_messages, flood_of_descriptors)
{
    enum { CLIENTS = 40, ROUNDS = 25 };
    int clients[CLIENTS], fds[RAW_FDS_MAX];
    uint8_t bytes[MESSAGE_LEN_MAX];
    struct message_status_summary summary;

    for (size_t i = 0; i < RAW_FDS_MAX; i++)
        fds[i] = STDERR_FILENO;
    const uint64_t n_before = count_violations();
    for (int round = 0; round < ROUNDS; round++) {
        const struct message *m = &right[(size_t)round % N_RIGHT];
        size_t n;

        cr_assert_eq(message_encode(m, bytes, sizeof(bytes), &n), 0);
        for (int i = 0; i < CLIENTS; i++)
            clients[i] = raw_connect(&rig.fixture);
        for (int i = 0; i < CLIENTS; i++) {
            (void)raw_send(clients[i], bytes, n, fds, RAW_FDS_MAX);
            (void)raw_send(clients[i], bytes, i % 2 == 0 ? n : 0, fds, RAW_FDS_MAX);
        }
        for (int i = 0; i < CLIENTS; i++) {
            raw_expect_closed(clients[i]);
            close(clients[i]);
        }
    }
    raw_status(&rig.fixture, &summary);
    cr_assert_eq(summary.violations_total, n_before + CLIENTS * ROUNDS);
    hostile_check_all(&rig);
}
