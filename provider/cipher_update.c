// SPDX-License-Identifier: MIT
// Update and final: what a call's bytes, those kept from the call before, and the padding make of
// each other.
//
// Guarantees: the caller's whole blocks go to cipher_crypt() in one piece, without a copy; output
// lengths and the moment at which a block comes out are those of OpenSSL's default provider. Knows
// nothing of keys and IVs.
#include "cipher.h"

#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/prov_ssl.h>

#include "padding.h"

// ---------------------------------------------------------------- CBC records of TLS

static int cipher_tls_encrypt(struct cipher_context *ctx, uint8_t *data, size_t *ret_n,
                              size_t n_out, size_t n)
{
    const size_t n_block = ctx->info->n_block;
    const size_t n_padded = n + n_block - n % n_block;

    if (n_out < n_padded)
        return cipher_fail(PROV_R_CIPHER_OPERATION_FAILED);
    padding_tls_add(data, n, n_block, ctx->tls_version == SSL3_VERSION);
    if (!cipher_crypt(ctx, data, data, n_padded))
        return 0;
    *ret_n = n_padded;
    return 1;
}

static int cipher_tls_decrypt(struct cipher_context *ctx, uint8_t *data, size_t *ret_n, size_t n)
{
    uint8_t random[EVP_MAX_MD_SIZE];
    size_t n_skip = 0; // the explicit IV, decrypted with the rest and of no use

    switch (ctx->tls_version) {
    case SSL3_VERSION:
    case TLS1_VERSION:
        break;
    case TLS1_1_VERSION:
    case TLS1_2_VERSION:
    case DTLS1_BAD_VER:
    case DTLS1_VERSION:
    case DTLS1_2_VERSION:
        n_skip = ctx->info->n_block;
        break;
    default:
        return cipher_fail(PROV_R_CIPHER_OPERATION_FAILED);
    }
    if (n < n_skip || ctx->n_tls_mac > sizeof(random))
        return cipher_fail(PROV_R_CIPHER_OPERATION_FAILED);
    if (!cipher_crypt(ctx, data, data, n))
        return 0;
    // From the kernel: a provider must not run a random generator of the application's library
    // context.
    if (getentropy(random, ctx->n_tls_mac) < 0)
        return cipher_fail(PROV_R_ERROR_RETRIEVING_ENTROPY);

    struct padding_tls_record record = {
        .data = data + n_skip,
        .n = n - n_skip,
        .n_block = ctx->info->n_block,
        .n_mac = ctx->n_tls_mac,
        .ssl3 = ctx->tls_version == SSL3_VERSION,
    };
    ctx->tls_mac_set = false;
    if (padding_tls_remove(&record, random, ctx->tls_mac, ret_n) < 0)
        return cipher_fail(PROV_R_CIPHER_OPERATION_FAILED);
    ctx->tls_mac_set = ctx->n_tls_mac > 0;
    return 1;
}

// libssl leaves the padding of records to the cipher: one call, one record, in place.
static int cipher_tls_update(struct cipher_context *ctx, uint8_t *out, size_t *ret_n, size_t n_out,
                             const uint8_t *in, size_t n)
{
    if (in == NULL || in != out || n_out < n || !ctx->padding ||
        (!ctx->encrypt && n % ctx->info->n_block != 0))
        return cipher_fail(PROV_R_CIPHER_OPERATION_FAILED);
    return ctx->encrypt ? cipher_tls_encrypt(ctx, out, ret_n, n_out, n)
                        : cipher_tls_decrypt(ctx, out, ret_n, n);
}

// ---------------------------------------------------------------- CBC

static int cipher_flush_block(struct cipher_context *ctx, uint8_t *out, size_t *written,
                              size_t n_out)
{
    const size_t n_block = ctx->info->n_block;

    if (n_out - *written < n_block)
        return cipher_fail(PROV_R_OUTPUT_BUFFER_TOO_SMALL);
    if (!cipher_crypt(ctx, out + *written, ctx->buffer, n_block))
        return 0;
    ctx->n_buffered = 0;
    *written += n_block;
    return 1;
}

static int cipher_update_blocks(struct cipher_context *ctx, uint8_t *out, size_t *ret_n,
                                size_t n_out, const uint8_t *in, size_t n)
{
    const size_t n_block = ctx->info->n_block;
    // When padded data is decrypted its last block must not come out before it is known to be the
    // last.
    const bool hold = !ctx->encrypt && ctx->padding;
    size_t written = 0;

    if (ctx->n_buffered > 0 && n > 0) {
        size_t n_fill = n_block - ctx->n_buffered < n ? n_block - ctx->n_buffered : n;
        memcpy(ctx->buffer + ctx->n_buffered, in, n_fill);
        ctx->n_buffered += n_fill;
        in += n_fill;
        n -= n_fill;
    }
    if (ctx->n_buffered == n_block && (n > 0 || !hold) &&
        !cipher_flush_block(ctx, out, &written, n_out))
        return 0;

    size_t n_whole = n & ~(n_block - 1);
    if (hold && n_whole == n && n > 0)
        n_whole -= n_block;
    if (n_out - written < n_whole)
        return cipher_fail(PROV_R_OUTPUT_BUFFER_TOO_SMALL);
    if (n_whole > 0 && !cipher_crypt(ctx, out + written, in, n_whole))
        return 0;
    written += n_whole;

    if (n > n_whole) {
        memcpy(ctx->buffer + ctx->n_buffered, in + n_whole, n - n_whole);
        ctx->n_buffered += n - n_whole;
    }
    *ret_n = written;
    return 1;
}

