// SPDX-License-Identifier: MIT
// Cases from the field, each named with its number: copies of contexts in any state, outputs before
// a page that nobody may touch, and clients that truncate the memory that they share.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client_flow.h"
#include "hostile_rig.h"
#include "provider_pair.h"
#include "provider_states.h"

#define REQUEST   CRYPTOD_LANE_BIT(CRYPTOD_LANE_REQUEST)
#define KEYSTREAM CRYPTOD_LANE_BIT(CRYPTOD_LANE_KEYSTREAM)

static struct fixture fixture;
static struct pair_world world;
static uint8_t data[PAIR_SIZE_MAX];

static void stop(void)
{
    fixture_stop(&fixture);
}

TestSuite(cases_hostile, .timeout = 500, .fini = stop);

static void start(const char *extra_conf)
{
    uint64_t seed = 22;

    pair_random_bytes(&seed, data, sizeof(data));
    fixture_start(&fixture, extra_conf);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
}

static void finish(void)
{
    cryptod_close();
    fixture_stop(&fixture);
}

// ---------------------------------------------------------------- case 3

// A copy and its original, whatever state they are in, give what a new stream gives from there on.
static void expect_same(cryptod_stream *a, cryptod_stream *b, size_t n)
{
    uint8_t *out_a = calloc(1, n), *out_b = calloc(1, n);

    cr_assert(out_a != NULL && out_b != NULL);
    cr_assert_eq(cryptod_stream_crypt(a, out_a, data, n), 0);
    cr_assert_eq(cryptod_stream_crypt(b, out_b, data, n), 0);
    cr_assert_eq(memcmp(out_a, out_b, n), 0);
    free(out_a);
    free(out_b);
}

Test(cases_hostile, case_03_library_copies_without_a_key)
{
    static const uint8_t key[32] = {3}, iv[16] = {5};
    uint8_t byte[16] = {0};

    start(CLIENT_PATIENT);
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++)
        for (int with_iv = 0; with_iv < 2; with_iv++) {
            cryptod_stream *original, *copy, *second, *whole;

            cr_assert_eq(cryptod_stream_new((enum cryptod_algorithm)id, &original), 0);
            cr_assert_eq(cryptod_stream_new((enum cryptod_algorithm)id, &whole), 0);
            if (with_iv)
                cr_assert_eq(cryptod_stream_init(original, NULL, iv, true), -ENOKEY);
            cr_assert_eq(cryptod_stream_dup(original, &copy), 0);
            cr_assert_eq(cryptod_stream_dup(copy, &second), 0);
            cr_assert_eq(cryptod_stream_crypt(copy, byte, byte, 16), -ENOKEY);
            cryptod_stream_free(original);
            cr_assert_eq(cryptod_stream_init(copy, key, with_iv ? NULL : iv, true), 0);
            cr_assert_eq(cryptod_stream_init(second, key, with_iv ? NULL : iv, true), 0);
            cr_assert_eq(cryptod_stream_init(whole, key, iv, true), 0);
            for (int i = 0; i < 4; i++) {
                expect_same(copy, whole, 48000);
                cr_assert_eq(cryptod_stream_init(whole, NULL, iv, true), 0);
                expect_same(second, whole, 48000);
                cr_assert_eq(cryptod_stream_init(copy, NULL, iv, true), 0);
                cr_assert_eq(cryptod_stream_init(second, NULL, iv, true), 0);
                cr_assert_eq(cryptod_stream_init(whole, NULL, iv, true), 0);
            }
            cryptod_stream_free(copy);
            cryptod_stream_free(second);
            cryptod_stream_free(whole);
        }
    finish();
}

// In a lane, in the middle of a block, over the end of the channel.
Test(cases_hostile, case_03_library_copies_in_the_lanes)
{
    static const char *const confs[] = {CLIENT_PATIENT, CLIENT_PATIENT CLIENT_REQUESTS_ONLY};

    for (size_t c = 0; c < 2; c++)
        for (uint32_t id = 0; id < ALGORITHM_CHACHA20; id++) {
            struct client_flow flow;
            cryptod_stream *copies[3];

            start(confs[c]);
            client_flow_init(&flow, id, id % 2 == 0);
            client_flow_enter_lane(&flow);
            client_flow_step(&flow, 70000 / flow.info->n_block * flow.info->n_block);
            cr_assert_eq(cryptod_stream_dup(flow.stream, &copies[0]), 0);
            cr_assert_eq(cryptod_stream_dup(copies[0], &copies[1]), 0);
            cr_assert_eq(cryptod_stream_dup(flow.stream, &copies[2]), 0);
            expect_same(copies[0], copies[1], 160000);
            finish(); // the last copy, and the original, go on without a daemon
            cryptod_stream_free(copies[0]);
            cr_assert_eq(cryptod_stream_dup(flow.stream, &copies[0]), 0);
            expect_same(copies[0], copies[2], 160000);
            client_flow_step(&flow, 4800);
            for (size_t i = 0; i < 3; i++)
                cryptod_stream_free(copies[i]);
            client_flow_fini(&flow);
        }
}

