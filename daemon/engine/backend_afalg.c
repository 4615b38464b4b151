// SPDX-License-Identifier: MIT
// Backend "afalg": the kernel's symmetric ciphers through AF_ALG sockets, and so the machine's
// crypto engine if its driver has the highest priority.
//
// Guarantees: one request at a time on an operation socket; a socket that gave an error is never
// used again; no operation with a driver on the deny list; no socket leaves this file and
// kcapi_adapter.c. Must not know channels.
//
// Descriptors of a key: one for the transform, and three for each operation socket (libkcapi makes
// a pipe with each).
#include "backend.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "afalg_probe.h"
#include "ecb_counter.h"
#include "kcapi_adapter.h"

#define OPS_MAX 64u // operation sockets of a key

struct backend {
    char *deny;
    char *hung;
    void (*on_trial)(void *user, enum algorithm_id algorithm, const char *driver);
    void *user;
    uint32_t n_ops_max;
    bool by_ecb[ALGORITHM_COUNT]; // CTR keystream is made with ECB
};

struct operation {
    struct kcapi_handle *handle;
    bool busy;
    bool broken; // gave an error: to be replaced before it is used again
};

struct backend_key {
    const struct algorithm_info *info;
    pthread_mutex_t mutex; // what is in ops, and each making of a handle from another
    uint32_t n_ops;
    uint32_t n_ops_max;
    _Atomic bool ecb_has_iv; // the driver wants one where there is none to give
    struct operation ops[];  // the first n_ops have a handle
};

// ---------------------------------------------------------------- life

static void afalg_fini(struct backend *backend)
{
    if (!backend)
        return;
    free(backend->deny);
    free(backend->hung);
    free(backend);
}

static int afalg_init(const struct backend_settings *settings, struct backend **ret)
{
    struct backend *backend = calloc(1, sizeof(*backend));

    if (!backend)
        return -ENOMEM;
    backend->deny = strdup(settings->deny_drivers ? settings->deny_drivers : "");
    backend->hung = strdup(settings->hung_drivers ? settings->hung_drivers : "");
    if (!backend->deny || !backend->hung) {
        afalg_fini(backend);
        return -ENOMEM;
    }
    backend->on_trial = settings->on_trial;
    backend->user = settings->user;
    backend->n_ops_max = settings->workers < OPS_MAX ? settings->workers : OPS_MAX;
    kcapi_adapter_init();
    *ret = backend;
    return 0;
}

// ---------------------------------------------------------------- counter mode

// For engines without CTR the keystream is their ECB over the counter blocks.
#define ECB_OF(id_, n_key_)                                                                        \
    {                                                                                              \
        .id = (id_), .mode = ALGORITHM_CTR, .name = "ecb", .openssl_name = "",                     \
        .kernel_name = "ecb(aes)", .n_key = (n_key_), .n_iv = 0, .n_block = 16,                    \
        .n_cipher_block = 16,                                                                      \
    }
static const struct algorithm_info ecb_infos[] = {
    ECB_OF(ALGORITHM_AES_128_CTR, 16),
    ECB_OF(ALGORITHM_AES_192_CTR, 24),
    ECB_OF(ALGORITHM_AES_256_CTR, 32),
};

static const struct algorithm_info *ecb_info(enum algorithm_id algorithm)
{
    for (size_t i = 0; i < sizeof(ecb_infos) / sizeof(ecb_infos[0]); i++)
        if (ecb_infos[i].id == algorithm)
            return &ecb_infos[i];
    return NULL;
}

static void afalg_ops_probe(struct backend *backend, enum algorithm_id algorithm,
                            struct backend_probe *ret)
{
    const struct algorithm_info *ecb = ecb_info(algorithm);
    const struct afalg_probe_settings settings = {.deny = backend->deny,
                                                  .hung = backend->hung,
                                                  .on_trial = backend->on_trial,
                                                  .user = backend->user};
    struct backend_probe probe;

    backend->by_ecb[algorithm] = false;
    afalg_probe(algorithm_get(algorithm), &settings, ret);
    if (ret->error == 0) {
        ret->makes = BACKEND_MAKES_REQUESTS;
        if (algorithm_get(algorithm)->mode == ALGORITHM_CTR)
            ret->makes |= BACKEND_MAKES_KEYSTREAM;
        return;
    }
    if (!ecb)
        return;
    afalg_probe(ecb, &settings, &probe);
    if (probe.error < 0)
        return; // what is wrong with CTR itself says more
    probe.makes = BACKEND_MAKES_KEYSTREAM;
    (void)snprintf(probe.text, sizeof(probe.text), "from ecb(aes): %.100s", ret->text);
    *ret = probe;
    backend->by_ecb[algorithm] = true;
}

// ---------------------------------------------------------------- keys

static int afalg_open(struct backend *backend, enum algorithm_id algorithm, const uint8_t *bytes,
                      struct backend_key **ret)
{
    const struct algorithm_info *info =
        backend->by_ecb[algorithm] ? ecb_info(algorithm) : algorithm_get(algorithm);
    struct backend_key *key;
    int r;

    if (!info->kernel_name)
        return -EOPNOTSUPP;
    key = calloc(1, sizeof(*key) + backend->n_ops_max * sizeof(key->ops[0]));
    if (!key)
        return -ENOMEM;
    key->info = info;
    key->n_ops_max = backend->n_ops_max;
    r = -pthread_mutex_init(&key->mutex, NULL);
    if (r < 0) {
        free(key);
        return r;
    }
    r = kcapi_adapter_open(info, bytes, &key->ops[0].handle);
    if (r < 0) {
        pthread_mutex_destroy(&key->mutex);
        free(key);
        return r;
    }
    key->n_ops = 1;
    atomic_init(&key->ecb_has_iv, info->n_iv == 0 && kcapi_adapter_lists_iv(key->ops[0].handle));
    *ret = key;
    return 0;
}

