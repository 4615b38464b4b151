// SPDX-License-Identifier: MIT
// Guarantees: a backend's key is closed exactly once, and never while somebody uses it.
#include "keys.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

struct key {
    _Atomic uint32_t n_refs;
    const struct backend_ops *ops;
    const struct algorithm_info *info;
    struct statistics *statistics;
    struct backend_key *handle;
};

int key_open(const struct backend_ops *ops, struct backend *backend,
             const struct algorithm_info *info, const uint8_t *bytes, struct statistics *statistics,
             struct key **ret)
{
    struct key *key = calloc(1, sizeof(*key));
    int r;

    if (!key)
        return -ENOMEM;
    r = ops->open(backend, info->id, bytes, &key->handle);
    if (r < 0) {
        free(key);
        return r;
    }
    atomic_init(&key->n_refs, 1);
    key->ops = ops;
    key->info = info;
    key->statistics = statistics;
    *ret = key;
    return 0;
}

struct key *key_ref(struct key *key)
{
    atomic_fetch_add_explicit(&key->n_refs, 1, memory_order_relaxed);
    return key;
}

void key_unref(struct key *key)
{
    if (!key || atomic_fetch_sub_explicit(&key->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    key->ops->close(key->handle);
    free(key);
}

const struct algorithm_info *key_info(const struct key *key)
{
    return key->info;
}

static int count(struct key *key, size_t n_bytes, int r)
{
    if (r < 0)
        statistics_add_error(key->statistics);
    else
        statistics_add(key->statistics, n_bytes);
    return r;
}

int key_crypt(struct key *key, bool encrypt, const uint8_t iv[ALGORITHM_IV_LEN_MAX], uint8_t *data,
              size_t n_bytes)
{
    return count(key, n_bytes, key->ops->crypt(key->handle, encrypt, iv, data, data, n_bytes));
}

int key_keystream(struct key *key, const uint8_t iv[ALGORITHM_IV_LEN_MAX], uint8_t *data,
                  size_t n_bytes)
{
    if (!key->ops->keystream)
        return -EOPNOTSUPP;
    return count(key, n_bytes, key->ops->keystream(key->handle, iv, data, n_bytes));
}
