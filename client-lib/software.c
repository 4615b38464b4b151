// SPDX-License-Identifier: MIT
// The software lane. See software.h.
#include "software.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <pthread.h>

// EVP counts in int; a multiple of every block.
#define SOFTWARE_PIECE ((size_t)1 << 30)

// struct software is EVP_CIPHER_CTX under a name of our own: the headers need not know OpenSSL.
#define CTX(software) ((EVP_CIPHER_CTX *)(void *)(software))

// Never freed: a stream may be used until the very end of the process, after OpenSSL's own exit
// handlers, which do not touch a private context.
static OSSL_LIB_CTX *software_library;
static OSSL_PROVIDER *software_provider;
static EVP_CIPHER *software_ciphers[ALGORITHM_COUNT];
static int software_error;

// pthread_once: if a fork cuts it short in another thread, the child does it again.
static pthread_once_t software_once = PTHREAD_ONCE_INIT;

static void software_load(void)
{
    software_library = OSSL_LIB_CTX_new();
    if (!software_library) {
        software_error = -ENOMEM;
        return;
    }
    ERR_set_mark();
    software_provider = OSSL_PROVIDER_load(software_library, "default");
    if (!software_provider)
        software_error = -ENOTSUP;
    for (uint32_t id = 0; software_provider && id < ALGORITHM_COUNT; id++)
        software_ciphers[id] =
            EVP_CIPHER_fetch(software_library, algorithm_get(id)->openssl_name, NULL);
    ERR_pop_to_mark(); // an algorithm that is not there is no error of the application
}

int software_prepare(void)
{
    return pthread_once(&software_once, software_load) == 0 ? software_error : -ENOMEM;
}

int software_new(enum algorithm_id algorithm, struct software **ret)
{
    int r = software_prepare();

    if (r < 0)
        return r;
    if (!software_ciphers[algorithm])
        return -ENOTSUP;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    if (!ctx)
        return -ENOMEM;
    if (EVP_CipherInit_ex2(ctx, software_ciphers[algorithm], NULL, NULL, 1, NULL) != 1 ||
        EVP_CIPHER_CTX_set_padding(ctx, 0) != 1) {
        EVP_CIPHER_CTX_free(ctx);
        return -ENOMEM;
    }
    *ret = (struct software *)(void *)ctx;
    return 0;
}

void software_free(struct software *software)
{
    EVP_CIPHER_CTX_free(CTX(software));
}

int software_set(struct software *software, const uint8_t *key, const uint8_t *iv, bool encrypt,
                 unsigned skip)
{
    uint8_t discard[64] = {0};
    int r = 0;

    if (EVP_CipherInit_ex2(CTX(software), NULL, key, iv, encrypt, NULL) != 1)
        return -EIO;
    if (skip > 0)
        r = software_crypt(software, discard, discard, skip);
    OPENSSL_cleanse(discard, sizeof discard); // keystream
    return r;
}

int software_crypt(struct software *software, uint8_t *out, const uint8_t *in, size_t n_bytes)
{
    while (n_bytes > 0) {
        int piece = (int)(n_bytes < SOFTWARE_PIECE ? n_bytes : SOFTWARE_PIECE), n_out = 0;
        if (EVP_CipherUpdate(CTX(software), out, &n_out, in, piece) != 1 || n_out != piece)
            return -EIO;
        out += piece;
        in += piece;
        n_bytes -= (size_t)piece;
    }
    return 0;
}
