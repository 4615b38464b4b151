// SPDX-License-Identifier: MIT
// The keystream lane for ssh's ChaCha20 packets, against a daemon that fails on order.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_daemon.h"
#include "ssh_packets.h"

#define N_WINDOW 8u

TestSuite(keystream_packets, .timeout = 300);

static struct fake_daemon fake;
static struct ssh_packets packets;

static struct cryptod_counters counters(void)
{
    struct cryptod_counters now;

    cryptod_counters_get(&now);
    return now;
}

static void start(uint32_t deadline_ms, uint64_t number)
{
    fake_daemon_init(&fake, deadline_ms);
    fake.hello.offer[ALGORITHM_CHACHA20].lanes |= MESSAGE_LANE_KEYSTREAM;
    fake.hello.keystream_slots = N_WINDOW;
    fake_daemon_start(&fake);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    ssh_packets_init(&packets, number, true);
}

static void stop(void)
{
    ssh_packets_fini(&packets);
    cryptod_close();
    fake_daemon_stop(&fake);
}

static void send_many(int n, size_t n_bytes)
{
    for (int i = 0; i < n; i++)
        ssh_packets_send(&packets, n_bytes);
}

Test(keystream_packets, a_transfer)
{
    start(10000, 3);
    ssh_packets_enter_lane(&packets, 32784);
    send_many(20, 32784);
    struct cryptod_counters before = counters();
    uint32_t requests = atomic_load(&fake.keystreams), bells = atomic_load(&fake.bells);
    for (int i = 0; i < 40; i++) {
        send_many(1, 32784);
        fake_daemon_settle(&fake);
    }
    struct cryptod_counters after = counters();
    cr_assert_eq(after.software_bytes, before.software_bytes);
    cr_assert_eq(after.keystream_bytes - before.keystream_bytes, 40 * (32784 + 32));
    cr_assert_leq(atomic_load(&fake.keystreams) - requests, 40 + N_WINDOW);
    cr_assert_leq(atomic_load(&fake.bells) - bells, 40 / (N_WINDOW / 4) + 1);
    stop();
}

Test(keystream_packets, any_lengths)
{
    start(10000, UINT32_MAX - 500ull);
    ssh_packets_enter_lane(&packets, 30000);
    for (int i = 0; i < 1000; i++) {
        size_t most = reference_random_below(&packets.random, 20) == 0 ? 100000 : 32784;
        send_many(1, 16 + reference_random_below(&packets.random, most));
    }
    struct cryptod_counters now = counters();
    cr_assert_eq(now.fallbacks, 0);
    cr_assert_gt(now.keystream_bytes, now.software_bytes);
    stop();
}

// Numbers that jump, repeat and go back: right bytes, whatever was guessed. A repeated packet is
// encrypted with the same keystream, as OpenSSL would, but not from the same slot.
Test(keystream_packets, wrong_guesses)
{
    start(10000, 100);
    for (int i = 0; i < 600; i++) {
        if (cryptod_stream_lane(packets.stream) != CRYPTOD_LANE_KEYSTREAM)
            ssh_packets_enter_lane(&packets, 5000);
        send_many((int)reference_random_below(&packets.random, 30),
                  1000 + reference_random_below(&packets.random, 5000));
        packets.number += reference_random_below(&packets.random, 10);
        if (i % 3 == 0)
            packets.number -= 1 + reference_random_below(&packets.random, 20);
        if (i % 50 == 0)
            ssh_packets_rekey(&packets);
    }
    cr_assert_eq(counters().fallbacks, 0);
    cr_assert_gt(counters().keystream_bytes, 1000000);
    stop();
}

// One packet in parts, with the same IV again and again, and from any block.
Test(keystream_packets, any_order_in_a_packet)
{
    static uint8_t zeroes[20000], out[20000], expected[20000];

    start(10000, 1);
    for (int i = 0; i < 200; i++) {
        ssh_packets_enter_lane(&packets, sizeof zeroes);
        for (int part = 0; part < 8; part++) {
            uint8_t iv[16] = {0};
            size_t n = reference_random_below(&packets.random, sizeof zeroes);
            iv[0] = (uint8_t)reference_random_below(&packets.random, 200);
            iv[15] = (uint8_t)packets.number;
            iv[14] = (uint8_t)(packets.number >> 8);
            reference_crypt(ALGORITHM_CHACHA20, packets.key, iv, true, expected, zeroes, n);
            cr_assert_eq(cryptod_stream_init(packets.stream, NULL, iv, true), 0);
            cr_assert_eq(cryptod_stream_crypt(packets.stream, out, zeroes, n), 0);
            cr_assert_eq(memcmp(out, expected, n), 0);
        }
        packets.number++;
    }
    cr_assert_gt(counters().keystream_bytes, 0);
    stop();
}

Test(keystream_packets, trouble_at_every_request)
{
    static const int orders[] = {FAKE_REFUSE, FAKE_SILENT, FAKE_HANG_UP};

    for (uint32_t i = 0; i < 24; i++) {
        start(400, 100);
        ssh_packets_enter_lane(&packets, 20000);
        send_many(10, 20000);
        uint64_t fallbacks = counters().fallbacks;
        atomic_store(&fake.request_from, atomic_load(&fake.requests) + i / 3);
        atomic_store(&fake.on_request, orders[i % 3]);
        while (counters().fallbacks == fallbacks)
            send_many(1, 20000);
        send_many(10, 20000);
        atomic_store(&fake.on_request, FAKE_ACCEPT);
        if (orders[i % 3] == FAKE_SILENT)
            ssh_packets_enter_lane(&packets, 20000);
        send_many(10, 20000);
        stop();
    }
}

// Packets of 4 bytes are no bulk, however many.
Test(keystream_packets, lengths_stay_in_the_process)
{
    start(10000, 0);
    send_many(20000, 4);
    cr_assert_eq(atomic_load(&fake.opens), 0);
    cr_assert_eq(counters().keystream_bytes, 0);
    stop();
}
