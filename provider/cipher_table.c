// SPDX-License-Identifier: MIT
// The ciphers by name: what OpenSSL may fetch, which functions serve it, and the lengths of each.
// Names, aliases and object identifiers are those of OpenSSL's default provider, so that every way
// to ask for a cipher finds it here too. Only what the daemon offers at load is shown to OpenSSL.
#include "cipher.h"

#define CIPHER_FUNCTION(id, function)                                                              \
    {                                                                                              \
        (id), (void (*)(void))(function)                                                           \
    }

// newctx and get_params are told no algorithm, so each needs a pair of its own.
#define CIPHER_DEFINE(name, algorithm, mode, n_key, n_iv, n_block, update, final, family,          \
                      gettable)                                                                    \
    static const struct cipher_info name##_info = {algorithm, mode, n_key, n_iv, n_block};         \
    static void *name##_new(void *vprovider)                                                       \
    {                                                                                              \
        (void)vprovider;                                                                           \
        return cipher_context_new(&name##_info);                                                   \
    }                                                                                              \
    static int name##_get_params(OSSL_PARAM params[])                                              \
    {                                                                                              \
        return cipher_get_params(&name##_info, params);                                            \
    }                                                                                              \
    static const OSSL_DISPATCH name##_functions[] = {                                              \
        CIPHER_FUNCTION(OSSL_FUNC_CIPHER_NEWCTX, name##_new),                                      \
        CIPHER_FUNCTION(OSSL_FUNC_CIPHER_FREECTX, cipher_context_free),                            \
        CIPHER_FUNCTION(OSSL_FUNC_CIPHER_DUPCTX, cipher_context_dup),                              \
        CIPHER_FUNCTION(OSSL_FUNC_CIPHER_ENCRYPT_INIT, cipher_encrypt_init),                       \
        CIPHER_FUNCTION(OSSL_FUNC_CIPHER_DECRYPT_INIT, cipher_decrypt_init),                       \
        CIPHER_FUNCTION(OSSL_FUNC_CIPHER_UPDATE, update),                                          \
        CIPHER_FUNCTION(OSSL_FUNC_CIPHER_FINAL, final),                                            \
        CIPHER_FUNCTION(OSSL_FUNC_CIPHER_CIPHER, cipher_cipher),                                   \
        CIPHER_FUNCTION(OSSL_FUNC_CIPHER_GET_PARAMS, name##_get_params),                           \
        CIPHER_FUNCTION(OSSL_FUNC_CIPHER_GETTABLE_PARAMS, cipher_gettable_params),                 \
        CIPHER_FUNCTION(OSSL_FUNC_CIPHER_GET_CTX_PARAMS, family##_get_ctx_params),                 \
        CIPHER_FUNCTION(OSSL_FUNC_CIPHER_SET_CTX_PARAMS, family##_set_ctx_params),                 \
        CIPHER_FUNCTION(OSSL_FUNC_CIPHER_GETTABLE_CTX_PARAMS, gettable),                           \
        CIPHER_FUNCTION(OSSL_FUNC_CIPHER_SETTABLE_CTX_PARAMS, family##_settable_ctx_params),       \
        {0, NULL},                                                                                 \
    }

#define CIPHER_DEFINE_CBC(name, algorithm, n_key, n_block, gettable)                               \
    CIPHER_DEFINE(name, algorithm, EVP_CIPH_CBC_MODE, n_key, n_block, n_block,                     \
                  cipher_block_update, cipher_block_final, cipher, gettable)
#define CIPHER_DEFINE_CTR(name, algorithm, n_key)                                                  \
    CIPHER_DEFINE(name, algorithm, EVP_CIPH_CTR_MODE, n_key, 16, 1, cipher_stream_update,          \
                  cipher_stream_final, cipher, cipher_gettable_ctx_params)

CIPHER_DEFINE_CBC(aes_128_cbc, CRYPTOD_AES_128_CBC, 16, 16, cipher_gettable_ctx_params);
CIPHER_DEFINE_CBC(aes_192_cbc, CRYPTOD_AES_192_CBC, 24, 16, cipher_gettable_ctx_params);
CIPHER_DEFINE_CBC(aes_256_cbc, CRYPTOD_AES_256_CBC, 32, 16, cipher_gettable_ctx_params);
CIPHER_DEFINE_CTR(aes_128_ctr, CRYPTOD_AES_128_CTR, 16);
CIPHER_DEFINE_CTR(aes_192_ctr, CRYPTOD_AES_192_CTR, 24);
CIPHER_DEFINE_CTR(aes_256_ctr, CRYPTOD_AES_256_CTR, 32);
CIPHER_DEFINE_CBC(des_ede3_cbc, CRYPTOD_DES_EDE3_CBC, 24, 8, cipher_des3_gettable_ctx_params);
CIPHER_DEFINE(chacha20, CRYPTOD_CHACHA20, EVP_CIPH_STREAM_CIPHER, 32, 16, 1, cipher_stream_update,
              cipher_stream_final, cipher_chacha, cipher_chacha_gettable_ctx_params);

#define CIPHER_ENTRY(name, names)                                                                  \
    {                                                                                              \
        &name##_info,                                                                              \
        {                                                                                          \
            (names), "provider=cryptod", name##_functions, NULL                                    \
        }                                                                                          \
    }

static const struct {
    const struct cipher_info *info;
    OSSL_ALGORITHM entry;
} cipher_table[] = {
    CIPHER_ENTRY(aes_256_cbc, "AES-256-CBC:AES256:2.16.840.1.101.3.4.1.42"),
    CIPHER_ENTRY(aes_192_cbc, "AES-192-CBC:AES192:2.16.840.1.101.3.4.1.22"),
    CIPHER_ENTRY(aes_128_cbc, "AES-128-CBC:AES128:2.16.840.1.101.3.4.1.2"),
    CIPHER_ENTRY(aes_256_ctr, "AES-256-CTR"),
    CIPHER_ENTRY(aes_192_ctr, "AES-192-CTR"),
    CIPHER_ENTRY(aes_128_ctr, "AES-128-CTR"),
    CIPHER_ENTRY(des_ede3_cbc, "DES-EDE3-CBC:DES3:1.2.840.113549.3.7"),
    CIPHER_ENTRY(chacha20, "ChaCha20"),
};

void cipher_table_fill(OSSL_ALGORITHM table[CIPHER_TABLE_MAX])
{
    const size_t n_table = sizeof(cipher_table) / sizeof(cipher_table[0]);
    size_t n = 0;

    _Static_assert(sizeof(cipher_table) / sizeof(cipher_table[0]) < CIPHER_TABLE_MAX, "room");
    for (size_t i = 0; i < n_table; i++)
        if (cryptod_offers(cipher_table[i].info->algorithm))
            table[n++] = cipher_table[i].entry;
    table[n] = (OSSL_ALGORITHM){NULL, NULL, NULL, NULL};
}
