// SPDX-License-Identifier: MIT
// libFuzzer entry for the provider through EVP, beside OpenSSL's default provider: whatever a
// program does with a context, in whatever order and chunks, both give the same results, lengths,
// bytes, IVs and copies.
#include "fuzz_input.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/prov_ssl.h>
#include <openssl/provider.h>

#include "cryptod.h"

#define STEPS_MAX 40
#define BYTES_MAX 600u
#define SIDES     2 // ours, OpenSSL's

OSSL_provider_init_fn OSSL_provider_init;
bool __wrap_cryptod_offers(enum cryptod_algorithm algorithm);
int __wrap_cryptod_open(const char *path, unsigned timeout_ms);
int __real_cryptod_open(const char *path, unsigned timeout_ms);

static const char *const names[] = {
    "AES-128-CBC", "AES-192-CBC", "AES-256-CBC",  "AES-128-CTR",
    "AES-192-CTR", "AES-256-CTR", "DES-EDE3-CBC", "ChaCha20",
};
#define NAMES (sizeof(names) / sizeof(names[0]))

static EVP_CIPHER *ciphers[SIDES][NAMES];

struct pair {
    EVP_CIPHER_CTX *ctx[SIDES];
    bool encrypts;
    bool is_empty; // nothing is kept back of the data so far
};

bool __wrap_cryptod_offers(enum cryptod_algorithm algorithm)
{
    (void)algorithm;
    return true;
}

int __wrap_cryptod_open(const char *path, unsigned timeout_ms)
{
    (void)path;
    (void)__real_cryptod_open("/no-such-socket", timeout_ms); // loads OpenSSL's own ciphers
    return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    OSSL_LIB_CTX *contexts[SIDES] = {OSSL_LIB_CTX_new(), OSSL_LIB_CTX_new()};

    (void)argc;
    (void)argv;
    fuzz_require(OSSL_PROVIDER_add_builtin(contexts[0], "cryptod", OSSL_provider_init) == 1);
    fuzz_require(OSSL_PROVIDER_load(contexts[0], "cryptod") != NULL);
    fuzz_require(OSSL_PROVIDER_load(contexts[1], "default") != NULL);
    for (unsigned side = 0; side < SIDES; side++)
        for (unsigned i = 0; i < NAMES; i++) {
            ciphers[side][i] = EVP_CIPHER_fetch(contexts[side], names[i], NULL);
            fuzz_require(ciphers[side][i] != NULL);
        }
    return 0;
}

static void pair_new(struct pair *pair)
{
    for (unsigned side = 0; side < SIDES; side++)
        fuzz_require((pair->ctx[side] = EVP_CIPHER_CTX_new()) != NULL);
}

static void pair_free(struct pair *pair)
{
    for (unsigned side = 0; side < SIDES; side++)
        EVP_CIPHER_CTX_free(pair->ctx[side]);
}

// OpenSSL's CBC decrypts with the key schedule for encryption if the direction alone changes, which
// is nothing: then there is a key.
static void step_init(struct fuzz_input *in, struct pair *pair, unsigned name, uint8_t how)
{
    uint8_t key[32], iv[16];
    int ok[SIDES];
    const bool set = EVP_CIPHER_CTX_get0_cipher(pair->ctx[0]) == NULL || (how & 8) != 0;

    const bool encrypts = (how & 0x20) != 0 ? pair->encrypts : (how & 4) != 0;
    const bool has_key = (how & 1) != 0 || encrypts != pair->encrypts;

    pair->encrypts = encrypts;
    pair->is_empty = true;
    fuzz_take(in, iv + 8, 8);
    memset(iv, (how & 0x10) != 0 ? 0xff : 0, 8);
    memset(key, how, sizeof(key));
    key[0] = 1; // three DES keys that differ
    key[8] = 2;
    key[16] = 4;
    for (unsigned side = 0; side < SIDES; side++)
        ok[side] = EVP_CipherInit_ex2(pair->ctx[side], set ? ciphers[side][name] : NULL,
                                      has_key ? key : NULL, (how & 2) != 0 ? iv : NULL,
                                      (how & 0x20) != 0 ? -1 : how >> 2 & 1, NULL);
    fuzz_require(ok[0] == ok[1]);
}

