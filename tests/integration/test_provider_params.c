// SPDX-License-Identifier: MIT
// Parameters that no sane program gives: without data, too short, changed when it is too late. Each
// is an error with a text, or means nothing; none reads or writes what is not there.
#include <criterion/criterion.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <openssl/proverr.h>
#include <string.h>

#include "fixture.h"
#include "provider_pair.h"

static struct fixture fixture;
static struct pair_world world;
static struct pair pair;

static void setup(void)
{
    fixture_start(&fixture, NULL);
    pair_world_open(&world);
}

static void teardown(void)
{
    pair_world_close(&world);
    fixture_stop(&fixture);
}

TestSuite(provider_params, .init = setup, .fini = teardown, .timeout = 300);

static void expect_error(int reason)
{
    unsigned long error = ERR_peek_error();

    cr_assert_eq(ERR_GET_LIB(error), ERR_LIB_PROV, "%lx", error);
    cr_assert_eq(ERR_GET_REASON(error), reason, "%s", ERR_reason_error_string(error));
    ERR_clear_error();
}

static void start(const char *name, int encrypt)
{
    static const uint8_t key[32] = {1, 2, 3}, iv[16] = {4};

    pair_open(&pair, &world, name);
    pair_start(&pair, key, iv, encrypt);
}

static void expect_no_number(const char *name, const char *key, unsigned type)
{
    const OSSL_PARAM params[] = {{.key = key, .data_type = type, .data_size = sizeof(unsigned)},
                                 OSSL_PARAM_construct_end()};

    start(name, 1);
    cr_assert_eq(EVP_CIPHER_CTX_set_params(pair.ours, params), 0, "%s: %s", name, key);
    expect_error(PROV_R_FAILED_TO_GET_PARAMETER);
    pair_check_state(&pair);
    pair_close(&pair);
}

// OpenSSL's functions for numbers would read through the null pointer.
Test(provider_params, numbers_without_data)
{
    static const char *const keys[] = {OSSL_CIPHER_PARAM_PADDING, OSSL_CIPHER_PARAM_NUM,
                                       OSSL_CIPHER_PARAM_USE_BITS, OSSL_CIPHER_PARAM_TLS_VERSION,
                                       OSSL_CIPHER_PARAM_TLS_MAC_SIZE};
    static const unsigned types[] = {OSSL_PARAM_INTEGER, OSSL_PARAM_UNSIGNED_INTEGER,
                                     OSSL_PARAM_REAL, OSSL_PARAM_UTF8_STRING};

    for (size_t type = 0; type < sizeof(types) / sizeof(types[0]); type++) {
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
            expect_no_number("AES-128-CBC", keys[i], types[type]);
            expect_no_number("AES-256-CTR", keys[i], types[type]);
        }
        expect_no_number("ChaCha20", OSSL_CIPHER_PARAM_KEYLEN, types[type]);
        expect_no_number("ChaCha20", OSSL_CIPHER_PARAM_IVLEN, types[type]);
    }
}

// EVP_CIPHER_CTX_rand_key() gives no length; who gives one means it.
Test(provider_params, a_random_key_that_does_not_fit)
{
    struct {
        uint8_t key[24], behind[24];
    } room;

    start("DES-EDE3-CBC", 1);
    for (size_t n = 1; n <= sizeof(room.key); n++) {
        OSSL_PARAM params[] = {
            OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_RANDOM_KEY, room.key, n),
            OSSL_PARAM_construct_end()};

        memset(&room, 0x5a, sizeof(room));
        cr_assert_eq(EVP_CIPHER_CTX_get_params(pair.ours, params), n == sizeof(room.key));
        if (n < sizeof(room.key))
            expect_error(PROV_R_FAILED_TO_SET_PARAMETER);
        for (size_t i = n < sizeof(room.key) ? 0 : n; i < sizeof(room); i++)
            cr_assert_eq(((const uint8_t *)&room)[i], 0x5a, "length %zu, byte %zu", n, i);
    }
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_RANDOM_KEY, NULL, 24),
        OSSL_PARAM_construct_end()};
    cr_assert_eq(EVP_CIPHER_CTX_get_params(pair.ours, params), 0);
    expect_error(PROV_R_FAILED_TO_SET_PARAMETER);
    pair_close(&pair);
}

static void set_tls(unsigned version, size_t n_mac)
{
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_TLS_VERSION, &version),
        OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_TLS_MAC_SIZE, &n_mac),
        OSSL_PARAM_construct_end()};

    cr_assert_eq(EVP_CIPHER_CTX_set_params(pair.ours, params), 1);
}

// The MAC that was taken from a record has the length that it had then, or there is none.
Test(provider_params, a_mac_whose_length_is_changed_afterwards)
{
    static const size_t lengths[] = {19, 21, 64, 65, 4096, SIZE_MAX};
    uint8_t record[80] = {9};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint8_t *mac = record;
        int n = 0;
        OSSL_PARAM params[] = {
            OSSL_PARAM_construct_octet_ptr(OSSL_CIPHER_PARAM_TLS_MAC, (void **)&mac, 0),
            OSSL_PARAM_construct_end()};

        start("AES-128-CTR", 0);
        set_tls(0x303, 20);
        cr_assert_eq(EVP_CipherUpdate(pair.ours, record, &n, record, sizeof(record)), 1);
        cr_assert_eq(n, 60);
        cr_assert_eq(EVP_CIPHER_CTX_get_params(pair.ours, params), 1);
        cr_assert_not_null(mac);
        set_tls(0x303, 20); // the same again changes nothing
        cr_assert_eq(EVP_CIPHER_CTX_get_params(pair.ours, params), 1);
        cr_assert_not_null(mac);
        cr_assert_arr_eq(mac, record + 60, 20);
        set_tls(0x303, lengths[i]);
        cr_assert_eq(EVP_CIPHER_CTX_get_params(pair.ours, params), 1);
        cr_assert_null(mac, "%zu", lengths[i]);
        pair_close(&pair);
    }
}
