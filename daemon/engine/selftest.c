// SPDX-License-Identifier: MIT
// Guarantees: 0 means that every byte of every request was right. Must not know what follows from a
// failure.
#include "selftest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SELFTEST_SIZE  65536u // bytes, the largest request
#define SELFTEST_ALIGN 4096u  // as the data slots are

struct side {
    const struct backend_ops *ops;
    struct backend_key *key;
    uint8_t *data;
};

struct selftest {
    const struct algorithm_info *info;
    uint32_t makes; // BACKEND_MAKES_*
    struct side tested;
    struct side reference;
};

// Reproducible bytes that no cipher is at home with.
static void fill(uint8_t *data, size_t n_bytes, uint32_t seed)
{
    for (size_t i = 0; i < n_bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (uint8_t)(seed >> 24);
    }
}

static int compare(struct selftest *test, bool encrypt, const uint8_t *iv, size_t n_bytes)
{
    struct side *tested = &test->tested, *reference = &test->reference;
    int r;

    fill(tested->data, n_bytes, (uint32_t)n_bytes);
    memcpy(reference->data, tested->data, n_bytes);
    r = tested->ops->crypt(tested->key, encrypt, iv, tested->data, tested->data, n_bytes);
    if (r == 0)
        r = reference->ops->crypt(reference->key, encrypt, iv, reference->data, reference->data,
                                  n_bytes);
    if (r == 0 && memcmp(tested->data, reference->data, n_bytes) != 0)
        r = -EBADMSG;
    return r;
}

static int compare_keystream(struct selftest *test, const uint8_t *iv, size_t n_bytes)
{
    struct side *tested = &test->tested, *reference = &test->reference;
    int r;

    memset(tested->data, 0xaa, n_bytes); // what is not written must show
    r = tested->ops->keystream(tested->key, iv, tested->data, n_bytes);
    if (r == 0)
        r = reference->ops->keystream(reference->key, iv, reference->data, n_bytes);
    if (r == 0 && memcmp(tested->data, reference->data, n_bytes) != 0)
        r = -EBADMSG;
    return r;
}

static int compare_requests(struct selftest *test, const uint8_t *iv, size_t n_bytes)
{
    int r = compare(test, true, iv, n_bytes);

    if (r == 0)
        r = compare(test, false, iv, n_bytes);
    if (r == 0 && test->info->n_block == 1)
        r = compare(test, true, iv, n_bytes - 5);
    return r;
}

static int compare_sizes(struct selftest *test)
{
    static const size_t n_blocks[] = {1, 2, 15, 255, 256, 257, 1024, SELFTEST_SIZE / 16};
    uint8_t iv[ALGORITHM_IV_LEN_MAX];
    int r = 0;

    for (size_t i = 0; r == 0 && i < sizeof(n_blocks) / sizeof(n_blocks[0]); i++) {
        const size_t n_bytes = n_blocks[i] * 16;

        // In turn a plain IV, and one whose last 4, 8 or 16 bytes carry within the request.
        fill(iv, sizeof(iv), (uint32_t)i);
        if (i % 4 != 0)
            memset(iv + sizeof(iv) - (2u << i % 4), 0xff, 2u << i % 4);
        if (test->makes & BACKEND_MAKES_REQUESTS)
            r = compare_requests(test, iv, n_bytes);
        if (r == 0 && test->makes & BACKEND_MAKES_KEYSTREAM)
            r = compare_keystream(test, iv, n_bytes);
    }
    return r;
}

static int compare_one(struct selftest *test)
{
    const uint8_t iv[ALGORITHM_IV_LEN_MAX] = {1, 2, 3};

    if (test->makes & BACKEND_MAKES_REQUESTS)
        return compare(test, true, iv, test->info->n_cipher_block);
    return compare_keystream(test, iv, test->info->n_cipher_block);
}

static int run(const struct backend_ops *ops, struct backend *backend,
               const struct backend_ops *reference_ops, struct backend *reference,
               const struct algorithm_info *info, uint32_t makes,
               int (*body)(struct selftest *test))
{
    struct selftest test = {
        .info = info, .makes = makes, .tested = {.ops = ops}, .reference = {.ops = reference_ops}};
    uint8_t key[ALGORITHM_KEY_MAX];
    int r;

    fill(key, sizeof(key), info->id);
    test.tested.data = aligned_alloc(SELFTEST_ALIGN, SELFTEST_SIZE);
    test.reference.data = aligned_alloc(SELFTEST_ALIGN, SELFTEST_SIZE);
    r = test.tested.data && test.reference.data ? 0 : -ENOMEM;
    if (r == 0)
        r = ops->open(backend, info->id, key, &test.tested.key);
    if (r == 0)
        r = reference_ops->open(reference, info->id, key, &test.reference.key);
    if (r == 0)
        r = body(&test);
    ops->close(test.tested.key);
    reference_ops->close(test.reference.key);
    free(test.tested.data);
    free(test.reference.data);
    return r;
}

int selftest_run(const struct backend_ops *ops, struct backend *backend,
                 const struct backend_ops *reference_ops, struct backend *reference,
                 const struct algorithm_info *info, uint32_t makes)
{
    return run(ops, backend, reference_ops, reference, info, makes, compare_sizes);
}

int selftest_run_one(const struct backend_ops *ops, struct backend *backend,
                     const struct backend_ops *reference_ops, struct backend *reference,
                     const struct algorithm_info *info, uint32_t makes)
{
    return run(ops, backend, reference_ops, reference, info, makes, compare_one);
}
