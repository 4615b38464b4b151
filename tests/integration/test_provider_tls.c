// SPDX-License-Identifier: MIT
// CBC records of TLS: libssl leaves their padding and the extraction of their MAC to the provider.
// Compared with the default provider record by record, and run through s_server and s_client.
#include <criterion/criterion.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/prov_ssl.h>
#include <openssl/proverr.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"
#include "provider_command.h"
#include "provider_pair.h"

#define RECORD_MAX 2048

static struct fixture fixture;

static void provider_tls_setup(void)
{
    fixture_start(&fixture, NULL);
}

static void provider_tls_teardown(void)
{
    fixture_stop(&fixture);
}

TestSuite(provider_tls, .init = provider_tls_setup, .fini = provider_tls_teardown, .timeout = 300);

// ---------------------------------------------------------------- records

struct records {
    struct pair_world world;
    struct pair pair;
    uint64_t seed;
    unsigned version;
    size_t n_mac;
    uint8_t key[32], iv[16];
};

static const unsigned versions[] = {SSL3_VERSION,   TLS1_VERSION,  TLS1_1_VERSION,
                                    TLS1_2_VERSION, DTLS1_VERSION, DTLS1_2_VERSION};
static const size_t mac_sizes[] = {0, 16, 20, 32, 48, 64};

static void records_start(struct records *r, int encrypt, bool tls)
{
    OSSL_PARAM params[] = {
        OSSL_PARAM_uint(OSSL_CIPHER_PARAM_TLS_VERSION, &r->version),
        OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_TLS_MAC_SIZE, &r->n_mac),
        OSSL_PARAM_END,
    };

    cr_assert_eq(pair_start(&r->pair, r->key, r->iv, encrypt), 1);
    cr_assert_eq(pair_set_padding(&r->pair, tls), 1); // a start keeps the setting from before
    if (!tls)
        return;
    cr_assert_eq(EVP_CIPHER_CTX_set_params(r->pair.ours, params), 1);
    cr_assert_eq(EVP_CIPHER_CTX_set_params(r->pair.reference, params), 1);
}

static void records_each(const char *name, void (*run)(struct records *r))
{
    struct records r = {.seed = 7};

    pair_world_open(&r.world);
    pair_open(&r.pair, &r.world, name);
    for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++)
        for (size_t m = 0; m < sizeof(mac_sizes) / sizeof(mac_sizes[0]); m++) {
            r.version = versions[v];
            r.n_mac = mac_sizes[m];
            pair_random_bytes(&r.seed, r.key, sizeof(r.key));
            pair_random_bytes(&r.seed, r.iv, sizeof(r.iv));
            run(&r);
        }
    pair_close(&r.pair);
    pair_world_close(&r.world);
}

static size_t explicit_iv(const struct records *r)
{
    return r->version == SSL3_VERSION || r->version == TLS1_VERSION ? 0 : (size_t)r->pair.n_iv;
}

struct opened {
    int ret, n;
    uint8_t mac[EVP_MAX_MD_SIZE];
    bool has_mac;
};

// Decrypts a record in place and asks for the MAC, as libssl does.
static void record_open(EVP_CIPHER_CTX *ctx, size_t n_mac, uint8_t *record, size_t n,
                        struct opened *ret)
{
    uint8_t *mac = NULL;
    OSSL_PARAM params[] = {
        OSSL_PARAM_octet_ptr(OSSL_CIPHER_PARAM_TLS_MAC, (void **)&mac, n_mac),
        OSSL_PARAM_END,
    };

    memset(ret, 0, sizeof(*ret));
    ERR_clear_error();
    ret->ret = EVP_DecryptUpdate(ctx, record, &ret->n, record, (int)n);
    if (ret->ret != 1)
        return;
    cr_assert_eq(EVP_CIPHER_CTX_get_params(ctx, params), 1);
    ret->has_mac = n_mac > 0 && mac != NULL;
    if (ret->has_mac)
        memcpy(ret->mac, mac, n_mac);
}

