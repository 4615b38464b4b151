// SPDX-License-Identifier: MIT
// The provider against OpenSSL's default provider in the ways in which programs use it, and where
// it must refuse.
#include <criterion/criterion.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/proverr.h>
#include <string.h>

#include "fixture.h"
#include "provider_pair.h"

static struct fixture fixture;
static struct pair_world world;

static void provider_calls_setup(void)
{
    fixture_start(&fixture, NULL);
    pair_world_open(&world);
}

static void provider_calls_teardown(void)
{
    pair_world_close(&world);
    fixture_stop(&fixture);
}

TestSuite(provider_calls, .init = provider_calls_setup, .fini = provider_calls_teardown,
          .timeout = 300);

// ---------------------------------------------------------------- how programs use it

static uint8_t data[PAIR_SIZE_MAX];

static void each_cipher(void (*run)(struct pair *pair, uint64_t *seed))
{
    for (size_t i = 0; i < pair_n_names; i++) {
        struct pair pair;
        uint64_t seed = 1000 + i;
        pair_random_bytes(&seed, data, sizeof(data));
        pair_open(&pair, &world, pair_names[i]);
        run(&pair, &seed);
        pair_close(&pair);
    }
}

// OpenSSH's cipher_init(): the IV comes before the key.
static void as_openssh(struct pair *pair, uint64_t *seed)
{
    uint8_t key[32], iv[16];

    for (int encrypt = 0; encrypt < 2; encrypt++) {
        pair_random_bytes(seed, key, sizeof(key));
        pair_random_bytes(seed, iv, sizeof(iv));
        cr_assert_eq(pair_start(pair, NULL, iv, encrypt), 1);
        cr_assert_eq(EVP_CIPHER_CTX_set_key_length(pair->ours, pair->n_key), 1);
        cr_assert_eq(pair_init(pair, key, NULL, -1), 1);
        for (int i = 0; i < 40; i++)
            cr_assert_eq(
                pair_cipher(pair, data, i % 4 == 0 ? 16 : 32784, PAIR_APART, 4 + (size_t)i),
                i % 4 == 0 ? 16 : 32784);
        // Another process goes on from the exported IV.
        if (pair->n_block > 1 || strstr(pair->name, "CTR") != NULL) {
            cr_assert_eq(EVP_CIPHER_CTX_get_updated_iv(pair->ours, iv, (size_t)pair->n_iv), 1);
            cr_assert_eq(pair_start(pair, NULL, iv, encrypt), 1);
            cr_assert_eq(pair_init(pair, key, NULL, -1), 1);
            cr_assert_eq(pair_cipher(pair, data, 32784, PAIR_APART, 1), 32784);
        }
    }
}

Test(provider_calls, iv_before_key_as_openssh_does_it)
{
    each_cipher(as_openssh);
}

static void sizes(struct pair *pair, uint64_t *seed)
{
    static const int beside[] = {-16, -1, 0, 1, 16};
    uint8_t key[32], iv[16];

    for (int padding = 0; padding < 2; padding++)
        for (int encrypt = 0; encrypt < 2; encrypt++)
            for (size_t i = 0; i < 15; i++) {
                size_t n = 65536 * (1 + i / 5) + (size_t)beside[i % 5];
                pair_random_bytes(seed, key, sizeof(key));
                pair_random_bytes(seed, iv, sizeof(iv));
                pair_start(pair, key, iv, encrypt);
                pair_set_padding(pair, padding);
                cr_assert_eq(pair_update(pair, data, n, (enum pair_place)(i % PAIR_N_PLACES), i),
                             1);
                pair_final(pair);
                pair_final(pair);
            }
}

Test(provider_calls, sizes_around_the_largest_request)
{
    each_cipher(sizes);
}

