// SPDX-License-Identifier: MIT
// The software lane: OpenSSL's default provider in a library context of our own, so that an
// application's configuration, providers and property strings never reach it, and so that it works
// inside a provider. Everything is fetched once; afterwards no file is opened and no lock of the
// application's context is taken. Knows nothing of streams and channels.
#ifndef CRYPTOD_CLIENT_SOFTWARE_H
#define CRYPTOD_CLIENT_SOFTWARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algorithm.h"

struct software; // a cipher context

// Loads everything, once. 0, or -ENOMEM, -ENOTSUP if OpenSSL's default provider does not load.
int software_prepare(void);

// A context without key. -ENOMEM; -ENOTSUP: OpenSSL does not have the algorithm.
int software_new(enum algorithm_id algorithm, struct software **ret);
void software_free(struct software *software);

// Goes to the place `skip` bytes (less than a cipher block) after the block that iv begins.
// key may be NULL if it and the direction are those of the last call. 0 or -EIO.
int software_set(struct software *software, const uint8_t *key, const uint8_t *iv, bool encrypt,
                 unsigned skip);

// 0 or -EIO. No padding, n_bytes as the algorithm demands.
int software_crypt(struct software *software, uint8_t *out, const uint8_t *in, size_t n_bytes);

#endif
