// SPDX-License-Identifier: MIT
// Results in use, compared with OpenSSL's: which, how, and what a wrong one does to the trust in
// whoever gave it.
//
// A compared request is done in memory of the worker's own, from a copy of the input: a client that
// changes its shared memory meanwhile can neither hide a wrong result nor make a right one look
// wrong. Which requests are compared is up to a random generator of each worker, and so nothing
// that a client does; each key's first request is always one of them.
#ifndef CRYPTOD_DAEMON_VERIFY_H
#define CRYPTOD_DAEMON_VERIFY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "backend.h"

#define VERIFY_OFF 0u
#define VERIFY_ALL 1u // else: one of so many

// The operations that have a result.
enum verify_operation { VERIFY_ENCRYPT, VERIFY_DECRYPT, VERIFY_KEYSTREAM };

// The trust in one (algorithm, backend), shared by its keys. Zeroed: it is trusted.
struct verify_trust {
    _Atomic bool is_lost; // never comes back
    _Atomic bool hangs;   // lost because a request did not come back
    _Atomic uint64_t n_verified;
    _Atomic uint64_t n_mismatches;
    // The first mismatch, for the text: n_bytes << 2 | operation; 0: none.
    _Atomic uint64_t first;
};

static inline bool verify_is_lost(const struct verify_trust *trust)
{
    return atomic_load_explicit(&trust->is_lost, memory_order_acquire);
}

static inline bool verify_hangs(const struct verify_trust *trust)
{
    return atomic_load_explicit(&trust->hangs, memory_order_acquire);
}

// Takes the trust away from a driver that hangs.
void verify_lose_hung(struct verify_trust *trust);

// "in use (encrypt, 4096 bytes)", of the first mismatch.
void verify_describe(const struct verify_trust *trust, char *ret, size_t n_ret);

// One side of a comparison.
struct verify_side {
    const struct backend_ops *ops;
    struct backend_key *key;
};

struct verify_request {
    enum verify_operation operation;
    const uint8_t *iv;
    uint8_t *data;  // in and out; for keystream: out
    size_t n_bytes; // 64 KiB at most
};

// ---------------------------------------------------------------- a worker's means

struct verifier;

// rate: VERIFY_OFF, VERIFY_ALL or one of how many. lost: called, in the worker's thread, when trust
// was lost. Before the sandbox (getrandom). 0 or a negative errno.
int verifier_new(uint32_t rate, void (*lost)(void *user), void *user, struct verifier **ret);

// NULL is allowed.
void verifier_free(struct verifier *verifier);

// Whether the next request shall be compared; is_first: no request with its key was, so far.
// NULL: nothing is compared.
bool verifier_chooses(struct verifier *verifier, bool is_first);

// Does the request by both sides. 0: data has the right bytes, whatever `tested` said, and a
// mismatch has cost the trust; or what `tested` failed with, with data as it was.
int verifier_run(struct verifier *verifier, const struct verify_side *tested,
                 const struct verify_side *reference, const struct verify_request *request,
                 struct verify_trust *trust);

// The request by one side alone, in place; data is undefined after an error.
int verify_run_side(const struct verify_side *side, const struct verify_request *request);

#endif