// Encrypted by both, the same; opened by both: content and MAC as they went in.
static void round_trip(struct records *r)
{
    uint8_t plain[RECORD_MAX], ours[RECORD_MAX], reference[RECORD_MAX];
    const size_t n_skip = explicit_iv(r);
    struct opened opened;
    int n_ours, n_reference;

    for (int i = 0; i < 60; i++) {
        size_t n = n_skip + r->n_mac + pair_random(&r->seed) % (i < 40 ? 64 : 1500);
        pair_random_bytes(&r->seed, plain, n);
        memcpy(ours, plain, n);
        memcpy(reference, plain, n);
        records_start(r, 1, true);
        cr_assert_eq(EVP_EncryptUpdate(r->pair.ours, ours, &n_ours, ours, (int)n), 1);
        cr_assert_eq(
            EVP_EncryptUpdate(r->pair.reference, reference, &n_reference, reference, (int)n), 1);
        cr_assert_eq(n_ours, n_reference);
        cr_assert_arr_eq(ours, reference, (size_t)n_ours);
        pair_check_state(&r->pair);

        records_start(r, 0, true);
        record_open(r->pair.ours, r->n_mac, ours, (size_t)n_ours, &opened);
        cr_assert_eq(opened.ret, 1);
        cr_assert_eq((size_t)opened.n, n - n_skip - r->n_mac);
        cr_assert_arr_eq(ours + n_skip, plain + n_skip, (size_t)opened.n);
        cr_assert_eq(opened.has_mac, r->n_mac > 0);
        cr_assert_arr_eq(opened.mac, plain + n - r->n_mac, r->n_mac);
    }
}

Test(provider_tls, records_go_out_and_come_back)
{
    records_each("AES-128-CBC", round_trip);
    records_each("AES-256-CBC", round_trip);
    records_each("DES-EDE3-CBC", round_trip);
}

// A record whose plaintext ends in n_padding + 1 bytes of padding of which one may be spoilt.
static void spoilt_record(struct records *r, size_t n_padding, bool spoil)
{
    uint8_t record[RECORD_MAX], copy[RECORD_MAX], again[RECORD_MAX];
    size_t n_block = (size_t)r->pair.n_block, n_skip = explicit_iv(r), n;
    struct opened ours, reference;
    int n_out;

    n = n_skip + r->n_mac + pair_random(&r->seed) % 80 + n_padding + 1;
    if (pair_random(&r->seed) % 4 == 0)
        n = n_skip + pair_random(&r->seed) % 64; // perhaps too short for what it says
    n = (n / n_block + 1) * n_block;
    pair_random_bytes(&r->seed, record, n);
    if (n_padding + 1 <= n)
        memset(record + n - n_padding - 1, (int)n_padding, n_padding + 1);
    if (spoil)
        record[n - 1 - pair_random(&r->seed) % (n_padding + 1 < n ? n_padding + 1 : n)] ^=
            (uint8_t)(1 << pair_random(&r->seed) % 8);

    uint8_t mac[EVP_MAX_MD_SIZE];
    size_t n_last = (size_t)record[n - 1] + 1;
    bool whole = n >= n_skip + r->n_mac + n_last;
    if (whole)
        memcpy(mac, record + n - n_last - r->n_mac, r->n_mac);

    records_start(r, 1, false);
    cr_assert_eq(EVP_EncryptUpdate(r->pair.reference, record, &n_out, record, (int)n), 1);
    memcpy(copy, record, n);
    memcpy(again, record, n);
    records_start(r, 0, true);
    record_open(r->pair.reference, r->n_mac, copy, n, &reference);
    record_open(r->pair.ours, r->n_mac, record, n, &ours);

    cr_assert_eq(ours.ret, reference.ret, "version %x, mac %zu, %zu bytes", r->version, r->n_mac,
                 n);
    cr_assert_eq(ours.n, reference.n);
    if (ours.ret != 1) {
        cr_assert_eq(ERR_GET_REASON(ERR_peek_error()), PROV_R_CIPHER_OPERATION_FAILED);
        return;
    }
    cr_assert_arr_eq(record, copy, n);
    cr_assert_eq(ours.has_mac, reference.has_mac);
    // Good padding: both give the MAC, every time. Bad: another random one each time.
    bool good = whole && memcmp(mac, reference.mac, r->n_mac) == 0;
    if (r->n_mac == 0)
        return;
    cr_assert_eq(memcmp(ours.mac, reference.mac, r->n_mac) == 0, good,
                 "version %x, mac %zu, %zu bytes", r->version, r->n_mac, n);
    records_start(r, 0, true);
    record_open(r->pair.ours, r->n_mac, again, n, &reference);
    cr_assert_eq(memcmp(ours.mac, reference.mac, r->n_mac) == 0, good);
}