// Apart, or in place unless bytes are kept back: there OpenSSL's writes over what it has yet to
// read.
static void step_update(struct fuzz_input *in, struct pair *pair, uint8_t how)
{
    static uint8_t buffers[SIDES][2 * BYTES_MAX + 64];
    const int n = (int)(fuzz_byte(in) * (1u + (how & 1)));
    const bool in_place = (how & 2) != 0 && pair->is_empty;
    const size_t at_in = in_place ? 0 : BYTES_MAX, at_out = 0;
    int ok[SIDES], n_out[SIDES] = {0, 0};

    fuzz_take(in, buffers[0] + at_in, 16);
    for (unsigned side = 0; side < SIDES; side++) {
        for (int i = 16; i < n; i++)
            buffers[side][at_in + (size_t)i] = (uint8_t)(i * how);
        memcpy(buffers[side] + at_in, buffers[0] + at_in, 16);
    }
    uint8_t kept[16];
    memcpy(kept, buffers[0] + at_in, sizeof(kept));
    for (unsigned side = 0; side < SIDES; side++) {
        memcpy(buffers[side] + at_in, kept, sizeof(kept));
        ok[side] = EVP_CipherUpdate(pair->ctx[side], buffers[side] + at_out, &n_out[side],
                                    buffers[side] + at_in, n);
    }
    pair->is_empty = pair->is_empty && pair->encrypts && n % 16 == 0;
    fuzz_require(ok[0] == ok[1]);
    fuzz_require(!ok[0] || n_out[0] == n_out[1]);
    fuzz_require(!ok[0] || memcmp(buffers[0], buffers[1], (size_t)n_out[0]) == 0);
}

static void step_final(struct pair *pair)
{
    uint8_t out[SIDES][64];
    int ok[SIDES], n_out[SIDES] = {0, 0};

    for (unsigned side = 0; side < SIDES; side++)
        ok[side] = EVP_CipherFinal_ex(pair->ctx[side], out[side], &n_out[side]);
    fuzz_require(ok[0] == ok[1]);
    fuzz_require(!ok[0] || n_out[0] == n_out[1]);
    fuzz_require(!ok[0] || memcmp(out[0], out[1], (size_t)n_out[0]) == 0);
}

static void step_look(struct pair *pair)
{
    uint8_t iv[SIDES][2][16] = {{{0}}};
    int ok[SIDES][2], num[SIDES];

    if (EVP_CIPHER_CTX_get0_cipher(pair->ctx[0]) == NULL)
        return;
    for (unsigned side = 0; side < SIDES; side++) {
        ok[side][0] = EVP_CIPHER_CTX_get_original_iv(pair->ctx[side], iv[side][0], 16);
        ok[side][1] = EVP_CIPHER_CTX_get_updated_iv(pair->ctx[side], iv[side][1], 16);
        num[side] = EVP_CIPHER_CTX_get_num(pair->ctx[side]);
    }
    fuzz_require(memcmp(ok[0], ok[1], sizeof(ok[0])) == 0);
    fuzz_require(memcmp(iv[0], iv[1], sizeof(iv[0])) == 0);
    fuzz_require(num[0] == num[1]);
}

static void step_set(struct pair *pair, uint8_t how)
{
    unsigned number = how >> 2;
    const char *const params_names[] = {OSSL_CIPHER_PARAM_NUM, OSSL_CIPHER_PARAM_USE_BITS,
                                        OSSL_CIPHER_PARAM_KEYLEN, OSSL_CIPHER_PARAM_IVLEN};
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_uint(params_names[how & 3], &number),
                                 OSSL_PARAM_construct_end()};
    int ok[SIDES];

    if (EVP_CIPHER_CTX_get0_cipher(pair->ctx[0]) == NULL)
        return;
    for (unsigned side = 0; side < SIDES; side++)
        ok[side] = EVP_CIPHER_CTX_set_params(pair->ctx[side], params);
    fuzz_require(ok[0] == ok[1]);
}

static void step_copy(struct pair *to, struct pair *from)
{
    int ok[SIDES];

    for (unsigned side = 0; side < SIDES; side++)
        ok[side] = EVP_CIPHER_CTX_copy(to->ctx[side], from->ctx[side]);
    fuzz_require(ok[0] == ok[1]);
    if (ok[0]) {
        to->encrypts = from->encrypts;
        to->is_empty = from->is_empty;
    }
}

