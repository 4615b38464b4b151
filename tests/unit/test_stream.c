// SPDX-License-Identifier: MIT
// client-lib/stream.c, lane.c and software.c without a daemon: the bytes, the reported place and
// the errors are OpenSSL's.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cryptod.h"
#include "reference.h"

#define N_MOST 40000u

TestSuite(stream, .timeout = 120);

// One stream and what OpenSSL would do.
struct pair {
    const struct algorithm_info *info;
    uint8_t key[ALGORITHM_KEY_MAX];
    uint8_t iv[ALGORITHM_IV_LEN_MAX];
    bool encrypt;
    cryptod_stream *stream;
    EVP_CIPHER_CTX *ctx;
};

static void pair_init(struct pair *pair, struct reference_random *random, uint32_t id, bool encrypt)
{
    memset(pair, 0, sizeof *pair);
    pair->info = algorithm_get(id);
    pair->encrypt = encrypt;
    reference_random_fill(random, pair->key, sizeof pair->key);
    reference_random_fill(random, pair->iv, sizeof pair->iv);
    pair->ctx = reference_new((enum algorithm_id)id, pair->key, pair->iv, encrypt);
    cr_assert_eq(cryptod_stream_new((enum cryptod_algorithm)id, &pair->stream), 0);
    cr_assert_eq(cryptod_stream_init(pair->stream, pair->key, pair->iv, encrypt), 0);
}

static void pair_fini(struct pair *pair)
{
    cryptod_stream_free(pair->stream);
    EVP_CIPHER_CTX_free(pair->ctx);
}

// Both places are equal (OpenSSL 3.0 tells none for ChaCha20).
static void pair_check_place(const struct pair *pair)
{
    uint8_t ours[ALGORITHM_IV_LEN_MAX], theirs[ALGORITHM_IV_LEN_MAX];
    unsigned num = 99;

    cr_assert_eq(cryptod_stream_iv(pair->stream, ours, &num), 0);
    if (pair->info->mode == ALGORITHM_CHACHA)
        return;
    cr_assert_eq(EVP_CIPHER_CTX_get_updated_iv(pair->ctx, theirs, sizeof theirs), 1);
    cr_assert_arr_eq(ours, theirs, pair->info->n_iv, "%s: updated IV", pair->info->name);
    int expected = EVP_CIPHER_CTX_get_num(pair->ctx);
    cr_assert_eq(num, (uint32_t)expected, "%s: num", pair->info->name);
}

static void pair_step(const struct pair *pair, const uint8_t *in, uint8_t *out, size_t n)
{
    uint8_t *expected = malloc(n + 1);

    cr_assert_not_null(expected);
    reference_update(pair->ctx, expected, in, n);
    cr_assert_eq(cryptod_stream_crypt(pair->stream, out, in, n), 0);
    cr_assert_arr_eq(out, expected, n, "%s, %zu bytes", pair->info->name, n);
    free(expected);
    pair_check_place(pair);
}

// A length for the next piece: often tiny, sometimes large, 0 too.
static size_t random_piece(struct reference_random *random, const struct algorithm_info *info,
                           size_t n_most)
{
    size_t most = reference_random_below(random, 4) == 0 ? n_most : 100;
    size_t n = reference_random_below(random, most + 1);

    return n - n % info->n_block;
}

ParameterizedTestParameters(stream, chunkings)
{
    static uint32_t ids[ALGORITHM_COUNT];

    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++)
        ids[id] = id;
    return cr_make_param_array(uint32_t, ids, ALGORITHM_COUNT);
}

ParameterizedTest(uint32_t *id, stream, chunkings)
{
    struct reference_random random;
    uint8_t *in = malloc(N_MOST + 64), *out = malloc(N_MOST + 64);

    cr_assert_not_null(in);
    cr_assert_not_null(out);
    reference_random_init(&random);
    for (int round = 0; round < 40; round++) {
        struct pair pair;
        pair_init(&pair, &random, *id, round % 2 == 0);
        for (int piece = 0; piece < 30; piece++) {
            size_t n = random_piece(&random, pair.info, N_MOST);
            size_t in_at = reference_random_below(&random, 64);
            size_t out_at = reference_random_below(&random, 64);
            reference_random_fill(&random, in + in_at, n);
            if (reference_random_below(&random, 2) == 0)
                pair_step(&pair, in + in_at, in + in_at, n);
            else
                pair_step(&pair, in + in_at, out + out_at, n);
        }
        pair_fini(&pair);
    }
    free(in);
    free(out);
}

