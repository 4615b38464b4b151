// SPDX-License-Identifier: MIT
#include "algorithm.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <endian.h>
#include <openssl/evp.h>
#include <string.h>

Test(algorithm, get_gives_each_number_its_own_row)
{
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++) {
        const struct algorithm_info *info = algorithm_get(id);
        cr_assert_neq(info, NULL);
        cr_expect_eq(info->id, id);
        cr_expect_leq(info->n_key, ALGORITHM_KEY_MAX);
        cr_expect_leq(info->n_iv, ALGORITHM_IV_LEN_MAX);
    }
}

Test(algorithm, get_refuses_any_other_number)
{
    const uint32_t others[] = {ALGORITHM_COUNT, ALGORITHM_COUNT + 1, 0x7fffffff, 0x80000000,
                               UINT32_MAX};

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect_eq(algorithm_get(others[i]), NULL, "%u", others[i]);
}

// The numbers are in the protocol and in programs' binaries.
Test(algorithm, numbers_never_change)
{
    static const char *const names[] = {"aes-128-cbc", "aes-192-cbc", "aes-256-cbc",  "aes-128-ctr",
                                        "aes-192-ctr", "aes-256-ctr", "des-ede3-cbc", "chacha20"};

    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++)
        cr_expect_str_eq(algorithm_get(id)->name, names[id]);
}

Test(algorithm, lengths_are_those_of_openssl)
{
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++) {
        const struct algorithm_info *info = algorithm_get(id);
        EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, info->openssl_name, NULL);
        cr_assert_neq(cipher, NULL, "%s", info->openssl_name);
        cr_expect_eq(EVP_CIPHER_get_key_length(cipher), (int)info->n_key, "%s", info->name);
        cr_expect_eq(EVP_CIPHER_get_iv_length(cipher), (int)info->n_iv, "%s", info->name);
        cr_expect_eq(EVP_CIPHER_get_block_size(cipher), (int)info->n_block, "%s", info->name);
        cr_expect_eq(info->mode == ALGORITHM_CBC, EVP_CIPHER_get_mode(cipher) == EVP_CIPH_CBC_MODE);
        cr_expect_eq(info->mode == ALGORITHM_CTR, EVP_CIPHER_get_mode(cipher) == EVP_CIPH_CTR_MODE);
        EVP_CIPHER_free(cipher);
    }
}

Test(algorithm, find_takes_either_name_in_any_case)
{
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++) {
        const struct algorithm_info *info = algorithm_get(id);
        char upper[32];
        size_t n = strlen(info->name);
        for (size_t i = 0; i <= n; i++)
            upper[i] = (char)toupper((unsigned char)info->name[i]);
        cr_expect_eq(algorithm_find(info->name), info);
        cr_expect_eq(algorithm_find(info->openssl_name), info);
        cr_expect_eq(algorithm_find(upper), info);
    }
}

Test(algorithm, find_refuses_other_names)
{
    const char *const others[] = {"",           "aes", "aes-128-cb", "aes-128-cbcx", " aes-128-cbc",
                                  "aes-128-gcm"};

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect_eq(algorithm_find(others[i]), NULL, "\"%s\"", others[i]);
}

// The same addition with two 64-bit words.
static void add_reference(uint8_t counter[16], uint64_t n)
{
    uint64_t word[2];

    memcpy(word, counter, sizeof word);
    uint64_t low = be64toh(word[1]) + n;
    uint64_t high = be64toh(word[0]) + (low < n ? 1 : 0);
    word[0] = htobe64(high);
    word[1] = htobe64(low);
    memcpy(counter, word, sizeof word);
}

Test(algorithm, ctr_add_is_addition_modulo_2_128)
{
    static const uint64_t steps[] = {
        0, 1, 2, 0xff, 0x100, 0xffffffff, 1ull << 32, 1ull << 63, UINT64_MAX - 1, UINT64_MAX};
    uint64_t x = 88172645463325252u;

    for (int round = 0; round < 20000; round++) {
        uint8_t a[16], b[16];
        for (size_t i = 0; i < sizeof a; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            // Long runs of ff make carries travel far.
            a[i] = x % 3 == 0 ? (uint8_t)(x >> 8) : 0xff;
        }
        memcpy(b, a, sizeof a);
        uint64_t n = round % 2 == 0 ? x : steps[(size_t)round % (sizeof steps / sizeof steps[0])];
        algorithm_ctr_add(a, n);
        add_reference(b, n);
        cr_assert_eq(memcmp(a, b, sizeof a), 0, "round %d, step %llu", round,
                     (unsigned long long)n);
    }
}

Test(algorithm, ctr_add_wraps_at_the_end)
{
    uint8_t counter[16];
    const uint8_t zero[16] = {0};

    memset(counter, 0xff, sizeof counter);
    algorithm_ctr_add(counter, 1);
    cr_expect_eq(memcmp(counter, zero, sizeof counter), 0);
}

// What the addition is for: block n of a stream is the first block of a stream that starts n blocks
// later.
Test(algorithm, ctr_add_agrees_with_openssl)
{
    const uint8_t key[16] = "0123456789abcdef";
    uint8_t iv[16], later[16], zero[16 * 64] = {0}, stream[16 * 64], block[16];
    int n = 0;

    memset(iv, 0xff, sizeof iv);
    iv[15] = 0xf0; // passes 2^128 after 16 blocks
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    cr_assert_eq(EVP_EncryptInit_ex(ctx, EVP_aes_128_ctr(), NULL, key, iv), 1);
    cr_assert_eq(EVP_EncryptUpdate(ctx, stream, &n, zero, sizeof zero), 1);
    for (uint64_t i = 0; i < 64; i++) {
        memcpy(later, iv, sizeof later);
        algorithm_ctr_add(later, i);
        cr_assert_eq(EVP_EncryptInit_ex(ctx, NULL, NULL, NULL, later), 1);
        cr_assert_eq(EVP_EncryptUpdate(ctx, block, &n, zero, sizeof block), 1);
        cr_expect_eq(memcmp(block, stream + 16 * i, sizeof block), 0);
    }
    EVP_CIPHER_CTX_free(ctx);
}