// Encrypted by one, decrypted by the other, with every length of padding; then with the last byte
// spoilt.
static void padded_lengths(struct pair *pair, uint64_t *seed)
{
    uint8_t key[32], iv[16], coded[96];
    int n, n_last;

    for (size_t length = 0; length < 40; length++) {
        pair_random_bytes(seed, key, sizeof(key));
        pair_random_bytes(seed, iv, sizeof(iv));
        pair_start(pair, key, iv, 1);
        cr_assert_eq(EVP_CipherUpdate(pair->ours, coded, &n, data, (int)length), 1);
        cr_assert_eq(EVP_CipherFinal_ex(pair->ours, coded + n, &n_last), 1);
        n += n_last;
        pair_start(pair, key, iv, 0);
        cr_assert_eq(pair_update(pair, coded, (size_t)n, PAIR_APART, 0), 1);
        cr_assert_eq(pair_final(pair), 1);
        if (pair->n_block == 1)
            continue;
        coded[n - 1] ^= 0x55;
        pair_start(pair, key, iv, 0);
        pair_update(pair, coded, (size_t)n, PAIR_APART, 0);
        cr_assert_eq(pair_final(pair), 0, "spoilt padding was taken");
        pair_start(pair, key, iv, 0);
        pair_update(pair, coded, (size_t)n - 1, PAIR_APART, 0);
        cr_assert_eq(pair_final(pair), 0, "a part of a block was taken");
    }
}

// A ChaCha20 block that is used up exactly counts as begun until more data comes: a new key without
// an IV goes on there.
static void new_key_at_a_border(struct pair *pair, uint64_t *seed)
{
    static const size_t lengths[] = {0, 5, 16, 59, 64, 128, 133, 65536};
    const size_t n_lengths = sizeof(lengths) / sizeof(lengths[0]);
    uint8_t key[32], iv[16];

    if (pair->n_block > 1)
        return;
    for (size_t i = 0; i < n_lengths * n_lengths; i++) {
        pair_random_bytes(seed, key, sizeof(key));
        pair_random_bytes(seed, iv, sizeof(iv));
        if (i % 3 == 0)
            memset(iv, 0xff, 8); // the counter overflows
        pair_start(pair, key, iv, 1);
        pair_update(pair, data, lengths[i % n_lengths], PAIR_APART, 0);
        pair_update(pair, data, lengths[i / n_lengths], PAIR_APART, 0);
        pair_random_bytes(seed, key, sizeof(key));
        cr_assert_eq(pair_init(pair, key, NULL, -1), 1);
        pair_update(pair, data, 200, PAIR_APART, 0);
    }
}

Test(provider_calls, a_new_key_alone_at_every_border_of_blocks)
{
    each_cipher(new_key_at_a_border);
}

Test(provider_calls, padding_of_every_length_good_and_bad)
{
    each_cipher(padded_lengths);
}

Test(provider_calls, random_keys_of_triple_des_have_odd_parity)
{
    struct pair pair;
    uint8_t key[24], other[24] = {0};

    pair_open(&pair, &world, "DES-EDE3-CBC");
    pair_start(&pair, NULL, NULL, 1);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(EVP_CIPHER_CTX_rand_key(pair.ours, key), 1);
        cr_assert(memcmp(key, other, sizeof(key)) != 0);
        for (size_t k = 0; k < sizeof(key); k++)
            cr_assert_eq(__builtin_parity(key[k]), 1);
        memcpy(other, key, sizeof(key));
    }
    pair_close(&pair);
}

// ---------------------------------------------------------------- refusals

static void expect_error(int reason)
{
    unsigned long error = ERR_peek_error();

    cr_assert_eq(ERR_GET_LIB(error), ERR_LIB_PROV, "%lx", error);
    cr_assert_eq(ERR_GET_REASON(error), reason, "%s", ERR_reason_error_string(error));
    cr_assert_not_null(ERR_reason_error_string(error));
    ERR_clear_error();
}

static void without_key(struct pair *pair, uint64_t *seed)
{
    uint8_t iv[16], out[64];
    int n;

    pair_random_bytes(seed, iv, sizeof(iv));
    pair_start(pair, NULL, iv, 1);
    cr_assert_eq(pair_update(pair, data, 32, PAIR_APART, 0), 0);
    cr_assert_eq(pair_update(pair, data, 0, PAIR_APART, 0), 0);
    cr_assert_eq(pair_final(pair), 0);
    cr_assert_eq(pair_cipher(pair, data, 32, PAIR_APART, 0), -1);
    cr_assert_eq(EVP_EncryptUpdate(pair->ours, out, &n, data, 16), 0);
    expect_error(PROV_R_NO_KEY_SET);
}