Test(stream, place_at_every_byte)
{
    struct reference_random random;
    uint8_t data[3 * 64] = {0};

    reference_random_init(&random);
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++) {
        struct pair pair;
        pair_init(&pair, &random, id, true);
        pair_check_place(&pair);
        uint32_t n = pair.info->n_block;
        for (uint32_t at = 0; at < sizeof data; at += n)
            pair_step(&pair, data + at, data + at, n);
        pair_fini(&pair);
    }
}

// OpenSSL 3.0 reports no place for ChaCha20, so the reported one must lead to the same bytes.
Test(stream, chacha_goes_on_from_its_place)
{
    struct reference_random random;

    reference_random_init(&random);
    for (size_t at = 0; at <= 130; at++) {
        struct pair pair;
        uint8_t zeroes[300] = {0}, expected[300], got[300], iv[16], skip[64] = {0};
        unsigned num;

        pair_init(&pair, &random, ALGORITHM_CHACHA20, true);
        memset(pair.iv, 0xff, 4); // the 32-bit counter wraps at once
        cr_assert_eq(cryptod_stream_init(pair.stream, pair.key, pair.iv, true), 0);
        reference_crypt(ALGORITHM_CHACHA20, pair.key, pair.iv, true, expected, zeroes,
                        sizeof zeroes);
        cr_assert_eq(cryptod_stream_crypt(pair.stream, got, zeroes, at), 0);
        cr_assert_eq(cryptod_stream_iv(pair.stream, iv, &num), 0);
        cr_assert_eq(num, (uint32_t)(at % 64));
        if (num > 0) { // the block before, of which num bytes are used
            for (unsigned i = 0; i < 8 && iv[i]-- == 0; i++)
                ;
        }
        EVP_CIPHER_CTX *next = reference_new(ALGORITHM_CHACHA20, pair.key, iv, true);
        reference_update(next, skip, skip, num);
        reference_update(next, got + at, zeroes + at, sizeof got - at);
        cr_assert_arr_eq(got, expected, sizeof got, "from byte %zu", at);
        EVP_CIPHER_CTX_free(next);
        pair_fini(&pair);
    }
}

Test(stream, counters_carry)
{
    struct reference_random random;
    uint8_t data[400] = {0};

    reference_random_init(&random);
    for (uint32_t id = ALGORITHM_AES_128_CTR; id < ALGORITHM_COUNT; id++) {
        for (size_t n_ff = 1; n_ff <= 16; n_ff++) {
            struct pair pair;
            pair_init(&pair, &random, id, true);
            if (pair.info->mode == ALGORITHM_CHACHA)
                memset(pair.iv, 0xff, n_ff);
            else if (pair.info->mode == ALGORITHM_CTR)
                memset(pair.iv + 16 - n_ff, 0xff, n_ff);
            cr_assert_eq(EVP_CipherInit_ex2(pair.ctx, NULL, NULL, pair.iv, -1, NULL), 1);
            cr_assert_eq(cryptod_stream_init(pair.stream, NULL, pair.iv, true), 0);
            for (size_t i = 0; i < 8; i++)
                pair_step(&pair, data, data, i * 8);
            pair_fini(&pair);
        }
    }
}

Test(stream, iv_alone_a_thousand_times)
{
    struct reference_random random;
    uint8_t data[4096];

    reference_random_init(&random);
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++) {
        struct pair pair;
        pair_init(&pair, &random, id, true);
        for (int round = 0; round < 1000; round++) {
            size_t n = random_piece(&random, pair.info, sizeof data);
            reference_random_fill(&random, data, n);
            reference_random_fill(&random, pair.iv, sizeof pair.iv);
            cr_assert_eq(EVP_CipherInit_ex2(pair.ctx, NULL, NULL, pair.iv, -1, NULL), 1);
            cr_assert_eq(cryptod_stream_init(pair.stream, NULL, pair.iv, true), 0);
            pair_step(&pair, data, data, n);
        }
        pair_fini(&pair);
    }
}

