// SPDX-License-Identifier: MIT
// A key of a stream, set in a backend, and counted: a stream that is closed while a request with
// its key runs takes the key away from later requests only. Where keys have a room (key_room.h) an
// idle one may be taken out of the backend, and is set again by its next request; its bytes are
// kept for that, and wiped at the end. Knows nothing of channels and of shared memory. Thread-safe.
#ifndef CRYPTOD_DAEMON_KEYS_H
#define CRYPTOD_DAEMON_KEYS_H

#include "backend.h"
#include "key_room.h"
#include "statistics.h"
#include "verify.h"

struct key;

// Where keys of one (algorithm, backend) are set. All of it must outlive them.
struct key_source {
    const struct algorithm_info *info;
    const struct backend_ops *ops;
    struct backend *backend;
    const struct backend_ops *reference_ops; // OpenSSL, to compare with
    struct backend *reference;               // NULL: results are never compared
    struct statistics *statistics;
    struct verify_trust *trust;
    bool may_hang;         // a driver, and not this CPU's own code
    struct key_room *room; // of the driver; NULL: any number of keys can be set
    struct key_count *count;
};

// Sets the key (its length is the algorithm's) in the backend, and in the reference. 0; -EUSERS:
// there is no room, and nobody idle; -ETIMEDOUT: the driver does not come back, for a quarter of a
// second, or since somebody has waited for that already; or the backend's negative errno.
int key_open(const struct key_source *source, const uint8_t *bytes, struct key **ret);

struct key *key_ref(struct key *key);

// The last one has the backend's key closed, with a room by its keeper; not if the driver hangs:
// then what the kernel has of it stays until the process ends. Never waits. NULL is allowed.
void key_unref(struct key *key);

const struct algorithm_info *key_info(const struct key *key);
// The trust in who may hang with this key; NULL: nobody does.
struct verify_trust *key_trust(const struct key *key);

// One request, in place; counts it, and compares it if the verifier (NULL: none) chooses it. 0;
// -EKEYREVOKED: this backend has lost its trust, and OpenSSL's result was not at hand; -EUSERS: the
// key was taken out while it was idle, and there is no room now; or another negative errno. After
// an error data is undefined.
int key_crypt(struct key *key, struct verifier *verifier, bool encrypt,
              const uint8_t iv[ALGORITHM_IV_LEN_MAX], uint8_t *data, size_t n_bytes);

// n_bytes of keystream from this IV on, in the same way. -EOPNOTSUPP: the algorithm has none.
// *ret_rests_on: the trust without which the keystream is worth nothing; NULL: it was compared.
int key_keystream(struct key *key, struct verifier *verifier,
                  const uint8_t iv[ALGORITHM_IV_LEN_MAX], uint8_t *data, size_t n_bytes,
                  const struct verify_trust **ret_rests_on);

#endif
