// SPDX-License-Identifier: MIT
// The life of a cipher context, its key and IV, and the one place where data goes to libcryptod.
//
// Guarantees: a context re-initialised with any of key, IV and direction missing goes on as
// OpenSSL's default provider would; a copy is right in every state; every failure leaves an error
// with a text.
#include "cipher.h"

#include <errno.h>
#include <string.h>

#include <openssl/crypto.h>

#define CHACHA_BLOCK 64u

void *cipher_context_new(const struct cipher_info *info)
{
    struct cipher_context *ctx = OPENSSL_zalloc(sizeof(*ctx));

    if (ctx == NULL)
        return NULL;
    int r = cryptod_stream_new(info->algorithm, &ctx->stream);
    if (r < 0) {
        OPENSSL_free(ctx);
        ERR_raise_data(ERR_LIB_PROV, ERR_R_INIT_FAIL, "cryptod stream: error %d", -r);
        return NULL;
    }
    ctx->info = info;
    ctx->padding = true;
    return ctx;
}

void cipher_context_free(void *vctx)
{
    struct cipher_context *ctx = vctx;

    if (ctx == NULL)
        return;
    cryptod_stream_free(ctx->stream);
    OPENSSL_clear_free(ctx, sizeof(*ctx));
}

void *cipher_context_dup(void *vctx)
{
    struct cipher_context *ctx = vctx, *copy;
    cryptod_stream *stream = NULL;

    if (ctx == NULL)
        return NULL;
    int r = cryptod_stream_dup(ctx->stream, &stream);
    if (r < 0) {
        ERR_raise_data(ERR_LIB_PROV, ERR_R_INIT_FAIL, "cryptod stream: error %d", -r);
        return NULL;
    }
    copy = OPENSSL_memdup(ctx, sizeof(*ctx));
    if (copy == NULL) {
        cryptod_stream_free(stream);
        ERR_raise(ERR_LIB_PROV, ERR_R_MALLOC_FAILURE);
        return NULL;
    }
    copy->stream = stream;
    copy->iv_lent = false; // that pointer leads into the original
    return copy;
}

// ---------------------------------------------------------------- IV

int cipher_sync_iv(struct cipher_context *ctx)
{
    unsigned num;

    if (!ctx->iv_stale)
        return 1;
    int r = cryptod_stream_iv(ctx->stream, ctx->iv, &num);
    if (r < 0) {
        ERR_raise_data(ERR_LIB_PROV, PROV_R_CIPHER_OPERATION_FAILED, "cryptod: error %d", -r);
        return 0;
    }
    if (ctx->info->mode == EVP_CIPH_CTR_MODE)
        ctx->num = num;
    memcpy(ctx->iv_seen, ctx->iv, sizeof(ctx->iv));
    ctx->iv_stale = false;
    return 1;
}

static int cipher_init_stream(struct cipher_context *ctx, const uint8_t *key)
{
    int r = cryptod_stream_init(ctx->stream, key, ctx->iv, ctx->encrypt);

    if (r < 0) {
        ERR_raise_data(ERR_LIB_PROV, PROV_R_CIPHER_OPERATION_FAILED, "cryptod: error %d", -r);
        return 0;
    }
    memcpy(ctx->iv_seen, ctx->iv, sizeof(ctx->iv));
    ctx->iv_stale = false;
    return 1;
}

int cipher_restart_at_iv(struct cipher_context *ctx)
{
    return cipher_init_stream(ctx, NULL);
}

// ---------------------------------------------------------------- init

// What the absence of an IV means: CBC starts again from the IV set last; CTR and ChaCha20 go on
// with the counter where it is, at the start of its block.
static int cipher_init(struct cipher_context *ctx, const uint8_t *key, size_t n_key,
                       const uint8_t *iv, size_t n_iv, bool encrypt)
{
    const struct cipher_info *info = ctx->info;

    if (!cipher_sync_iv(ctx))
        return 0;
    ctx->num = 0;
    ctx->n_buffered = 0;
    ctx->encrypt = encrypt;

    if (iv != NULL) {
        if (n_iv != info->n_iv)
            return cipher_fail(PROV_R_INVALID_IV_LENGTH);
        memcpy(ctx->iv, iv, n_iv);
        memcpy(ctx->iv_original, iv, n_iv);
        ctx->iv_set = true;
    } else if (ctx->iv_set && info->mode == EVP_CIPH_CBC_MODE) {
        memcpy(ctx->iv, ctx->iv_original, info->n_iv);
    }

    if (key != NULL && n_key != info->n_key)
        return cipher_fail(PROV_R_INVALID_KEY_LENGTH);
    if (key == NULL && iv == NULL && info->mode == EVP_CIPH_STREAM_CIPHER)
        return 1; // ChaCha20 then goes on even in the middle of a block
    ctx->n_chacha = 0;
    if (key == NULL && !ctx->key_set)
        return 1; // the IV waits for the key
    if (!cipher_init_stream(ctx, key))
        return 0;
    ctx->key_set = true;
    return 1;
}

