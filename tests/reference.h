// SPDX-License-Identifier: MIT
// What the right bytes are: OpenSSL's default provider, called the plain way. And what tests of
// ciphers need besides: repeatable random numbers, buffers that end at a page nobody may touch.
// Every function here fails the test (Criterion) instead of returning an error.
#ifndef CRYPTOD_TESTS_REFERENCE_H
#define CRYPTOD_TESTS_REFERENCE_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algorithm.h"

// A context of OpenSSL's, keyed, without padding. The caller frees it.
EVP_CIPHER_CTX *reference_new(enum algorithm_id algorithm, const uint8_t *key, const uint8_t *iv,
                              bool encrypt);

// The next n_bytes.
void reference_update(EVP_CIPHER_CTX *ctx, uint8_t *out, const uint8_t *in, size_t n_bytes);

// All of a message at once.
void reference_crypt(enum algorithm_id algorithm, const uint8_t *key, const uint8_t *iv,
                     bool encrypt, uint8_t *out, const uint8_t *in, size_t n_bytes);

// Numbers that repeat with the seed: $CRYPTOD_TEST_SEED, or a new one each time, which is logged.
struct reference_random {
    uint64_t state;
};
void reference_random_init(struct reference_random *random);
uint64_t reference_random_next(struct reference_random *random);
size_t reference_random_below(struct reference_random *random, size_t n); // n > 0
void reference_random_fill(struct reference_random *random, void *out, size_t n_bytes);

// n_bytes whose end is the end of a page before one that nobody may touch.
struct reference_guard {
    uint8_t *bytes;
    void *map;
    size_t n_map;
};
void reference_guard_new(struct reference_guard *guard, size_t n_bytes);
void reference_guard_free(struct reference_guard *guard);

#endif