Test(cases_hostile, case_03_provider_copies_in_every_state)
{
    start(CLIENT_PATIENT);
    pair_world_open(&world);
    for (size_t i = 0; i < pair_n_names; i++)
        for (unsigned state = 0;; state++) {
            struct pair pair, over;
            bool known = true;

            for (int encrypt = 0; known && encrypt < 2; encrypt++)
                for (int how = 0; known && how < 3; how++) {
                    pair_open(&pair, &world, pair_names[i]);
                    pair_open(&over, &world, pair_names[i]);
                    known = states_enter(&pair, state, encrypt, data);
                    if (known && how < 2) {
                        pair_copy(&pair, how == 0); // the original freed first, or used
                        states_go_on(&pair, state, data);
                    } else if (known) { // over one that nobody has initialised, and back
                        pair_copy_into(&over, &pair);
                        pair_copy_into(&pair, &over);
                        states_go_on(&over, state, data);
                        states_go_on(&pair, state, data);
                    }
                    pair_close(&pair);
                    pair_close(&over);
                }
            if (!known)
                break;
        }
    pair_world_close(&world);
    finish();
}

// Without a cipher there is nothing to copy: an error, as OpenSSL has it.
Test(cases_hostile, case_03_provider_copy_of_an_uninitialised_context)
{
    struct pair from, to;

    start(NULL);
    pair_world_open(&world);
    pair_open(&from, &world, "AES-256-CBC");
    pair_open(&to, &world, "AES-256-CBC");
    pair_copy_into(&to, &from);
    cr_assert_null(EVP_CIPHER_CTX_get0_cipher(to.ours));
    states_enter(&to, 6, 1, data);
    pair_copy_into(&to, &from);
    states_enter(&to, 6, 0, data);
    states_go_on(&to, 1, data);
    pair_close(&from);
    pair_close(&to);
    pair_world_close(&world);
    finish();
}

// ---------------------------------------------------------------- case 22

// The output ends where a page begins that nobody may touch; so does the input.
static void guarded_step(struct client_flow *flow, size_t n)
{
    struct reference_guard in, out;

    n -= n % flow->info->n_block;
    if (n == 0)
        return;
    reference_guard_new(&in, n);
    reference_guard_new(&out, n);
    reference_random_fill(&flow->random, in.bytes, n);
    reference_update(flow->ctx, flow->expected, in.bytes, n);
    cr_assert_eq(cryptod_stream_crypt(flow->stream, out.bytes, in.bytes, n), 0);
    cr_assert_eq(memcmp(out.bytes, flow->expected, n), 0, "%s, %zu bytes", flow->info->name, n);
    reference_guard_free(&in);
    reference_guard_free(&out);
}

static void guarded_steps(struct client_flow *flow)
{
    static const size_t large[] = {4095, 4097, 65519, 65535, 65536, 65537, 131071, 200003, 262145};

    for (size_t n = 1; n < 140; n += 2)
        guarded_step(flow, n);
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++)
        guarded_step(flow, large[i]);
}

static void guarded_part(struct client_flow *flow, uint8_t counter, size_t n)
{
    flow->iv[0] = counter;
    EVP_CIPHER_CTX_free(flow->ctx);
    flow->ctx = reference_new(flow->info->id, flow->key, flow->iv, flow->encrypt);
    cr_assert_eq(cryptod_stream_init(flow->stream, NULL, flow->iv, flow->encrypt), 0);
    guarded_step(flow, n);
}

// Packets of ssh: 32 bytes for the MAC's key, then the payload.
static void guarded_packets(struct client_flow *flow)
{
    memset(flow->iv, 0, sizeof(flow->iv));
    for (unsigned packet = 0; packet < 400; packet++) {
        flow->iv[14] = (uint8_t)(packet >> 8);
        flow->iv[15] = (uint8_t)packet;
        guarded_part(flow, 0, 32);
        guarded_part(flow, 1, 16007);
    }
}

// lanes: the daemon's
static void case_22_library(const char *conf, unsigned lanes)
{
    start(conf);
    if (lanes == 0)
        cryptod_close();
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++)
        for (int encrypt = 0; encrypt < 2; encrypt++) {
            const bool with_lane = (lanes & (id == ALGORITHM_CHACHA20 ? KEYSTREAM : REQUEST)) != 0;
            const uint64_t before = client_lane_bytes();
            struct client_flow flow;

            client_flow_init(&flow, id, encrypt);
            if (id == ALGORITHM_CHACHA20)
                guarded_packets(&flow);
            else if (with_lane)
                client_flow_enter_lane(&flow);
            guarded_steps(&flow);
            cr_expect_eq(client_lane_bytes() > before, with_lane, "%s", flow.info->name);
            client_flow_fini(&flow);
        }
    finish();
}

Test(cases_hostile, case_22_library_guard_page_after_software)
{
    case_22_library(CLIENT_PATIENT, 0);
}