int cipher_block_update(void *vctx, unsigned char *out, size_t *ret_n, size_t n_out,
                        const unsigned char *in, size_t n_in)
{
    struct cipher_context *ctx = vctx;

    if (!ctx->key_set)
        return cipher_fail(PROV_R_NO_KEY_SET);
    if (ctx->tls_version > 0)
        return cipher_tls_update(ctx, out, ret_n, n_out, in, n_in);
    if (in == NULL && n_in > 0)
        return cipher_fail(ERR_R_PASSED_NULL_PARAMETER);
    // With bytes in the buffer the output runs ahead of the input by them: written in place it
    // would overtake it.
    if (n_in == 0 || (in == out && ctx->n_buffered == 0) ||
        !cipher_ranges_overlap(out, ctx->n_buffered + n_in, in, n_in))
        return cipher_update_blocks(ctx, out, ret_n, n_out, in, n_in);

    uint8_t *copy = OPENSSL_memdup(in, n_in);
    if (copy == NULL)
        return cipher_fail(ERR_R_MALLOC_FAILURE);
    int ok = cipher_update_blocks(ctx, out, ret_n, n_out, copy, n_in);
    OPENSSL_clear_free(copy, n_in);
    return ok;
}

static int cipher_final_encrypt(struct cipher_context *ctx, uint8_t *out, size_t *ret_n,
                                size_t n_out)
{
    const size_t n_block = ctx->info->n_block;
    size_t written = 0;

    if (ctx->padding)
        padding_add(ctx->buffer, ctx->n_buffered, n_block);
    else if (ctx->n_buffered > 0 && ctx->n_buffered < n_block)
        return cipher_fail(PROV_R_WRONG_FINAL_BLOCK_LENGTH);
    if ((ctx->padding || ctx->n_buffered > 0) && !cipher_flush_block(ctx, out, &written, n_out))
        return 0;
    *ret_n = written;
    return 1;
}

static int cipher_final_decrypt(struct cipher_context *ctx, uint8_t *out, size_t *ret_n,
                                size_t n_out)
{
    const size_t n_block = ctx->info->n_block;
    size_t n_data = n_block;

    if (ctx->n_buffered == 0 && !ctx->padding) {
        *ret_n = 0;
        return 1;
    }
    if (ctx->n_buffered != n_block)
        return cipher_fail(PROV_R_WRONG_FINAL_BLOCK_LENGTH);
    if (!cipher_crypt(ctx, ctx->buffer, ctx->buffer, n_block))
        return 0;
    if (ctx->padding && padding_remove(ctx->buffer, n_block, &n_data) < 0)
        return cipher_fail(PROV_R_BAD_DECRYPT);
    if (n_out < n_data)
        return cipher_fail(PROV_R_OUTPUT_BUFFER_TOO_SMALL);
    memcpy(out, ctx->buffer, n_data);
    ctx->n_buffered = 0;
    *ret_n = n_data;
    return 1;
}

int cipher_block_final(void *vctx, unsigned char *out, size_t *ret_n, size_t n_out)
{
    struct cipher_context *ctx = vctx;

    if (!ctx->key_set)
        return cipher_fail(PROV_R_NO_KEY_SET);
    if (ctx->tls_version > 0) // each record was whole
        return cipher_fail(PROV_R_CIPHER_OPERATION_FAILED);
    return ctx->encrypt ? cipher_final_encrypt(ctx, out, ret_n, n_out)
                        : cipher_final_decrypt(ctx, out, ret_n, n_out);
}

// ---------------------------------------------------------------- CTR, ChaCha20

int cipher_stream_update(void *vctx, unsigned char *out, size_t *ret_n, size_t n_out,
                         const unsigned char *in, size_t n_in)
{
    struct cipher_context *ctx = vctx;
    size_t n = n_in;

    if (!ctx->key_set)
        return cipher_fail(PROV_R_NO_KEY_SET);
    if (n_out < n_in)
        return cipher_fail(PROV_R_OUTPUT_BUFFER_TOO_SMALL);
    if (!cipher_crypt(ctx, out, in, n_in))
        return 0;

    // A record without padding, its MAC at the end.
    if (n_in > 0 && !ctx->encrypt && ctx->tls_version > 0 && ctx->n_tls_mac > 0) {
        if (n < ctx->n_tls_mac || ctx->n_tls_mac > sizeof(ctx->tls_mac))
            return cipher_fail(PROV_R_CIPHER_OPERATION_FAILED);
        n -= ctx->n_tls_mac;
        memcpy(ctx->tls_mac, out + n, ctx->n_tls_mac);
        ctx->tls_mac_set = true;
    }
    *ret_n = n;
    return 1;
}

int cipher_stream_final(void *vctx, unsigned char *out, size_t *ret_n, size_t n_out)
{
    struct cipher_context *ctx = vctx;

    (void)out;
    (void)n_out;
    if (!ctx->key_set)
        return cipher_fail(PROV_R_NO_KEY_SET);
    *ret_n = 0;
    return 1;
}