static int cipher_init_with_params(void *vctx, const uint8_t *key, size_t n_key, const uint8_t *iv,
                                   size_t n_iv, const OSSL_PARAM params[], bool encrypt)
{
    struct cipher_context *ctx = vctx;

    if (!cipher_init(ctx, key, n_key, iv, n_iv, encrypt))
        return 0;
    return ctx->info->mode == EVP_CIPH_STREAM_CIPHER ? cipher_chacha_set_ctx_params(ctx, params)
                                                     : cipher_set_ctx_params(ctx, params);
}

int cipher_encrypt_init(void *vctx, const unsigned char *key, size_t n_key, const unsigned char *iv,
                        size_t n_iv, const OSSL_PARAM params[])
{
    return cipher_init_with_params(vctx, key, n_key, iv, n_iv, params, true);
}

int cipher_decrypt_init(void *vctx, const unsigned char *key, size_t n_key, const unsigned char *iv,
                        size_t n_iv, const OSSL_PARAM params[])
{
    return cipher_init_with_params(vctx, key, n_key, iv, n_iv, params, false);
}

// ---------------------------------------------------------------- data

bool cipher_ranges_overlap(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b)
{
    uintptr_t start_a = (uintptr_t)a, start_b = (uintptr_t)b;

    return start_a < start_b ? start_b - start_a < n_a : start_a - start_b < n_b;
}

// ChaCha20 reports no position through its parameters, but a new key without an IV goes on at the
// block begun last: so `iv` follows the data here. A block that is used up exactly counts as begun
// until more data comes.
static void cipher_advance_chacha(struct cipher_context *ctx, size_t n)
{
    uint64_t counter = 0;

    for (unsigned i = 8; i-- > 0;)
        counter = counter << 8 | ctx->iv[i];
    if (ctx->n_chacha > 0) {
        size_t n_left = CHACHA_BLOCK - ctx->n_chacha;
        if (n <= n_left) {
            ctx->n_chacha += (unsigned)n;
            return;
        }
        n -= n_left;
        counter++;
    }
    counter += n / CHACHA_BLOCK;
    ctx->n_chacha = (unsigned)(n % CHACHA_BLOCK);
    for (unsigned i = 0; i < 8; i++, counter >>= 8)
        ctx->iv[i] = (uint8_t)counter;
}

static int cipher_crypt_apart(struct cipher_context *ctx, uint8_t *out, const uint8_t *in, size_t n)
{
    bool chacha = ctx->info->mode == EVP_CIPH_STREAM_CIPHER;

    // EVP_CIPHER_CTX_iv_noconst() lets the caller write the IV between two calls.
    if (ctx->iv_lent && memcmp(ctx->iv, ctx->iv_seen, sizeof(ctx->iv)) != 0 &&
        !cipher_restart_at_iv(ctx))
        return 0;
    int r = cryptod_stream_crypt(ctx->stream, out, in, n);
    if (r < 0) {
        ERR_raise_data(ERR_LIB_PROV, PROV_R_CIPHER_OPERATION_FAILED, "cryptod: error %d", -r);
        return 0;
    }
    if (chacha)
        cipher_advance_chacha(ctx, n);
    else
        ctx->iv_stale = true;
    return ctx->iv_lent ? cipher_sync_iv(ctx) : 1;
}

int cipher_crypt(struct cipher_context *ctx, uint8_t *out, const uint8_t *in, size_t n)
{
    if (n == 0)
        return 1;
    if (in == NULL || out == NULL)
        return cipher_fail(ERR_R_PASSED_NULL_PARAMETER);
    if (n % ctx->info->n_block != 0)
        return cipher_fail(PROV_R_WRONG_FINAL_BLOCK_LENGTH);
    if (in == out || !cipher_ranges_overlap(out, n, in, n))
        return cipher_crypt_apart(ctx, out, in, n);

    uint8_t *copy = OPENSSL_memdup(in, n);
    if (copy == NULL)
        return cipher_fail(ERR_R_MALLOC_FAILURE);
    int ok = cipher_crypt_apart(ctx, out, copy, n);
    OPENSSL_clear_free(copy, n);
    return ok;
}

// EVP_Cipher(): whole blocks, no padding, nothing kept back. Without this function EVP_Cipher()
// would report a failure as 0, which its callers (OpenSSH) take for success.
int cipher_cipher(void *vctx, unsigned char *out, size_t *ret_n, size_t n_out,
                  const unsigned char *in, size_t n_in)
{
    struct cipher_context *ctx = vctx;

    if (!ctx->key_set)
        return cipher_fail(PROV_R_NO_KEY_SET);
    if (n_out < n_in)
        return cipher_fail(PROV_R_OUTPUT_BUFFER_TOO_SMALL);
    if (!cipher_crypt(ctx, out, in, n_in))
        return 0;
    *ret_n = n_in;
    return 1;
}
