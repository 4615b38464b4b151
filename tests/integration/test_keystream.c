// SPDX-License-Identifier: MIT
// The keystream lane against the real daemon with the cpu backend: right bytes and places whatever
// the sizes, alignments, IVs and counters, and most of the bytes really by the lane.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>
#include <unistd.h>

#include "client_flow.h"
#include "fixture.h"
#include "ssh_packets.h"

#define N_SLOT 65536u

static struct fixture fixture;

static void stop(void)
{
    fixture_stop(&fixture);
}

TestSuite(client_keystream, .timeout = 300, .fini = stop);

static void restart_at(struct client_flow *flow, const uint8_t iv[16])
{
    memcpy(flow->iv, iv, sizeof flow->iv);
    cr_assert_eq(EVP_CipherInit_ex2(flow->ctx, NULL, NULL, flow->iv, -1, NULL), 1);
    cr_assert_eq(cryptod_stream_init(flow->stream, NULL, flow->iv, flow->encrypt), 0);
}

static void enter(struct client_flow *flow, uint32_t algorithm, bool encrypt)
{
    client_flow_init(flow, algorithm, encrypt);
    client_flow_enter_lane(flow);
    cr_assert_eq(cryptod_stream_lane(flow->stream), CRYPTOD_LANE_KEYSTREAM);
}

ParameterizedTestParameters(client_keystream, every_size)
{
    static uint32_t ids[] = {ALGORITHM_AES_128_CTR, ALGORITHM_AES_192_CTR, ALGORITHM_AES_256_CTR};

    return cr_make_param_array(uint32_t, ids, sizeof ids / sizeof *ids);
}

ParameterizedTest(uint32_t *id, client_keystream, every_size)
{
    client_start(&fixture, CLIENT_PATIENT);
    for (int encrypt = 0; encrypt <= 1; encrypt++) {
        struct client_flow flow;
        enter(&flow, *id, encrypt);
        struct cryptod_counters before = client_counters();
        for (size_t k = 1; k <= 8; k++)
            for (int delta = -17; delta <= 17; delta++)
                client_flow_step(&flow, k * N_SLOT + (size_t)delta);
        for (int i = 0; i < 2000; i++) {
            size_t most = reference_random_below(&flow.random, 8) == 0 ? 200000 : 300;
            client_flow_step(&flow, reference_random_below(&flow.random, most));
        }
        struct cryptod_counters after = client_counters();
        uint64_t n_lane = after.keystream_bytes - before.keystream_bytes,
                 n_software = after.software_bytes - before.software_bytes;
        cr_assert_gt(n_lane, 9 * n_software, "%llu and %llu", (unsigned long long)n_lane,
                     (unsigned long long)n_software);
        cr_assert_eq(after.request_operations, 0);
        cr_assert_eq(after.fallbacks, 0);
        client_flow_fini(&flow);
    }
    client_finish(&fixture);
}

// A filled window serves the smallest calls too.
Test(client_keystream, calls_of_sixteen_bytes)
{
    struct client_flow flow;

    client_start(&fixture, CLIENT_PATIENT "lanes.request_min=4K");
    enter(&flow, ALGORITHM_AES_128_CTR, true);
    client_flow_step(&flow, N_SLOT);
    struct cryptod_counters before = client_counters();
    for (int i = 0; i < 30000; i++)
        client_flow_step(&flow, 16);
    struct cryptod_counters after = client_counters();
    cr_assert_gt(after.keystream_bytes - before.keystream_bytes, 400000);
    client_flow_fini(&flow);
    client_finish(&fixture);
}

