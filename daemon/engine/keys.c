// SPDX-License-Identifier: MIT
// Guarantees: a backend's key is closed exactly once, and never while somebody uses it; a result
// of a backend that is not trusted any more is not given out. Must not know who looks for it.
#include "keys.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

struct key {
    _Atomic uint32_t n_refs;
    _Atomic bool was_compared;
    struct key_source source;
    struct verify_side tested;
    struct verify_side reference; // no key: never compared
};

int key_open(const struct key_source *source, const uint8_t *bytes, struct key **ret)
{
    struct key *key = calloc(1, sizeof(*key));
    int r;

    if (!key)
        return -ENOMEM;
    atomic_init(&key->n_refs, 1);
    key->source = *source;
    key->tested.ops = source->ops;
    key->reference.ops = source->reference_ops;
    r = source->ops->open(source->backend, source->info->id, bytes, &key->tested.key);
    if (r == 0 && source->reference) {
        r = source->reference_ops->open(source->reference, source->info->id, bytes,
                                        &key->reference.key);
        if (r < 0)
            source->ops->close(key->tested.key);
    }
    if (r < 0) {
        free(key);
        return r;
    }
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
    key->tested.ops->close(key->tested.key);
    if (key->reference.key)
        key->reference.ops->close(key->reference.key);
    free(key);
}

const struct algorithm_info *key_info(const struct key *key)
{
    return key->source.info;
}

static int run_compared(struct key *key, struct verifier *verifier,
                        const struct verify_request *request)
{
    int r = verifier_run(verifier, &key->tested, &key->reference, request, key->source.trust);

    if (r == 0)
        atomic_store_explicit(&key->was_compared, true, memory_order_relaxed);
    return r;
}

// Looked at before, so that a driver that is not trusted is not used, and after, because another
// worker may have found it out meanwhile.
static int run_alone(struct key *key, const struct verify_request *request)
{
    int r = verify_run_side(&key->tested, request);

    return r == 0 && verify_is_lost(key->source.trust) ? -EKEYREVOKED : r;
}

static bool is_chosen(struct key *key, struct verifier *verifier)
{
    return key->reference.key &&
           verifier_chooses(verifier,
                            !atomic_load_explicit(&key->was_compared, memory_order_relaxed));
}

static int run(struct key *key, struct verifier *verifier, const struct verify_request *request,
               const struct verify_trust **ret_rests_on)
{
    const struct verify_trust *rests_on = key->source.trust;
    int r;

    if (verify_is_lost(rests_on)) {
        r = -EKEYREVOKED;
    } else if (is_chosen(key, verifier)) {
        r = run_compared(key, verifier, request);
        rests_on = NULL;
    } else {
        r = run_alone(key, request);
    }
    if (r < 0) {
        statistics_add_error(key->source.statistics);
        return r;
    }
    statistics_add(key->source.statistics, request->n_bytes);
    *ret_rests_on = rests_on;
    return 0;
}

int key_crypt(struct key *key, struct verifier *verifier, bool encrypt,
              const uint8_t iv[ALGORITHM_IV_LEN_MAX], uint8_t *data, size_t n_bytes)
{
    const struct verify_trust *rests_on; // the caller gives the result away at once
    const struct verify_request request = {
        .operation = encrypt ? VERIFY_ENCRYPT : VERIFY_DECRYPT,
        .iv = iv,
        .data = data,
        .n_bytes = n_bytes,
    };

    return run(key, verifier, &request, &rests_on);
}

int key_keystream(struct key *key, struct verifier *verifier,
                  const uint8_t iv[ALGORITHM_IV_LEN_MAX], uint8_t *data, size_t n_bytes,
                  const struct verify_trust **ret_rests_on)
{
    const struct verify_request request = {
        .operation = VERIFY_KEYSTREAM, .iv = iv, .data = data, .n_bytes = n_bytes};

    if (!key->tested.ops->keystream)
        return -EOPNOTSUPP;
    return run(key, verifier, &request, ret_rests_on);
}
