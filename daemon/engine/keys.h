// SPDX-License-Identifier: MIT
// A key of a stream, set in a backend, and counted: a stream that is closed while a request with
// its key runs takes the key away from later requests only. Knows nothing of channels and of shared
// memory. Thread-safe.
#ifndef CRYPTOD_DAEMON_KEYS_H
#define CRYPTOD_DAEMON_KEYS_H

#include "backend.h"
#include "statistics.h"

struct key;

// Sets the key (its length is the algorithm's) in the backend. The statistics of (algorithm,
// backend) must outlive it. 0 or the backend's negative errno.
int key_open(const struct backend_ops *ops, struct backend *backend,
             const struct algorithm_info *info, const uint8_t *bytes, struct statistics *statistics,
             struct key **ret);

struct key *key_ref(struct key *key);

// The last one closes the backend's key. NULL is allowed.
void key_unref(struct key *key);

const struct algorithm_info *key_info(const struct key *key);

// One request, in place; counts it. 0 or a negative errno, after which data is undefined.
int key_crypt(struct key *key, bool encrypt, const uint8_t iv[ALGORITHM_IV_LEN_MAX], uint8_t *data,
              size_t n_bytes);

// n_bytes of keystream from this IV on; counts it. 0; -EOPNOTSUPP: the algorithm has none; or
// another negative errno.
int key_keystream(struct key *key, const uint8_t iv[ALGORITHM_IV_LEN_MAX], uint8_t *data,
                  size_t n_bytes);

#endif