// sshd's order: the IV first, then the key alone. Also: starting again, and the other direction.
Test(stream, keys_and_ivs_come_in_any_order)
{
    struct reference_random random;
    uint8_t plain[512], cipher[512], got[512], other[ALGORITHM_IV_LEN_MAX];

    reference_random_init(&random);
    reference_random_fill(&random, plain, sizeof plain);
    reference_random_fill(&random, other, sizeof other);
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++) {
        struct pair pair;
        pair_init(&pair, &random, id, true);
        cryptod_stream_free(pair.stream);
        cr_assert_eq(cryptod_stream_new((enum cryptod_algorithm)id, &pair.stream), 0);
        reference_crypt((enum algorithm_id)id, pair.key, pair.iv, true, cipher, plain, 512);

        cr_assert_eq(cryptod_stream_init(pair.stream, NULL, other, true), -ENOKEY);
        cr_assert_eq(cryptod_stream_init(pair.stream, NULL, pair.iv, true), -ENOKEY);
        cr_assert_eq(cryptod_stream_init(pair.stream, pair.key, NULL, true), 0);
        cr_assert_eq(cryptod_stream_crypt(pair.stream, got, plain, 512), 0);
        cr_assert_arr_eq(got, cipher, 512, "%s: IV, then key", pair.info->name);

        cr_assert_eq(cryptod_stream_init(pair.stream, NULL, NULL, true), 0);
        cr_assert_eq(cryptod_stream_crypt(pair.stream, got, plain, 512), 0);
        cr_assert_arr_eq(got, cipher, 512, "%s: started again", pair.info->name);

        cr_assert_eq(cryptod_stream_init(pair.stream, NULL, NULL, false), 0);
        cr_assert_eq(cryptod_stream_crypt(pair.stream, got, cipher, 512), 0);
        cr_assert_arr_eq(got, plain, 512, "%s: other direction", pair.info->name);
        pair_fini(&pair);
    }
}

// A copy made after `at` bytes goes on as the original does; the original is not disturbed.
static void check_copy(const struct pair *pair, struct reference_random *random, size_t at)
{
    uint8_t plain[400], cipher[400], ours[400], theirs[400];
    cryptod_stream *copy;

    reference_random_fill(random, plain, sizeof plain);
    reference_crypt(pair->info->id, pair->key, pair->iv, pair->encrypt, cipher, plain, 400);
    cr_assert_eq(cryptod_stream_init(pair->stream, NULL, pair->iv, pair->encrypt), 0);
    cr_assert_eq(cryptod_stream_crypt(pair->stream, ours, plain, at), 0);
    cr_assert_eq(cryptod_stream_dup(pair->stream, &copy), 0);
    cr_assert_eq(cryptod_stream_crypt(copy, theirs + at, plain + at, 400 - at), 0);
    cr_assert_arr_eq(theirs + at, cipher + at, 400 - at, "%s: copy at %zu", pair->info->name, at);
    cryptod_stream_free(copy);
    cr_assert_eq(cryptod_stream_crypt(pair->stream, ours + at, plain + at, 400 - at), 0);
    cr_assert_arr_eq(ours, cipher, 400, "%s: original", pair->info->name);
}

Test(stream, copies_in_every_state)
{
    struct reference_random random;

    reference_random_init(&random);
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++) {
        struct pair pair;
        uint8_t iv[ALGORITHM_IV_LEN_MAX], data[16] = {0}, expected[16];
        unsigned num;
        cryptod_stream *empty, *copy, *copy2;

        pair_init(&pair, &random, id, id % 2 == 0);
        for (size_t at = 0; at <= 136; at += pair.info->n_block)
            check_copy(&pair, &random, at);

        // Without key; with an IV alone, whose copy gets the key.
        cr_assert_eq(cryptod_stream_new((enum cryptod_algorithm)id, &empty), 0);
        cr_assert_eq(cryptod_stream_dup(empty, &copy), 0);
        cr_assert_eq(cryptod_stream_crypt(copy, data, data, 16), -ENOKEY);
        cr_assert_eq(cryptod_stream_iv(copy, iv, &num), -ENOKEY);
        cr_assert_eq(cryptod_stream_init(copy, NULL, pair.iv, true), -ENOKEY);
        cr_assert_eq(cryptod_stream_dup(copy, &copy2), 0);
        cr_assert_eq(cryptod_stream_init(copy2, pair.key, NULL, true), 0);
        reference_crypt(pair.info->id, pair.key, pair.iv, true, expected, data, 16);
        cr_assert_eq(cryptod_stream_crypt(copy2, data, data, 16), 0);
        cr_assert_arr_eq(data, expected, 16);
        cryptod_stream_free(empty);
        cryptod_stream_free(copy);
        cryptod_stream_free(copy2);
        pair_fini(&pair);
    }
}

Test(stream, writes_nothing_past_the_output)
{
    struct reference_random random;
    struct reference_guard in, out;

    reference_random_init(&random);
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++) {
        struct pair pair;
        pair_init(&pair, &random, id, id % 2 == 0);
        for (size_t blocks = 1; blocks < 40; blocks++) {
            size_t n = blocks * pair.info->n_block;
            reference_guard_new(&in, n);
            reference_guard_new(&out, n);
            pair_step(&pair, in.bytes, out.bytes, n);
            pair_step(&pair, out.bytes, out.bytes, n);
            reference_guard_free(&in);
            reference_guard_free(&out);
        }
        pair_fini(&pair);
    }
}
