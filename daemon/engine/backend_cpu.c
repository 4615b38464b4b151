// SPDX-License-Identifier: MIT
// Backend "cpu": OpenSSL in the calling thread. Where there is no engine it serves the request
// lane; everywhere it is what the others are compared with. Guarantees: uses OpenSSL's default
// provider in a library context of its own, so no configuration of the machine (which may name
// cryptod's own provider) reaches it; opens no file after init. Must not know sockets or rings.
#include "backend.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// OpenSSL's assembly leaves what it had there: that of ChaCha20 for 32-bit x86 the whole key. Of a
// call of it, the stack below its caller.
#define STACK_USED 8192 // bytes; it needs about two thousand

struct backend {
    OSSL_LIB_CTX *library;
    OSSL_PROVIDER *provider;
    EVP_CIPHER *ciphers[ALGORITHM_COUNT];
};

// A cipher context with the key's schedule in it. One thread at a time uses it.
struct cpu_context {
    struct cpu_context *next;
    EVP_CIPHER_CTX *evp;
};

struct backend_key {
    const struct algorithm_info *info;
    const EVP_CIPHER *cipher;
    pthread_mutex_t mutex;
    struct cpu_context *idle[2]; // [encrypt]: both directions of CBC have schedules of their own
    uint8_t key[ALGORITHM_KEY_MAX];
};

static void cpu_fini(struct backend *backend)
{
    if (!backend)
        return;
    for (uint32_t i = 0; i < ALGORITHM_COUNT; i++)
        EVP_CIPHER_free(backend->ciphers[i]);
    if (backend->provider)
        OSSL_PROVIDER_unload(backend->provider);
    OSSL_LIB_CTX_free(backend->library);
    free(backend);
}

static int cpu_init(const struct backend_settings *settings, struct backend **ret)
{
    struct backend *backend;

    (void)settings;
    if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1)
        return -EIO;
    backend = calloc(1, sizeof(*backend));
    if (!backend)
        return -ENOMEM;
    backend->library = OSSL_LIB_CTX_new();
    if (backend->library)
        backend->provider = OSSL_PROVIDER_load(backend->library, "default");
    if (!backend->provider) {
        cpu_fini(backend);
        return -EIO;
    }
    for (uint32_t i = 0; i < ALGORITHM_COUNT; i++)
        backend->ciphers[i] =
            EVP_CIPHER_fetch(backend->library, algorithm_get(i)->openssl_name, NULL);
    *ret = backend;
    return 0;
}

static void cpu_probe(struct backend *backend, enum algorithm_id algorithm,
                      struct backend_probe *ret)
{
    *ret = (struct backend_probe){.error = 0, .makes = BACKEND_MAKES_KEYSTREAM};
    if (algorithm_get(algorithm)->mode == ALGORITHM_CBC)
        ret->makes = BACKEND_MAKES_REQUESTS;
    else if (algorithm_get(algorithm)->mode == ALGORITHM_CTR)
        ret->makes |= BACKEND_MAKES_REQUESTS;
    (void)snprintf(ret->driver, sizeof(ret->driver), "OpenSSL %s",
                   OpenSSL_version(OPENSSL_FULL_VERSION_STRING));
    if (!backend->ciphers[algorithm]) {
        ret->error = -ENOENT;
        (void)snprintf(ret->text, sizeof(ret->text), "OpenSSL does not have %s",
                       algorithm_get(algorithm)->openssl_name);
    }
}

static void context_free(struct cpu_context *context)
{
    EVP_CIPHER_CTX_free(context->evp);
    free(context);
}

static int context_new(const struct backend_key *key, bool encrypt, struct cpu_context **ret)
{
    struct cpu_context *context = calloc(1, sizeof(*context));

    if (!context)
        return -ENOMEM;
    context->evp = EVP_CIPHER_CTX_new();
    if (!context->evp ||
        !EVP_CipherInit_ex2(context->evp, key->cipher, key->key, NULL, encrypt, NULL) ||
        !EVP_CIPHER_CTX_set_padding(context->evp, 0)) {
        context_free(context);
        return -EIO;
    }
    *ret = context;
    return 0;
}