// A context that is told of TLS takes records, in place, and pads them or takes padding and MAC
// away. The MAC itself is a random one where the padding is wrong, so its presence alone is
// compared.
static void step_record(struct fuzz_input *in, struct pair *pair, unsigned name, uint8_t how)
{
    static const unsigned versions[] = {SSL3_VERSION,   TLS1_VERSION,  TLS1_1_VERSION,
                                        TLS1_2_VERSION, DTLS1_VERSION, DTLS1_2_VERSION};
    static const uint8_t key[32] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
    static uint8_t records[SIDES][BYTES_MAX + 64];
    unsigned version = versions[how % (sizeof(versions) / sizeof(versions[0]))];
    size_t n_mac = fuzz_byte(in) % (EVP_MAX_MD_SIZE + 1);
    const int n = fuzz_byte(in) * 2, encrypts = how >> 7;
    const OSSL_PARAM set[] = {OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_TLS_VERSION, &version),
                              OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_TLS_MAC_SIZE, &n_mac),
                              OSSL_PARAM_construct_end()};
    int ok[SIDES], n_out[SIDES] = {0, 0};
    bool has_mac[SIDES];

    fuzz_take(in, records[0], (size_t)n);
    memcpy(records[1], records[0], sizeof(records[0]));
    for (unsigned side = 0; side < SIDES; side++) {
        EVP_CIPHER_CTX *ctx = pair->ctx[side];
        uint8_t *mac = NULL;
        OSSL_PARAM get[] = {
            OSSL_PARAM_construct_octet_ptr(OSSL_CIPHER_PARAM_TLS_MAC, (void **)&mac, n_mac),
            OSSL_PARAM_construct_end()};

        EVP_CIPHER_CTX_reset(ctx);
        ok[side] = EVP_CipherInit_ex2(ctx, ciphers[side][name], key, key, encrypts, NULL) == 1 &&
                   EVP_CIPHER_CTX_set_params(ctx, set) == 1 &&
                   EVP_CipherUpdate(ctx, records[side], &n_out[side], records[side], n) == 1;
        has_mac[side] = ok[side] && EVP_CIPHER_CTX_get_params(ctx, get) == 1 && mac != NULL;
        EVP_CIPHER_CTX_reset(ctx);
    }
    fuzz_require(ok[0] == ok[1]);
    fuzz_require(n_out[0] == n_out[1] || !ok[0]);
    fuzz_require(memcmp(records[0], records[1], (size_t)n) == 0 || !ok[0]);
    fuzz_require(has_mac[0] == has_mac[1]);
    *pair = (struct pair){.ctx = {pair->ctx[0], pair->ctx[1]}};
}

static void step(struct fuzz_input *in, struct pair pairs[2], unsigned name)
{
    uint8_t what = fuzz_byte(in), how = fuzz_byte(in);
    struct pair *pair = &pairs[what >> 4 & 1];

    switch (what & 7) {
    case 0:
        step_init(in, pair, name, how);
        break;
    case 1:
        step_final(pair);
        break;
    case 2:
        step_copy(&pairs[(what >> 4 & 1) ^ 1], pair);
        break;
    case 3:
        step_look(pair);
        break;
    case 4:
        for (unsigned side = 0; side < SIDES; side++)
            if (EVP_CIPHER_CTX_get0_cipher(pair->ctx[side]) != NULL)
                (void)EVP_CIPHER_CTX_set_padding(pair->ctx[side], how & 1);
        break;
    case 5:
        step_set(pair, how);
        break;
    case 6:
        step_record(in, pair, name, how);
        break;
    default:
        step_update(in, pair, how);
    }
    ERR_clear_error();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, data + n};
    const unsigned name = fuzz_byte(&in) % NAMES;
    struct pair pairs[2] = {{.encrypts = false}};

    pair_new(&pairs[0]);
    pair_new(&pairs[1]);
    for (int i = 0; i < STEPS_MAX && fuzz_left(&in) > 0; i++)
        step(&in, pairs, name);
    pair_free(&pairs[0]);
    pair_free(&pairs[1]);
    return 0;
}
