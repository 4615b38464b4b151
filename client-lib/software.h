// SPDX-License-Identifier: MIT
// The software lane: the ciphers of OpenSSL's default provider, in a library context of our own.
//
// Guarantees: an application's configuration, providers, engines and property strings never reach
// it; it works inside a provider; after software_prepare() it opens no file and takes no lock.
// Knows nothing of streams and channels.
#ifndef CRYPTOD_CLIENT_SOFTWARE_H
#define CRYPTOD_CLIENT_SOFTWARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algorithm.h"

// A cipher context; embedded, one owner.
struct software {
    const struct software_cipher *cipher;
    void *ctx;
};

// Loads everything, once. 0, or -ENOMEM, -ENOTSUP if OpenSSL's default provider does not load.
int software_prepare(void);

// A context without key. 0, -ENOMEM, or -ENOTSUP: OpenSSL does not have the algorithm.
int software_init(enum algorithm_id algorithm, struct software *ret);
void software_fini(struct software *software);

// Goes to the place `skip` bytes (less than a cipher block) after the block that iv begins.
// key may be NULL if it and the direction are those of the last call. 0 or -EIO.
int software_set(struct software *software, const uint8_t *key, const uint8_t *iv, bool encrypt,
                 unsigned skip);

// n_bytes as the algorithm demands, without padding. 0 or -EIO.
int software_crypt(struct software *software, uint8_t *out, const uint8_t *in, size_t n_bytes);

#endif
