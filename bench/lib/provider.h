// SPDX-License-Identifier: MIT
// Encryption as a program does it: EVP updates, by OpenSSL's provider cryptod (which OPENSSL_CONF
// must configure). Dies when that cipher cannot be had, or when the daemon is not what did the
// work.
#ifndef CRYPTOD_BENCH_PROVIDER_H
#define CRYPTOD_BENCH_PROVIDER_H

#include <stddef.h>

#include "cryptod.h"

struct provider_cipher;

// The provider's cipher ("AES-128-CTR"), that has its lane (which takes some updates). n_bytes: of
// an update.
struct provider_cipher *provider_cipher_new(const char *name, enum cryptod_lane lane,
                                            size_t n_bytes);
void provider_cipher_free(struct provider_cipher *cipher);

// n_updates of them. At least 99 % of the bytes must have gone through the lane. Returns how long
// it took, in seconds.
double provider_cipher_run(struct provider_cipher *cipher, unsigned n_updates);

#endif