static void spoilt_records(struct records *r)
{
    for (size_t n_padding = 0; n_padding < 256; n_padding++) {
        spoilt_record(r, n_padding, false);
        spoilt_record(r, n_padding, true);
    }
}

Test(provider_tls, bad_padding_gives_a_random_mac_and_no_other_sign)
{
    records_each("AES-128-CBC", spoilt_records);
    records_each("DES-EDE3-CBC", spoilt_records);
}

static void misused_records(struct records *r)
{
    uint8_t record[RECORD_MAX] = {0}, other[RECORD_MAX];
    int n;

    for (int encrypt = 0; encrypt < 2; encrypt++) {
        records_start(r, encrypt, true);
        ERR_clear_error();
        cr_assert_eq(EVP_CipherUpdate(r->pair.ours, other, &n, record, 64), 0, "not in place");
        cr_assert_eq(ERR_GET_REASON(ERR_peek_error()), PROV_R_CIPHER_OPERATION_FAILED);
        ERR_clear_error();
        cr_assert_eq(EVP_CipherFinal_ex(r->pair.ours, other, &n), 0);
        cr_assert_eq(ERR_GET_REASON(ERR_peek_error()), PROV_R_CIPHER_OPERATION_FAILED);
        cr_assert_eq(EVP_CipherUpdate(r->pair.ours, record, &n, record, 0), encrypt);
        ERR_clear_error();
    }
}

Test(provider_tls, what_is_no_record_is_refused)
{
    records_each("AES-128-CBC", misused_records);
}

// A copy has a MAC of its own.
Test(provider_tls, a_copy_keeps_the_mac_of_its_record)
{
    struct records r = {.seed = 9, .version = TLS1_2_VERSION, .n_mac = 20};
    uint8_t plain[128], record[160], again[160], *mac = NULL;
    OSSL_PARAM params[] = {
        OSSL_PARAM_octet_ptr(OSSL_CIPHER_PARAM_TLS_MAC, (void **)&mac, 20),
        OSSL_PARAM_END,
    };
    struct opened opened;
    int n;

    pair_world_open(&r.world);
    pair_open(&r.pair, &r.world, "AES-128-CBC");
    pair_random_bytes(&r.seed, plain, sizeof(plain));
    memcpy(record, plain, sizeof(plain));
    records_start(&r, 1, true);
    cr_assert_eq(EVP_EncryptUpdate(r.pair.ours, record, &n, record, sizeof(plain)), 1);
    memcpy(again, record, sizeof(again));
    records_start(&r, 0, true);
    record_open(r.pair.ours, r.n_mac, record, (size_t)n, &opened);
    cr_assert(opened.has_mac);

    EVP_CIPHER_CTX *copy = EVP_CIPHER_CTX_new();
    cr_assert_eq(EVP_CIPHER_CTX_copy(copy, r.pair.ours), 1);
    record_open(r.pair.ours, r.n_mac, again, (size_t)n,
                &opened); // other bytes: the IV has moved on
    cr_assert_eq(EVP_CIPHER_CTX_get_params(copy, params), 1);
    cr_assert_arr_eq(mac, plain + sizeof(plain) - 20, 20);
    EVP_CIPHER_CTX_free(copy);
    pair_close(&r.pair);
    pair_world_close(&r.world);
}

