// SPDX-License-Identifier: MIT
// The parameters of ciphers and contexts. Which exist, their types and the errors are those of
// OpenSSL's default provider; a parameter that is not known is passed over, as OpenSSL asks of
// providers.
#include "cipher.h"

#include <string.h>
#include <unistd.h>

#include <openssl/core_names.h>
#include <openssl/params.h>

// ---------------------------------------------------------------- of a cipher

const OSSL_PARAM *cipher_gettable_params(void *vprovider)
{
    static const OSSL_PARAM params[] = {
        OSSL_PARAM_uint(OSSL_CIPHER_PARAM_MODE, NULL),
        OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_KEYLEN, NULL),
        OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_IVLEN, NULL),
        OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_BLOCK_SIZE, NULL),
        OSSL_PARAM_int(OSSL_CIPHER_PARAM_AEAD, NULL),
        OSSL_PARAM_int(OSSL_CIPHER_PARAM_CUSTOM_IV, NULL),
        OSSL_PARAM_int(OSSL_CIPHER_PARAM_CTS, NULL),
        OSSL_PARAM_int(OSSL_CIPHER_PARAM_TLS1_MULTIBLOCK, NULL),
        OSSL_PARAM_int(OSSL_CIPHER_PARAM_HAS_RAND_KEY, NULL),
        OSSL_PARAM_END,
    };

    (void)vprovider;
    return params;
}

int cipher_get_params(const struct cipher_info *info, OSSL_PARAM params[])
{
    const struct {
        const char *key;
        size_t value;
    } values[] = {
        {OSSL_CIPHER_PARAM_MODE, info->mode},
        {OSSL_CIPHER_PARAM_KEYLEN, info->n_key},
        {OSSL_CIPHER_PARAM_IVLEN, info->n_iv},
        {OSSL_CIPHER_PARAM_BLOCK_SIZE, info->n_block},
        {OSSL_CIPHER_PARAM_AEAD, 0},
        {OSSL_CIPHER_PARAM_CUSTOM_IV, info->algorithm == CRYPTOD_CHACHA20},
        {OSSL_CIPHER_PARAM_CTS, 0},
        {OSSL_CIPHER_PARAM_TLS1_MULTIBLOCK, 0},
        {OSSL_CIPHER_PARAM_HAS_RAND_KEY, info->algorithm == CRYPTOD_DES_EDE3_CBC},
    };

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        OSSL_PARAM *p = OSSL_PARAM_locate(params, values[i].key);
        if (p != NULL && !OSSL_PARAM_set_size_t(p, values[i].value))
            return cipher_fail(PROV_R_FAILED_TO_SET_PARAMETER);
    }
    return 1;
}

// OpenSSL's own functions read a number through whatever pointer a parameter has.
static bool cipher_param_get_uint(const OSSL_PARAM *p, unsigned *ret)
{
    return p->data != NULL && OSSL_PARAM_get_uint(p, ret);
}

static bool cipher_param_get_size(const OSSL_PARAM *p, size_t *ret)
{
    return p->data != NULL && OSSL_PARAM_get_size_t(p, ret);
}

// ---------------------------------------------------------------- of a context: CBC and CTR

#define CIPHER_GETTABLE                                                                            \
    OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_KEYLEN, NULL),                                             \
        OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_IVLEN, NULL),                                          \
        OSSL_PARAM_uint(OSSL_CIPHER_PARAM_PADDING, NULL),                                          \
        OSSL_PARAM_uint(OSSL_CIPHER_PARAM_NUM, NULL),                                              \
        OSSL_PARAM_octet_string(OSSL_CIPHER_PARAM_IV, NULL, 0),                                    \
        OSSL_PARAM_octet_string(OSSL_CIPHER_PARAM_UPDATED_IV, NULL, 0)

const OSSL_PARAM *cipher_gettable_ctx_params(void *vctx, void *vprovider)
{
    static const OSSL_PARAM params[] = {
        CIPHER_GETTABLE,
        OSSL_PARAM_octet_ptr(OSSL_CIPHER_PARAM_TLS_MAC, NULL, 0),
        OSSL_PARAM_END,
    };

    (void)vctx;
    (void)vprovider;
    return params;
}

const OSSL_PARAM *cipher_des3_gettable_ctx_params(void *vctx, void *vprovider)
{
    static const OSSL_PARAM params[] = {
        CIPHER_GETTABLE,
        OSSL_PARAM_octet_string(OSSL_CIPHER_PARAM_RANDOM_KEY, NULL, 0),
        OSSL_PARAM_END,
    };

    (void)vctx;
    (void)vprovider;
    return params;
}