// The place is reported right at every byte around the ends of slots, and a new IV may come there.
Test(client_keystream, ivs_at_every_byte_around_borders)
{
    struct client_flow flow;

    client_start(&fixture, CLIENT_PATIENT);
    enter(&flow, ALGORITHM_AES_256_CTR, false);
    for (size_t before = 0; before <= 33; before++) {
        client_flow_restart(&flow, false);
        client_flow_step(&flow, N_SLOT);
        client_flow_step(&flow, N_SLOT - before);
        for (size_t i = 0; i < 2 * before; i++)
            client_flow_step(&flow, 1);
        for (size_t k = 2; k < 4; k++)
            client_flow_step(&flow, k * N_SLOT - before);
    }
    for (size_t n = 0; n <= 64; n++) {
        client_flow_restart(&flow, false);
        client_flow_step(&flow, 3 * N_SLOT - 32 + n);
        uint8_t old[16];
        memcpy(old, flow.iv, sizeof old);
        client_flow_restart(&flow, n % 8 == 0);
        client_flow_step(&flow, n);
        restart_at(&flow, old); // back to the one that keystream was made for
        client_flow_step(&flow, 2 * N_SLOT + n);
    }
    cr_assert_eq(client_counters().fallbacks, 0);
    client_flow_fini(&flow);
    client_finish(&fixture);
}

Test(client_keystream, counters_that_carry)
{
    struct client_flow flow;
    uint8_t iv[16];

    client_start(&fixture, CLIENT_PATIENT);
    enter(&flow, ALGORITHM_AES_192_CTR, true);
    for (int n_ones = 2; n_ones <= 16; n_ones++) {
        for (size_t blocks_before = 1; blocks_before < 40000; blocks_before *= 3) {
            reference_random_fill(&flow.random, iv, sizeof iv);
            memset(iv + 16 - n_ones, 0xff, (size_t)n_ones);
            iv[15] = (uint8_t)(0 - blocks_before);
            iv[14] = (uint8_t)((0 - blocks_before) >> 8);
            restart_at(&flow, iv);
            for (int i = 0; i < 4; i++)
                client_flow_step(&flow, 2 * N_SLOT - 5);
        }
    }
    struct cryptod_counters now = client_counters();
    cr_assert_gt(now.keystream_bytes, 4 * now.software_bytes, "%llu and %llu",
                 (unsigned long long)now.keystream_bytes, (unsigned long long)now.software_bytes);
    client_flow_fini(&flow);
    client_finish(&fixture);
}

Test(client_keystream, rekeys_and_copies)
{
    struct client_flow flow;

    client_start(&fixture, CLIENT_PATIENT);
    enter(&flow, ALGORITHM_AES_128_CTR, true);
    for (int i = 0; i < 40; i++) {
        client_flow_restart(&flow, true);
        client_flow_enter_lane(&flow);
        client_flow_step(&flow, 2 * N_SLOT + (size_t)i);
        client_flow_step(&flow, 100 + (size_t)i);
        // The copy goes on where the original is, with keystream of its own; then it is the
        // original's turn.
        cryptod_stream *copy, *original = flow.stream;
        EVP_CIPHER_CTX *original_ctx = flow.ctx;
        cr_assert_eq(cryptod_stream_dup(original, &copy), 0);
        flow.stream = copy;
        flow.ctx = EVP_CIPHER_CTX_new();
        cr_assert_eq(EVP_CIPHER_CTX_copy(flow.ctx, original_ctx), 1);
        client_flow_step(&flow, 5001);
        client_flow_enter_lane(&flow);
        client_flow_step(&flow, 3 * N_SLOT);
        if (i % 2 == 0)
            cryptod_stream_free(copy);
        EVP_CIPHER_CTX_free(flow.ctx);
        flow.stream = original;
        flow.ctx = original_ctx;
        client_flow_step(&flow, 3 * N_SLOT + 7);
        if (i % 2 != 0)
            cryptod_stream_free(copy);
        client_flow_step(&flow, 1000);
    }
    cr_assert_eq(client_counters().fallbacks, 0);
    cr_assert_gt(client_counters().keystream_bytes, 80 * N_SLOT);
    client_flow_fini(&flow);
    client_finish(&fixture);
}

// Streams of one channel share its slots.
Test(client_keystream, several_streams)
{
    struct client_flow flows[6];

    client_start(&fixture, CLIENT_PATIENT);
    for (uint32_t i = 0; i < 6; i++)
        client_flow_init(&flows[i], i % 2 == 0 ? ALGORITHM_AES_128_CTR : ALGORITHM_AES_256_CBC, i);
    for (uint32_t i = 0; i < 6; i++)
        client_flow_enter_lane(&flows[i]);
    for (int round = 0; round < 200; round++)
        for (uint32_t i = 0; i < 6; i++)
            client_flow_step(&flows[i], reference_random_below(&flows[i].random, 60000));
    struct cryptod_counters now = client_counters();
    cr_assert_eq(now.fallbacks, 0);
    cr_assert_gt(now.keystream_bytes, 0);
    cr_assert_gt(now.request_bytes, 0);
    for (uint32_t i = 0; i < 6; i++)
        client_flow_fini(&flows[i]);
    client_finish(&fixture);
}