Test(cases_hostile, case_22_library_guard_page_after_cbc_requests_and_keystream)
{
    case_22_library(CLIENT_PATIENT, REQUEST | KEYSTREAM);
}

Test(cases_hostile, case_22_library_guard_page_after_requests_alone)
{
    case_22_library(CLIENT_PATIENT CLIENT_REQUESTS_ONLY, REQUEST);
}

// pair_update() and pair_final() put the output before such a page, with no byte to spare.
Test(cases_hostile, case_22_provider_guard_page_after_update_and_final)
{
    static const size_t large[] = {1023, 4097, 65535, 65537, 200003};
    uint8_t key[32], iv[16];
    uint64_t seed = 1;

    start(CLIENT_PATIENT);
    pair_world_open(&world);
    pair_random_bytes(&seed, key, sizeof(key));
    pair_random_bytes(&seed, iv, sizeof(iv));
    for (size_t i = 0; i < pair_n_names; i++)
        for (int how = 0; how < 4; how++) { // direction, padding
            struct pair pair;

            pair_open(&pair, &world, pair_names[i]);
            pair_start(&pair, key, iv, how & 1);
            pair_set_padding(&pair, how >> 1);
            for (size_t n = 1; n < 70; n += 2) {
                pair_init(&pair, NULL, iv, -1);
                for (int k = 0; k < 3; k++)
                    pair_update(&pair, data + n, n, PAIR_APART, n);
                if (n % 3 == 0)
                    pair_update(&pair, data, 16 - 3 * n % 16, PAIR_APART, 0);
                pair_final(&pair);
                pair_init(&pair, key, iv, -1);
                pair_cipher(&pair, data, n / 16 * 16 + 16, PAIR_APART, n);
            }
            for (size_t k = 0; k < sizeof(large) / sizeof(large[0]); k++) {
                pair_init(&pair, NULL, iv, -1);
                pair_update(&pair, data + k, large[k], PAIR_APART, k);
                pair_update(&pair, data + k, 5, PAIR_APART, k);
                pair_final(&pair);
            }
            pair_close(&pair);
        }
    pair_world_close(&world);
    finish();
}

// ---------------------------------------------------------------- case 38

static void expect_no_change(int memory, const struct shm_map *map)
{
    static const off_t sizes[] = {0, 1, 4096, SHM_OFF_DATA};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        cr_assert_eq(ftruncate(memory, sizes[i]), -1);
        cr_assert_eq(errno, EPERM);
    }
    cr_assert_eq(ftruncate(memory, (off_t)map->size + 4096), -1);
    cr_assert_eq(errno, EPERM);
    cr_assert_eq(fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE), -1);
    cr_assert_eq(errno, EPERM);
}

// What the daemon has taken cannot be made smaller by anybody.
Test(cases_hostile, case_38_truncating_shared_memory_fails)
{
    static struct hostile_rig rig;
    struct hostile_client client;

    hostile_setup(&rig, NULL);
    hostile_client_open(&client, &rig);
    hostile_client_open_stream(&client, 0, ALGORITHM_AES_128_CBC);
    for (int i = 0; i < 100; i++) {
        const struct shm_request request = hostile_client_make_request(&client, false);

        hostile_client_submit(&client, &request);
        expect_no_change(client.memory, &client.map);
        hostile_client_wait(&client);
    }
    hostile_client_close(&client);
    hostile_teardown(&rig);
}

// What can be made smaller is not taken, also if it has the right size until the daemon has seen
// it: the client is dropped, alone.
Test(cases_hostile, case_38_memory_that_can_be_truncated_is_refused)
{
    static const int seals[] = {0, F_SEAL_SHRINK, F_SEAL_GROW | F_SEAL_SEAL,
                                F_SEAL_SHRINK | F_SEAL_GROW};
    static struct hostile_rig rig;
    const size_t size = shm_size(HOSTILE_SLOTS);

    hostile_setup(&rig, NULL);
    for (size_t i = 0; i < 4 * sizeof(seals) / sizeof(seals[0]); i++) {
        struct hostile_client client;
        struct message m;
        int bell, memory = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        hostile_client_make(&client, &bell);
        client.control = raw_connect(&rig.fixture);
        cr_assert_eq(ftruncate(memory, (off_t)size), 0);
        cr_assert_eq(fallocate(memory, 0, 0, (off_t)size), 0);
        cr_assert_eq(fcntl(memory, F_ADD_SEALS, seals[i / 4]), 0);
        raw_hello_fill(&m);
        m.u.hello.n_slots = HOSTILE_SLOTS;
        (void)raw_send_message(client.control, &m, (const int[]){memory, bell}, 2);
        (void)!ftruncate(memory, 0); // at once, where it can be
        raw_expect(client.control, MESSAGE_HELLO_REPLY, &m);
        cr_assert_eq(m.u.hello_reply.reason, MESSAGE_REASON_MEMORY);
        raw_expect_closed(client.control);
        close(memory);
        close(bell);
        hostile_client_close(&client);
        hostile_check_all(&rig);
    }
    hostile_teardown(&rig);
}
