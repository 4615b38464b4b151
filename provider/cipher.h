// SPDX-License-Identifier: MIT
// What the provider's files share: one cipher context, and the operations on it that OpenSSL calls.
//
// A context does what OpenSSL's own default provider does, seen through the EVP functions: same
// results, same parameters, same errors. It differs only in who encrypts: cipher_crypt() hands
// whole buffers to libcryptod. Knows nothing of channels or lanes. One context is used by one
// thread at a time, as EVP demands.
#ifndef CRYPTOD_PROVIDER_CIPHER_H
#define CRYPTOD_PROVIDER_CIPHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/core_dispatch.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/proverr.h>

#include "cryptod.h"

#define CIPHER_BLOCK_MAX 16 // bytes, the longest block and IV

// What is fixed for an algorithm.
struct cipher_info {
    enum cryptod_algorithm algorithm;
    unsigned mode;  // EVP_CIPH_CBC_MODE, EVP_CIPH_CTR_MODE, EVP_CIPH_STREAM_CIPHER (ChaCha20)
    size_t n_key;   // bytes
    size_t n_iv;    // bytes
    size_t n_block; // bytes; 1 for stream ciphers
};

struct cipher_context {
    const struct cipher_info *info;
    cryptod_stream *stream;
    bool encrypt;
    bool padding;
    bool key_set;
    bool iv_set;
    bool iv_stale; // `iv` (and `num` for CTR) are behind the stream
    bool iv_lent;  // the caller has a pointer to `iv` and may look through it or write at any time
    unsigned
        num; // CTR: bytes used of the current keystream block; CBC: a number kept for the caller
    size_t n_buffered;    // bytes in `buffer`
    unsigned n_chacha;    // ChaCha20: bytes used of the block of counter `iv`, 0 .. 64
    unsigned tls_version; // 0: not in TLS record mode
    size_t n_tls_mac;
    bool tls_mac_set;
    uint8_t iv_original[CIPHER_BLOCK_MAX];
    uint8_t iv[CIPHER_BLOCK_MAX];
    uint8_t iv_seen[CIPHER_BLOCK_MAX]; // `iv` as it was when the stream last agreed with it
    uint8_t
        buffer[CIPHER_BLOCK_MAX]; // CBC: bytes that do not fill a block yet, or the block held back
    uint8_t tls_mac[EVP_MAX_MD_SIZE];
};

// ---------------------------------------------------------------- cipher.c

// Puts a reason of OpenSSL's providers on the error stack and is 0, the failure value of every
// operation.
#define cipher_fail(reason) (ERR_raise(ERR_LIB_PROV, (reason)), 0)

void *cipher_context_new(const struct cipher_info *info);
void cipher_context_free(void *vctx);
void *cipher_context_dup(void *vctx);

OSSL_FUNC_cipher_encrypt_init_fn cipher_encrypt_init;
OSSL_FUNC_cipher_decrypt_init_fn cipher_decrypt_init;
OSSL_FUNC_cipher_cipher_fn cipher_cipher;

// Encrypts or decrypts n bytes, whole blocks, any alignment, any overlap. 1, or 0 with an error
// raised.
int cipher_crypt(struct cipher_context *ctx, uint8_t *out, const uint8_t *in, size_t n);

// Brings `iv` and `num` up to the stream's position.
int cipher_sync_iv(struct cipher_context *ctx);

// Makes the stream go on from `iv` at the start of a block.
int cipher_restart_at_iv(struct cipher_context *ctx);

// Whether two ranges of bytes have one in common.
bool cipher_ranges_overlap(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b);

// ---------------------------------------------------------------- cipher_update.c

OSSL_FUNC_cipher_update_fn cipher_block_update;
OSSL_FUNC_cipher_final_fn cipher_block_final;
OSSL_FUNC_cipher_update_fn cipher_stream_update;
OSSL_FUNC_cipher_final_fn cipher_stream_final;

// ---------------------------------------------------------------- cipher_params.c

int cipher_get_params(const struct cipher_info *info, OSSL_PARAM params[]);
OSSL_FUNC_cipher_gettable_params_fn cipher_gettable_params;

OSSL_FUNC_cipher_get_ctx_params_fn cipher_get_ctx_params;
OSSL_FUNC_cipher_set_ctx_params_fn cipher_set_ctx_params;
OSSL_FUNC_cipher_gettable_ctx_params_fn cipher_gettable_ctx_params;
OSSL_FUNC_cipher_gettable_ctx_params_fn cipher_des3_gettable_ctx_params;
OSSL_FUNC_cipher_settable_ctx_params_fn cipher_settable_ctx_params;

OSSL_FUNC_cipher_get_ctx_params_fn cipher_chacha_get_ctx_params;
OSSL_FUNC_cipher_set_ctx_params_fn cipher_chacha_set_ctx_params;
OSSL_FUNC_cipher_gettable_ctx_params_fn cipher_chacha_gettable_ctx_params;
OSSL_FUNC_cipher_settable_ctx_params_fn cipher_chacha_settable_ctx_params;

// ---------------------------------------------------------------- cipher_table.c

#define CIPHER_TABLE_MAX (CRYPTOD_ALGORITHM_COUNT + 1)

// Fills table with what the daemon offers at this moment, closed by an empty entry.
void cipher_table_fill(OSSL_ALGORITHM table[CIPHER_TABLE_MAX]);

#endif