// ---------------------------------------------------------------- s_server and s_client

#define TRANSFER_SIZE 1000000u

// The server sends the file "sent" to the client.
static void transfer(const struct command_folder *folder, bool server_ours, bool client_ours,
                     const char *suite, const char *options)
{
    char server[512], client[512], socket[128];

    snprintf(server, sizeof(server),
             "s_server -unix tls.sock -unlink -cert cert.pem -key key.pem -HTTP -quiet -naccept 1 "
             "-cipher %s:@SECLEVEL=0 %s",
             suite, options);
    snprintf(client, sizeof(client), "s_client -unix tls.sock -quiet -cipher %s:@SECLEVEL=0 %s",
             suite, options);
    snprintf(socket, sizeof(socket), "%s/tls.sock", folder->path);
    remove(socket);
    pid_t pid = command_start(folder, server_ours, server, NULL, NULL);
    bool starts = command_wait_file(folder, "tls.sock");
    int status = starts ? command_run(folder, client_ours, client, "request", "received") : -1;
    int server_status = command_wait(pid);
    if (status != 0 || server_status != 0)
        command_show_log(folder);
    cr_assert(starts, "s_server does not start");
    cr_assert_eq(status, 0, "s_client with %s %s ends with %d", suite, options, status);
    cr_assert_eq(server_status, 0, "s_server with %s %s ends with %d", suite, options,
                 server_status);
    cr_assert(command_same(folder, "sent", "received"), "%s %s: other bytes came out", suite,
              options);
}

static void make_certificate(const struct command_folder *folder)
{
    int status =
        command_run(folder, false,
                    "req -x509 -newkey rsa:2048 -nodes -subj /CN=test -days 2 -keyout key.pem "
                    "-out cert.pem",
                    NULL, NULL);
    cr_assert_eq(status, 0, "openssl req ends with %d", status);
}

static void transfers(const char *suite, const char *algorithm, const char *options)
{
    struct command_folder folder;
    uint64_t operations, before, after;

    command_folder_make(&folder, &fixture);
    make_certificate(&folder);
    command_write_random(&folder, "sent", TRANSFER_SIZE);
    command_write(&folder, "request", "GET /sent HTTP/1.0\r\n\r\n");
    for (int who = 1; who < 4; who++) {
        pair_served(algorithm, &operations, &before);
        after = before;
        for (int i = 0; i < PAIR_REPEAT && after == before; i++) {
            transfer(&folder, who & 1, who & 2, suite, options);
            pair_served(algorithm, &operations, &after);
        }
        cr_assert_gt(after, before, "%s: the daemon did nothing", suite);
    }
}

Test(provider_tls, tls_1_2_ecdhe_rsa_aes128_sha)
{
    transfers("ECDHE-RSA-AES128-SHA", "aes-128-cbc", "-tls1_2 -no_etm");
}

Test(provider_tls, tls_1_2_ecdhe_rsa_aes128_sha_encrypt_then_mac)
{
    transfers("ECDHE-RSA-AES128-SHA", "aes-128-cbc", "-tls1_2");
}

Test(provider_tls, tls_1_2_aes128_sha256)
{
    transfers("AES128-SHA256", "aes-128-cbc", "-tls1_2 -no_etm");
}

Test(provider_tls, tls_1_2_ecdhe_rsa_aes256_sha384)
{
    transfers("ECDHE-RSA-AES256-SHA384", "aes-256-cbc", "-tls1_2 -no_etm");
}

Test(provider_tls, tls_1_1_aes256_sha)
{
    transfers("AES256-SHA", "aes-256-cbc", "-tls1_1 -no_etm");
}

Test(provider_tls, tls_1_0_aes128_sha)
{
    transfers("AES128-SHA", "aes-128-cbc", "-tls1 -no_etm");
}
