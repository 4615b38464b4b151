// SPDX-License-Identifier: MIT
// Cases from the field, each named with its number: what programs do that has given wrong bytes, an
// error or no answer elsewhere. Right bytes here, through the library and through the provider.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "client_flow.h"
#include "fixture.h"
#include "provider_pair.h"
#include "ssh_packets.h"

#define N_LARGE ((size_t)8 * 1024 * 1024)

static struct fixture fixture;
static struct pair_world world;

static void stop(void)
{
    fixture_stop(&fixture);
}

TestSuite(cases_bytes, .timeout = 300, .fini = stop);

// By the provider, for each of its ciphers; all but ChaCha20 must have used the daemon.
static void each_cipher(void (*run)(struct pair *pair, uint64_t *seed, const uint8_t *data))
{
    uint8_t *data = malloc(PAIR_SIZE_MAX);
    uint64_t seed = 4, before, after, bytes;

    cr_assert_not_null(data);
    pair_random_bytes(&seed, data, PAIR_SIZE_MAX);
    fixture_start(&fixture, CLIENT_PATIENT);
    pair_world_open(&world);
    for (size_t i = 0; i < pair_n_names; i++) {
        const bool stays = strcmp(pair_names[i], "ChaCha20") == 0;
        struct pair pair;

        pair_served(pair_names[i], &before, &bytes);
        for (int k = 0; k < PAIR_REPEAT; k++) {
            pair_open(&pair, &world, pair_names[i]);
            run(&pair, &seed, data);
            pair_close(&pair);
            pair_served(pair_names[i], &after, &bytes);
            if (stays || after > before)
                break;
        }
        cr_expect(stays || after > before, "%s: the daemon did nothing", pair_names[i]);
    }
    pair_world_close(&world);
    fixture_stop(&fixture);
    free(data);
}

static void start_pair(struct pair *pair, uint64_t *seed, int encrypt)
{
    uint8_t key[32], iv[16];

    pair_random_bytes(seed, key, sizeof(key));
    pair_random_bytes(seed, iv, sizeof(iv));
    cr_assert_eq(pair_start(pair, key, iv, encrypt), 1);
    pair_set_padding(pair, 0);
}

// ---------------------------------------------------------------- 6

static void decrypt_unaligned(struct pair *pair, uint64_t *seed, const uint8_t *data)
{
    start_pair(pair, seed, 0);
    for (size_t offset = 0; offset < 32; offset++)
        cr_assert_eq(pair_update(pair, data + offset, 22528, PAIR_APART, offset), 1);
    for (size_t offset = 1; offset < 32; offset += 5)
        cr_assert_eq(pair_update(pair, data, 22528, PAIR_IN_PLACE, offset), 1);
}

Test(cases_bytes, case_06_provider_decrypts_22_kb_unaligned)
{
    each_cipher(decrypt_unaligned);
}

// ---------------------------------------------------------------- 8

// A driver that never comes back from a request over 64 KiB does not get one.
Test(cases_bytes, case_08_calls_larger_than_any_send_buffer)
{
    uint8_t *in = malloc(N_LARGE), *out = malloc(N_LARGE), *want = malloc(N_LARGE);

    cr_assert(in && out && want);
    client_start(&fixture,
                 CLIENT_PATIENT "engine.backends=fault\nengine.fault=hang_after=0,if_over=65536");
    for (uint32_t a = 0; a < ALGORITHM_CHACHA20; a++) {
        struct client_flow flow;

        client_flow_init(&flow, a, a % 2 == 0);
        client_flow_enter_lane(&flow);
        const uint64_t n_before = client_lane_bytes();
        client_flow_restart(&flow, false);
        reference_random_fill(&flow.random, in, N_LARGE);
        reference_crypt(a, flow.key, flow.iv, flow.encrypt, want, in, N_LARGE);
        cr_assert_eq(cryptod_stream_crypt(flow.stream, out, in, N_LARGE), 0);
        cr_expect_eq(memcmp(out, want, N_LARGE), 0, "%s", flow.info->name);
        cr_expect_gt(client_lane_bytes(), n_before + N_LARGE / 2);
        client_flow_fini(&flow);
    }
    cr_expect_eq(client_counters().timeouts, 0);
    cr_expect_eq(client_counters().fallbacks, 0);
    client_finish(&fixture);
    free(in);
    free(out);
    free(want);
}

// ---------------------------------------------------------------- 10

// Each call of one block is a request of its own.
Test(cases_bytes, case_10_library_two_blocks_in_two_calls)
{
    client_start(&fixture, CLIENT_PATIENT CLIENT_REQUESTS_ONLY);
    for (uint32_t a = 0; a < ALGORITHM_CHACHA20; a++) {
        for (int encrypt = 0; encrypt < 2; encrypt++) {
            uint8_t in[32], out[32], want[32];
            struct client_flow flow;

            client_flow_init(&flow, a, encrypt);
            client_flow_enter_lane(&flow);
            const uint64_t before = client_counters().request_operations;
            for (int i = 0; i < 100; i++) {
                client_flow_restart(&flow, false);
                // The same block twice: chaining that does not work would show at once.
                reference_random_fill(&flow.random, in, 16);
                memcpy(in + 16, in, 16);
                reference_crypt(a, flow.key, flow.iv, encrypt, want, in, sizeof(in));
                cr_assert_eq(cryptod_stream_crypt(flow.stream, out, in, 16), 0);
                cr_assert_eq(cryptod_stream_crypt(flow.stream, out + 16, in + 16, 16), 0);
                cr_expect_arr_eq(out, want, sizeof(out));
            }
            cr_expect_eq(client_counters().request_operations, before + 200);
            client_flow_fini(&flow);
        }
    }
    client_finish(&fixture);
}