static int context_take(struct backend_key *key, bool encrypt, struct cpu_context **ret)
{
    struct cpu_context *context;

    pthread_mutex_lock(&key->mutex);
    context = key->idle[encrypt];
    if (context)
        key->idle[encrypt] = context->next;
    pthread_mutex_unlock(&key->mutex);
    if (!context)
        return context_new(key, encrypt, ret);
    *ret = context;
    return 0;
}

static void context_give_back(struct backend_key *key, bool encrypt, struct cpu_context *context)
{
    pthread_mutex_lock(&key->mutex);
    context->next = key->idle[encrypt];
    key->idle[encrypt] = context;
    pthread_mutex_unlock(&key->mutex);
}

static void cpu_close(struct backend_key *key)
{
    struct cpu_context *context;

    if (!key)
        return;
    for (int encrypt = 0; encrypt < 2; encrypt++) {
        while ((context = key->idle[encrypt])) {
            key->idle[encrypt] = context->next;
            context_free(context);
        }
    }
    pthread_mutex_destroy(&key->mutex);
    OPENSSL_cleanse(key, sizeof(*key));
    free(key);
}

static int cpu_open(struct backend *backend, enum algorithm_id algorithm, const uint8_t *bytes,
                    struct backend_key **ret)
{
    struct cpu_context *context;
    struct backend_key *key;
    int r;

    if (!backend->ciphers[algorithm])
        return -ENOENT;
    key = calloc(1, sizeof(*key));
    if (!key)
        return -ENOMEM;
    r = -pthread_mutex_init(&key->mutex, NULL);
    if (r < 0) {
        free(key);
        return r;
    }
    key->info = algorithm_get(algorithm);
    key->cipher = backend->ciphers[algorithm];
    memcpy(key->key, bytes, key->info->n_key);
    // A key that OpenSSL refuses must be refused here, and not at the first request.
    r = context_new(key, true, &context);
    if (r < 0) {
        cpu_close(key);
        return r;
    }
    context_give_back(key, true, context);
    *ret = key;
    return 0;
}

__attribute__((noinline)) static void stack_wipe(void)
{
    uint8_t used[STACK_USED];

    OPENSSL_cleanse(used, sizeof(used));
}

static int cpu_crypt(struct backend_key *key, bool encrypt, const uint8_t iv[ALGORITHM_IV_LEN_MAX],
                     uint8_t *out, const uint8_t *in, size_t n_bytes)
{
    struct cpu_context *context;
    int n_out = 0, r;

    if (n_bytes > INT32_MAX)
        return -EMSGSIZE;
    if (key->info->mode != ALGORITHM_CBC)
        encrypt = true; // one schedule serves both directions
    r = context_take(key, encrypt, &context);
    if (r < 0)
        return r;
    bool done = EVP_CipherInit_ex2(context->evp, NULL, NULL, iv, -1, NULL) &&
                EVP_CipherUpdate(context->evp, out, &n_out, in, (int)n_bytes) &&
                (size_t)n_out == n_bytes;
    stack_wipe();
    if (!done) {
        context_free(context);
        return -EIO;
    }
    context_give_back(key, encrypt, context);
    return 0;
}

static int cpu_keystream(struct backend_key *key, const uint8_t iv[ALGORITHM_IV_LEN_MAX],
                         uint8_t *out, size_t n_bytes)
{
    if (key->info->mode == ALGORITHM_CBC)
        return -EOPNOTSUPP;
    memset(out, 0, n_bytes);
    return cpu_crypt(key, true, iv, out, out, n_bytes);
}

const struct backend_ops backend_cpu_ops = {
    .name = "cpu",
    .init = cpu_init,
    .fini = cpu_fini,
    .probe = cpu_probe,
    .open = cpu_open,
    .crypt = cpu_crypt,
    .keystream = cpu_keystream,
    .close = cpu_close,
};