const OSSL_PARAM *cipher_settable_ctx_params(void *vctx, void *vprovider)
{
    static const OSSL_PARAM params[] = {
        OSSL_PARAM_uint(OSSL_CIPHER_PARAM_PADDING, NULL),
        OSSL_PARAM_uint(OSSL_CIPHER_PARAM_NUM, NULL),
        OSSL_PARAM_uint(OSSL_CIPHER_PARAM_USE_BITS, NULL),
        OSSL_PARAM_uint(OSSL_CIPHER_PARAM_TLS_VERSION, NULL),
        OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_TLS_MAC_SIZE, NULL),
        OSSL_PARAM_END,
    };

    (void)vctx;
    (void)vprovider;
    return params;
}

// An IV goes out as a copy, or as a pointer that shows the context's IV from then on, whatever
// happens to it.
static int cipher_put_iv(struct cipher_context *ctx, OSSL_PARAM *p, uint8_t *iv)
{
    ERR_set_mark();
    if (OSSL_PARAM_set_octet_ptr(p, iv, ctx->info->n_iv)) {
        ctx->iv_lent = true;
    } else if (!OSSL_PARAM_set_octet_string(p, iv, ctx->info->n_iv)) {
        ERR_clear_last_mark();
        return cipher_fail(PROV_R_FAILED_TO_SET_PARAMETER);
    }
    ERR_pop_to_mark();
    return 1;
}

// A random key of three DES keys, each byte with odd parity. EVP_CIPHER_CTX_rand_key() knows the
// length and so names none.
static int cipher_put_des3_key(const OSSL_PARAM *p, size_t n)
{
    uint8_t *key = p->data;

    if (key == NULL || p->data_type != OSSL_PARAM_OCTET_STRING ||
        (p->data_size > 0 && p->data_size < n))
        return cipher_fail(PROV_R_FAILED_TO_SET_PARAMETER);
    if (getentropy(key, n) < 0)
        return cipher_fail(PROV_R_FAILED_TO_GENERATE_KEY);
    for (size_t i = 0; i < n; i++)
        key[i] ^= (uint8_t)(__builtin_parity(key[i]) ^ 1);
    return 1;
}

int cipher_get_ctx_params(void *vctx, OSSL_PARAM params[])
{
    struct cipher_context *ctx = vctx;
    OSSL_PARAM *p;

    if (!cipher_sync_iv(ctx))
        return 0;
    if (((p = OSSL_PARAM_locate(params, OSSL_CIPHER_PARAM_IVLEN)) != NULL &&
         !OSSL_PARAM_set_size_t(p, ctx->info->n_iv)) ||
        ((p = OSSL_PARAM_locate(params, OSSL_CIPHER_PARAM_KEYLEN)) != NULL &&
         !OSSL_PARAM_set_size_t(p, ctx->info->n_key)) ||
        ((p = OSSL_PARAM_locate(params, OSSL_CIPHER_PARAM_PADDING)) != NULL &&
         !OSSL_PARAM_set_uint(p, ctx->padding)) ||
        ((p = OSSL_PARAM_locate(params, OSSL_CIPHER_PARAM_NUM)) != NULL &&
         !OSSL_PARAM_set_uint(p, ctx->num)) ||
        ((p = OSSL_PARAM_locate(params, OSSL_CIPHER_PARAM_TLS_MAC)) != NULL &&
         !OSSL_PARAM_set_octet_ptr(p, ctx->tls_mac_set ? ctx->tls_mac : NULL, ctx->n_tls_mac)))
        return cipher_fail(PROV_R_FAILED_TO_SET_PARAMETER);

    if (((p = OSSL_PARAM_locate(params, OSSL_CIPHER_PARAM_IV)) != NULL &&
         !cipher_put_iv(ctx, p, ctx->iv_original)) ||
        ((p = OSSL_PARAM_locate(params, OSSL_CIPHER_PARAM_UPDATED_IV)) != NULL &&
         !cipher_put_iv(ctx, p, ctx->iv)))
        return 0;

    p = OSSL_PARAM_locate(params, OSSL_CIPHER_PARAM_RANDOM_KEY);
    if (p != NULL && ctx->info->algorithm == CRYPTOD_DES_EDE3_CBC)
        return cipher_put_des3_key(p, ctx->info->n_key);
    return 1;
}