static void afalg_close(struct backend_key *key)
{
    if (!key)
        return;
    for (uint32_t i = 0; i < key->n_ops; i++)
        kcapi_adapter_close(key->ops[i].handle);
    pthread_mutex_destroy(&key->mutex);
    free(key);
}

// ---------------------------------------------------------------- requests

// The pool grows to as many operation sockets as threads have ever used the key at once.
static int add_operation(struct backend_key *key, struct operation **ret)
{
    struct operation *operation = &key->ops[key->n_ops];
    int r;

    if (key->n_ops == key->n_ops_max)
        return -EBUSY;
    r = kcapi_adapter_reopen(key->ops[0].handle, &operation->handle);
    if (r < 0)
        return r;
    key->n_ops++;
    *ret = operation;
    return 0;
}

static int replace_handle(struct operation *operation)
{
    struct kcapi_handle *fresh;
    int r = kcapi_adapter_reopen(operation->handle, &fresh);

    if (r < 0)
        return r;
    kcapi_adapter_close(operation->handle);
    operation->handle = fresh;
    operation->broken = false;
    return 0;
}

static int take_operation(struct backend_key *key, struct operation **ret)
{
    struct operation *operation = NULL;
    int r = 0;

    pthread_mutex_lock(&key->mutex);
    for (uint32_t i = 0; i < key->n_ops && !operation; i++)
        if (!key->ops[i].busy)
            operation = &key->ops[i];
    if (!operation)
        r = add_operation(key, &operation);
    else if (operation->broken)
        r = replace_handle(operation);
    if (r == 0)
        operation->busy = true;
    pthread_mutex_unlock(&key->mutex);
    if (r < 0)
        return r;
    *ret = operation;
    return 0;
}

static void give_back_operation(struct backend_key *key, struct operation *operation, bool broken)
{
    pthread_mutex_lock(&key->mutex);
    operation->broken = broken;
    operation->busy = false;
    pthread_mutex_unlock(&key->mutex);
}

static int try_once(struct backend_key *key, bool encrypt, const uint8_t *iv, uint8_t *out,
                    const uint8_t *in, size_t n_bytes)
{
    struct operation *operation;
    int r = take_operation(key, &operation);

    if (r < 0)
        return r;
    r = kcapi_adapter_crypt(operation->handle, encrypt, iv, out, in, n_bytes);
    give_back_operation(key, operation, r < 0);
    return r;
}

// After an error once more, on a fresh socket, if the input is still there for certain. In place it
// may be half overwritten, except after EBUSY, which the kernel gives before it takes anything (and
// some kernels give falsely); then the caller, who has the input elsewhere, does it.
static int afalg_crypt(struct backend_key *key, bool encrypt,
                       const uint8_t iv[ALGORITHM_IV_LEN_MAX], uint8_t *out, const uint8_t *in,
                       size_t n_bytes)
{
    int r;

    if (n_bytes == 0 || n_bytes > AFALG_REQUEST_MAX)
        return -EMSGSIZE;
    if (key->info->n_iv == 0)
        return -EOPNOTSUPP; // ECB makes keystream only
    r = try_once(key, encrypt, iv, out, in, n_bytes);
    if (r < 0 && (out != in || r == -EBUSY))
        r = try_once(key, encrypt, iv, out, in, n_bytes);
    return r;
}

// ECB has no IV, so a driver gets none unless it lists one; but some refuse requests without one,
// and others one that they list.
static int try_keystream(struct backend_key *key, const uint8_t *iv, uint8_t *out, size_t n_bytes)
{
    static const uint8_t nothing[ALGORITHM_IV_LEN_MAX];
    static uint8_t zeroes[AFALG_REQUEST_MAX]; // never written: one page of memory, always in cache
    const bool has_iv = atomic_load_explicit(&key->ecb_has_iv, memory_order_relaxed);
    int r;

    if (key->info->n_iv > 0)
        return try_once(key, true, iv, out, zeroes, n_bytes);
    ecb_counter_fill(iv, out, n_bytes);
    r = try_once(key, true, has_iv ? nothing : NULL, out, out, n_bytes);
    if (r == -EINVAL)
        atomic_store_explicit(&key->ecb_has_iv, !has_iv, memory_order_relaxed);
    return r;
}

// The input can be made again, so an error is always followed by a second try.
static int afalg_keystream(struct backend_key *key, const uint8_t iv[ALGORITHM_IV_LEN_MAX],
                           uint8_t *out, size_t n_bytes)
{
    int r = -EIO;

    if (key->info->mode != ALGORITHM_CTR)
        return -EOPNOTSUPP;
    if (n_bytes == 0 || n_bytes > AFALG_REQUEST_MAX)
        return -EMSGSIZE;
    for (int i = 0; i < 2 && r < 0; i++)
        r = try_keystream(key, iv, out, n_bytes);
    return r;
}

const struct backend_ops backend_afalg_ops = {
    .name = "afalg",
    .init = afalg_init,
    .fini = afalg_fini,
    .probe = afalg_ops_probe,
    .open = afalg_open,
    .crypt = afalg_crypt,
    .keystream = afalg_keystream,
    .close = afalg_close,
};
