// SPDX-License-Identifier: MIT
// The software lane. See software.h.
//
// The provider's functions are called directly, not through EVP: for each cipher that EVP is to set
// up it asks the application's ENGINEs whether one of them wants it (an engine would then do what
// has to be done in software), and for that loads the application's configuration file, if nobody
// has yet: in a sandbox, or, in our provider, in the middle of loading that very file.
#include "software.h"

#include <errno.h>
#include <openssl/core_dispatch.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/provider.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

struct software_cipher {
    OSSL_FUNC_cipher_newctx_fn *newctx;
    OSSL_FUNC_cipher_freectx_fn *freectx;
    OSSL_FUNC_cipher_encrypt_init_fn *encrypt_init;
    OSSL_FUNC_cipher_decrypt_init_fn *decrypt_init;
    OSSL_FUNC_cipher_cipher_fn *cipher;
    size_t n_key;
    size_t n_iv;
};

// Never freed: a stream may be used until the very end of the process, after OpenSSL's own exit
// handlers, which do not touch a private context.
static OSSL_LIB_CTX *software_library;
static OSSL_PROVIDER *software_provider;
static struct software_cipher software_ciphers[ALGORITHM_COUNT];
static int software_error;

// pthread_once: if a fork cuts it short in another thread, the child does it again.
static pthread_once_t software_once = PTHREAD_ONCE_INIT;

// names: separated by colons.
static bool software_has_name(const char *names, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = names; at; at = strchr(at, ':')) {
        at += *at == ':';
        if (strncasecmp(at, name, n) == 0 && (at[n] == ':' || at[n] == '\0'))
            return true;
    }
    return false;
}

static void software_take(const OSSL_DISPATCH *function, const struct algorithm_info *info,
                          struct software_cipher *ret)
{
    ret->n_key = info->n_key;
    ret->n_iv = info->n_iv;
    for (; function->function_id != 0; function++) {
        switch (function->function_id) {
        case OSSL_FUNC_CIPHER_NEWCTX:
            ret->newctx = OSSL_FUNC_cipher_newctx(function);
            break;
        case OSSL_FUNC_CIPHER_FREECTX:
            ret->freectx = OSSL_FUNC_cipher_freectx(function);
            break;
        case OSSL_FUNC_CIPHER_ENCRYPT_INIT:
            ret->encrypt_init = OSSL_FUNC_cipher_encrypt_init(function);
            break;
        case OSSL_FUNC_CIPHER_DECRYPT_INIT:
            ret->decrypt_init = OSSL_FUNC_cipher_decrypt_init(function);
            break;
        case OSSL_FUNC_CIPHER_CIPHER:
            ret->cipher = OSSL_FUNC_cipher_cipher(function);
            break;
        default:
            break;
        }
    }
}

static void software_load(void)
{
    int no_cache = 0;

    software_library = OSSL_LIB_CTX_new();
    if (!software_library) {
        software_error = -ENOMEM;
        return;
    }
    ERR_set_mark();
    software_provider = OSSL_PROVIDER_load(software_library, "default");
    const OSSL_ALGORITHM *row =
        software_provider
            ? OSSL_PROVIDER_query_operation(software_provider, OSSL_OP_CIPHER, &no_cache)
            : NULL;
    if (!row)
        software_error = -ENOTSUP;
    for (; row && row->algorithm_names; row++) {
        for (uint32_t id = 0; id < ALGORITHM_COUNT; id++) {
            const struct algorithm_info *info = algorithm_get(id);
            if (software_has_name(row->algorithm_names, info->openssl_name))
                software_take(row->implementation, info, &software_ciphers[id]);
        }
    }
    ERR_pop_to_mark(); // what is not there is no error of the application
}

int software_prepare(void)
{
    return pthread_once(&software_once, software_load) == 0 ? software_error : -ENOMEM;
}

int software_init(enum algorithm_id algorithm, struct software *ret)
{
    const struct software_cipher *cipher = &software_ciphers[algorithm];
    int r = software_prepare();

    if (r < 0)
        return r;
    if (!cipher->newctx || !cipher->freectx || !cipher->encrypt_init || !cipher->decrypt_init ||
        !cipher->cipher)
        return -ENOTSUP;
    void *ctx = cipher->newctx(OSSL_PROVIDER_get0_provider_ctx(software_provider));
    if (!ctx)
        return -ENOMEM;
    *ret = (struct software){.cipher = cipher, .ctx = ctx};
    return 0;
}

void software_fini(struct software *software)
{
    if (software->ctx)
        software->cipher->freectx(software->ctx); // wipes
    *software = (struct software){.ctx = NULL};
}

int software_set(struct software *software, const uint8_t *key, const uint8_t *iv, bool encrypt,
                 unsigned skip)
{
    const struct software_cipher *cipher = software->cipher;
    uint8_t discard[64] = {0};
    int r = 0;

    OSSL_FUNC_cipher_encrypt_init_fn *init = encrypt ? cipher->encrypt_init : cipher->decrypt_init;
    if (init(software->ctx, key, key ? cipher->n_key : 0, iv, cipher->n_iv, NULL) != 1)
        return -EIO;
    if (skip > 0)
        r = software_crypt(software, discard, discard, skip);
    OPENSSL_cleanse(discard, sizeof discard); // keystream
    return r;
}

// The one-shot function: no padding, no buffering of partial blocks.
int software_crypt(struct software *software, uint8_t *out, const uint8_t *in, size_t n_bytes)
{
    size_t n_out = 0;

    if (software->cipher->cipher(software->ctx, out, &n_out, n_bytes, in, n_bytes) != 1 ||
        n_out != n_bytes)
        return -EIO;
    return 0;
}