// The daemon takes the memory of an idle channel back; the stream goes on as if nothing had been.
Test(client_keystream, idle)
{
    struct client_flow flow;

    client_start(&fixture, CLIENT_PATIENT "lanes.idle_s=1");
    enter(&flow, ALGORITHM_AES_128_CTR, true);
    for (int round = 0; round < 3; round++) {
        client_flow_run(&flow, 40);
        sleep(4);
        uint64_t before = client_counters().keystream_bytes;
        client_flow_step(&flow, 70000);
        client_flow_run(&flow, 40);
        cr_assert_gt(client_counters().keystream_bytes - before, 30 * 32768);
    }
    cr_assert_eq(client_counters().fallbacks, 0);
    client_flow_fini(&flow);
    client_finish(&fixture);
}

// A daemon that allows small channels only: no keystream, but the request lane.
Test(client_keystream, a_limit_of_four_slots)
{
    struct client_flow flow;

    client_start(&fixture, CLIENT_PATIENT CLIENT_REQUESTS_ONLY);
    client_flow_init(&flow, ALGORITHM_AES_128_CTR, true);
    client_flow_enter_lane(&flow);
    cr_assert_eq(cryptod_stream_lane(flow.stream), CRYPTOD_LANE_REQUEST);
    client_flow_run(&flow, 20);
    cr_assert_eq(client_counters().keystream_bytes, 0);
    cr_assert_gt(client_counters().request_bytes, 600000);
    client_flow_fini(&flow);
    client_finish(&fixture);
}

// ---------------------------------------------------------------- ssh's ChaCha20

Test(client_keystream, packets_of_any_length)
{
    struct ssh_packets packets;

    client_start(&fixture, CLIENT_PATIENT);
    for (int encrypt = 0; encrypt <= 1; encrypt++) {
        ssh_packets_init(&packets, encrypt ? 3 : UINT32_MAX - 600ull, encrypt);
        ssh_packets_enter_lane(&packets, 32784);
        for (int i = 0; i < 1000; i++)
            ssh_packets_send(&packets, 16 + reference_random_below(&packets.random, 32769));
        struct cryptod_counters before = client_counters();
        for (int i = 0; i < 300; i++)
            ssh_packets_send(&packets, 32784);
        struct cryptod_counters after = client_counters();
        cr_assert_gt(after.keystream_bytes - before.keystream_bytes, 290 * 32784);
        // Longer than a slot, and wrong guesses: numbers that jump.
        for (int i = 0; i < 300; i++) {
            ssh_packets_send(&packets, reference_random_below(&packets.random, 150000));
            if (i % 10 == 0)
                packets.number += reference_random_below(&packets.random, 5);
        }
        ssh_packets_rekey(&packets);
        ssh_packets_enter_lane(&packets, 32784);
        for (int i = 0; i < 50; i++)
            ssh_packets_send(&packets, 32784);
        ssh_packets_fini(&packets);
    }
    struct cryptod_counters now = client_counters();
    cr_assert_eq(now.fallbacks, 0);
    cr_assert_gt(now.keystream_bytes, now.software_bytes);
    client_finish(&fixture);
}

// One IV and then a long message: not packets, so it stays in software.
Test(client_keystream, a_plain_chacha_stream_stays_in_software)
{
    struct client_flow flow;

    client_start(&fixture, CLIENT_PATIENT);
    client_flow_init(&flow, ALGORITHM_CHACHA20, true);
    client_flow_run(&flow, 100);
    cr_assert_eq(cryptod_stream_lane(flow.stream), CRYPTOD_LANE_SOFTWARE);
    cr_assert_eq(client_counters().keystream_bytes, 0);
    client_flow_fini(&flow);
    client_finish(&fixture);
}