Test(provider_calls, without_a_key_every_operation_fails_with_a_text)
{
    each_cipher(without_key);
}

static void wrong_lengths(struct pair *pair, uint64_t *seed)
{
    (void)seed;
    pair_start(pair, NULL, NULL, 1);
    for (int n = 0; n < 64; n++) {
        int ours = EVP_CIPHER_CTX_set_key_length(pair->ours, n);
        cr_assert_eq(ours, EVP_CIPHER_CTX_set_key_length(pair->reference, n), "%s %d", pair->name,
                     n);
        cr_assert_eq(ours, n == pair->n_key);
    }
    ERR_clear_error();
    pair_check_state(pair);
}

Test(provider_calls, only_the_right_key_length_is_taken)
{
    each_cipher(wrong_lengths);
}

// EVP_Cipher() keeps nothing back, so a part of a block has nowhere to go. (The default provider
// writes past the caller's length here.)
static void part_of_a_block(struct pair *pair, uint64_t *seed)
{
    uint8_t key[32], out[64];

    if (pair->n_block == 1)
        return;
    pair_random_bytes(seed, key, sizeof(key));
    pair_start(pair, key, NULL, 1);
    cr_assert_eq(EVP_Cipher(pair->ours, out, data, 20), -1);
    expect_error(PROV_R_WRONG_FINAL_BLOCK_LENGTH);
    cr_assert_eq(pair_cipher(pair, data, 32, PAIR_APART, 0), 32, "a refusal moves nothing");
}

Test(provider_calls, evp_cipher_refuses_a_part_of_a_block)
{
    each_cipher(part_of_a_block);
}

Test(provider_calls, ctr_refuses_a_place_within_a_block)
{
    struct pair pair;
    uint8_t key[32] = {1};

    pair_open(&pair, &world, "AES-256-CTR");
    pair_start(&pair, key, NULL, 1);
    pair_update(&pair, data, 5, PAIR_APART, 0);
    cr_assert_eq(EVP_CIPHER_CTX_set_num(pair.ours, 3), 0);
    expect_error(PROV_R_FAILED_TO_GET_PARAMETER);
    pair_check_state(&pair);
    cr_assert_eq(pair_set_num(&pair, 0), 1);
    pair_update(&pair, data, 100, PAIR_APART, 0);
    pair_close(&pair);
}

// ---------------------------------------------------------------- the IV as a pointer

// The deprecated EVP_CIPHER_CTX_iv() shows the IV where it is; EVP_CIPHER_CTX_iv_noconst() lets it
// be written.
static void lent_iv(struct pair *pair, uint64_t *seed)
{
    uint8_t key[32], iv[16];
    uint8_t *places[2] = {NULL, NULL};
    EVP_CIPHER_CTX *contexts[2] = {pair->ours, pair->reference};

    if (strcmp(pair->name, "ChaCha20") == 0)
        return; // shows none
    pair_random_bytes(seed, key, sizeof(key));
    pair_random_bytes(seed, iv, sizeof(iv));
    pair_start(pair, key, iv, 1);
    for (int i = 0; i < 2; i++) {
        OSSL_PARAM params[] = {
            OSSL_PARAM_octet_ptr(OSSL_CIPHER_PARAM_UPDATED_IV, (void **)&places[i], 16),
            OSSL_PARAM_END,
        };
        cr_assert_eq(EVP_CIPHER_CTX_get_params(contexts[i], params), 1);
        cr_assert_eq(params[0].return_size, (size_t)pair->n_iv);
    }
    for (int i = 0; i < 20; i++) {
        cr_assert_arr_eq(places[0], places[1], (size_t)pair->n_iv, "%s", pair->name);
        pair_cipher(pair, data, (size_t)16 * (pair_random(seed) % 300), PAIR_APART, 0);
        cr_assert_arr_eq(places[0], places[1], (size_t)pair->n_iv, "%s", pair->name);
        if (i % 3 == 0) {
            pair_random_bytes(seed, places[0], (size_t)pair->n_iv);
            memcpy(places[1], places[0], (size_t)pair->n_iv);
        }
        if (i == 10)
            pair_init(pair, NULL, iv, -1);
    }
}

Test(provider_calls, the_iv_can_be_watched_and_written)
{
    each_cipher(lent_iv);
}