// CTR has no number but 0 to set: the start of the next block.
static int cipher_set_num(struct cipher_context *ctx, unsigned num)
{
    if (num >= ctx->info->n_block && ctx->info->n_block > 0)
        return cipher_fail(PROV_R_FAILED_TO_GET_PARAMETER);
    if (!cipher_sync_iv(ctx))
        return 0;
    if (ctx->info->mode == EVP_CIPH_CTR_MODE && ctx->num != 0 && !cipher_restart_at_iv(ctx))
        return 0;
    ctx->num = num;
    return 1;
}

int cipher_set_ctx_params(void *vctx, const OSSL_PARAM params[])
{
    struct cipher_context *ctx = vctx;
    size_t n_tls_mac = ctx->n_tls_mac;
    const OSSL_PARAM *p;
    unsigned value;

    if (params == NULL)
        return 1;
    p = OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_PADDING);
    if (p != NULL) {
        if (!cipher_param_get_uint(p, &value))
            return cipher_fail(PROV_R_FAILED_TO_GET_PARAMETER);
        ctx->padding = value != 0;
    }
    p = OSSL_PARAM_locate_const(params,
                                OSSL_CIPHER_PARAM_USE_BITS); // CFB1's; known, without effect
    if (p != NULL && !cipher_param_get_uint(p, &value))
        return cipher_fail(PROV_R_FAILED_TO_GET_PARAMETER);
    p = OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_TLS_VERSION);
    if (p != NULL && !cipher_param_get_uint(p, &ctx->tls_version))
        return cipher_fail(PROV_R_FAILED_TO_GET_PARAMETER);
    p = OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_TLS_MAC_SIZE);
    if (p != NULL && !cipher_param_get_size(p, &n_tls_mac))
        return cipher_fail(PROV_R_FAILED_TO_GET_PARAMETER);
    if (n_tls_mac != ctx->n_tls_mac) // the MAC that is there is of another length
        ctx->tls_mac_set = false;
    ctx->n_tls_mac = n_tls_mac;
    p = OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_NUM);
    if (p != NULL) {
        if (!cipher_param_get_uint(p, &value))
            return cipher_fail(PROV_R_FAILED_TO_GET_PARAMETER);
        return cipher_set_num(ctx, value);
    }
    return 1;
}

// ---------------------------------------------------------------- of a context: ChaCha20, which
// has lengths only

static const OSSL_PARAM cipher_chacha_params[] = {
    OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_KEYLEN, NULL),
    OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_IVLEN, NULL),
    OSSL_PARAM_END,
};

const OSSL_PARAM *cipher_chacha_gettable_ctx_params(void *vctx, void *vprovider)
{
    (void)vctx;
    (void)vprovider;
    return cipher_chacha_params;
}

const OSSL_PARAM *cipher_chacha_settable_ctx_params(void *vctx, void *vprovider)
{
    (void)vctx;
    (void)vprovider;
    return cipher_chacha_params;
}

int cipher_chacha_get_ctx_params(void *vctx, OSSL_PARAM params[])
{
    struct cipher_context *ctx = vctx;
    OSSL_PARAM *p;

    if (((p = OSSL_PARAM_locate(params, OSSL_CIPHER_PARAM_IVLEN)) != NULL &&
         !OSSL_PARAM_set_size_t(p, ctx->info->n_iv)) ||
        ((p = OSSL_PARAM_locate(params, OSSL_CIPHER_PARAM_KEYLEN)) != NULL &&
         !OSSL_PARAM_set_size_t(p, ctx->info->n_key)))
        return cipher_fail(PROV_R_FAILED_TO_SET_PARAMETER);
    return 1;
}

int cipher_chacha_set_ctx_params(void *vctx, const OSSL_PARAM params[])
{
    struct cipher_context *ctx = vctx;
    const OSSL_PARAM *p;
    size_t n;

    if (params == NULL)
        return 1;
    p = OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_KEYLEN);
    if (p != NULL && !cipher_param_get_size(p, &n))
        return cipher_fail(PROV_R_FAILED_TO_GET_PARAMETER);
    if (p != NULL && n != ctx->info->n_key)
        return cipher_fail(PROV_R_INVALID_KEY_LENGTH);
    p = OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_IVLEN);
    if (p != NULL && !cipher_param_get_size(p, &n))
        return cipher_fail(PROV_R_FAILED_TO_GET_PARAMETER);
    if (p != NULL && n != ctx->info->n_iv)
        return cipher_fail(PROV_R_INVALID_IV_LENGTH);
    return 1;
}