static void two_blocks(struct pair *pair, uint64_t *seed, const uint8_t *data)
{
    for (int encrypt = 0; encrypt < 2; encrypt++) {
        start_pair(pair, seed, encrypt);
        for (int i = 0; i < 200; i++) {
            cr_assert_eq(pair_update(pair, data, 16, PAIR_APART, 0), 1);
            cr_assert_eq(pair_update(pair, data, 16, PAIR_IN_PLACE, 0), 1);
        }
    }
}

Test(cases_bytes, case_10_provider_two_blocks_in_two_calls)
{
    each_cipher(two_blocks);
}

// ---------------------------------------------------------------- 11

// Nothing in the middle of something changes nothing.
Test(cases_bytes, case_11_library_length_0_and_split_streams)
{
    client_start(&fixture, CLIENT_PATIENT);
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        uint8_t guard = 0x5a;
        struct client_flow flow;

        client_flow_init(&flow, a, a % 2 == 0);
        if (a != ALGORITHM_CHACHA20)
            client_flow_enter_lane(&flow);
        for (int i = 0; i < 300; i++) {
            cr_assert_eq(cryptod_stream_crypt(flow.stream, &guard, &guard, 0), 0);
            cr_assert_eq(guard, 0x5a);
            client_flow_step(&flow, reference_random_below(&flow.random, 3000));
            if (i % 50 == 0) {
                client_flow_restart(&flow, i % 100 == 0);
                cr_assert_eq(cryptod_stream_crypt(flow.stream, &guard, &guard, 0), 0);
            }
        }
        client_flow_fini(&flow);
    }
    cr_expect_eq(client_counters().fallbacks, 0);
    client_finish(&fixture);
}

static void empty_and_split(struct pair *pair, uint64_t *seed, const uint8_t *data)
{
    for (int encrypt = 0; encrypt < 2; encrypt++) {
        start_pair(pair, seed, encrypt);
        pair_update(pair, data, 0, PAIR_APART, 0);
        for (int i = 0; i < 60; i++) {
            cr_assert_eq(pair_update(pair, data, pair_random(seed) % 5000, PAIR_APART, 3), 1);
            pair_update(pair, data, 0, PAIR_APART, 0);
        }
    }
}

// GCM, whose empty plaintext was the report's, stays with OpenSSL.
Test(cases_bytes, case_11_provider_length_0_and_split_streams)
{
    each_cipher(empty_and_split);
    fixture_start(&fixture, NULL);
    pair_world_open(&world);
    cr_expect_null(EVP_CIPHER_fetch(world.ours, "AES-128-GCM", NULL));
    pair_world_close(&world);
    fixture_stop(&fixture);
}

// ---------------------------------------------------------------- 33

// IVs alone, with less and with more than the lane takes between them.
Test(cases_bytes, case_33_library_1000_ivs_alone)
{
    client_start(&fixture, CLIENT_PATIENT);
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        struct client_flow flow;

        client_flow_init(&flow, a, a % 2 == 0);
        if (a != ALGORITHM_CHACHA20)
            client_flow_enter_lane(&flow);
        for (int i = 0; i < 1000; i++) {
            client_flow_restart(&flow, false);
            client_flow_step(&flow, reference_random_below(&flow.random, 200));
            if (i % 8 == 0)
                client_flow_step(&flow, reference_random_below(&flow.random, 150000));
        }
        client_flow_fini(&flow);
    }
    cr_expect_gt(client_lane_bytes(), N_LARGE);
    cr_expect_eq(client_counters().fallbacks, 0);
    client_finish(&fixture);
}

// In the way of ssh, whose lane makes keystream for the IVs to come: some come, some do not.
Test(cases_bytes, case_33_library_1000_ivs_alone_as_ssh_packets)
{
    struct ssh_packets packets;

    client_start(&fixture, CLIENT_PATIENT);
    ssh_packets_init(&packets, UINT32_MAX - UINT64_C(500), true);
    ssh_packets_enter_lane(&packets, 4096);
    for (int i = 0; i < 1000; i++) {
        packets.number += i % 7 == 0 ? reference_random_below(&packets.random, 3) : 0;
        ssh_packets_send(&packets, i % 5 == 0 ? 16 : 4096);
    }
    cr_expect_gt(client_counters().keystream_bytes, 100 * 4096);
    ssh_packets_fini(&packets);
    client_finish(&fixture);
}

static void thousand_ivs(struct pair *pair, uint64_t *seed, const uint8_t *data)
{
    uint8_t iv[16];

    start_pair(pair, seed, 1);
    for (int i = 0; i < 1000; i++) {
        pair_random_bytes(seed, iv, sizeof(iv));
        cr_assert_eq(pair_init(pair, NULL, iv, i % 3 ? -1 : 1), 1);
        pair_update(pair, data, pair_random(seed) % (i % 8 ? 200 : 40000), PAIR_APART, 0);
    }
}

Test(cases_bytes, case_33_provider_1000_ivs_alone)
{
    each_cipher(thousand_ivs);
}
