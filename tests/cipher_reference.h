// SPDX-License-Identifier: MIT
// What OpenSSL, asked directly, makes of some bytes: the measure for backends.
#ifndef CRYPTOD_TESTS_CIPHER_REFERENCE_H
#define CRYPTOD_TESTS_CIPHER_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algorithm.h"

// Without padding. n_bytes is a multiple of the algorithm's block.
void cipher_reference(enum algorithm_id algorithm, bool encrypt, const uint8_t *key,
                      const uint8_t *iv, uint8_t *out, const uint8_t *in, size_t n_bytes);

// Reproducible bytes; another seed, others.
void cipher_reference_fill(uint8_t *data, size_t n_bytes, uint32_t seed);

#endif
