// SPDX-License-Identifier: MIT
// Comparison in use. Guarantees: nothing of a request is left in the worker's memory after it; what
// goes back to the client is OpenSSL's result. Must not know channels, nor what follows from a loss
// of trust.
#include "verify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define VERIFY_SIZE  65536u // bytes, the largest request
#define VERIFY_ALIGN 4096u  // as the data slots are, so that a driver sees what it always sees

struct verifier {
    uint32_t rate;
    uint64_t random; // xorshift64*: its state, never 0
    void (*lost)(void *user);
    void *user;
    uint8_t *work[2]; // the tested side's, and the reference's
};

int verifier_new(uint32_t rate, void (*lost)(void *user), void *user, struct verifier **ret)
{
    struct verifier *verifier = calloc(1, sizeof(*verifier));

    if (!verifier)
        return -ENOMEM;
    verifier->rate = rate;
    verifier->lost = lost;
    verifier->user = user;
    for (int i = 0; rate != VERIFY_OFF && i < 2; i++)
        verifier->work[i] = aligned_alloc(VERIFY_ALIGN, VERIFY_SIZE);
    if (rate != VERIFY_OFF && (!verifier->work[0] || !verifier->work[1])) {
        verifier_free(verifier);
        return -ENOMEM;
    }
    if (getrandom(&verifier->random, sizeof(verifier->random), 0) !=
        (ssize_t)sizeof(verifier->random)) {
        verifier_free(verifier);
        return -EIO;
    }
    verifier->random |= 1;
    *ret = verifier;
    return 0;
}

void verifier_free(struct verifier *verifier)
{
    if (!verifier)
        return;
    free(verifier->work[0]);
    free(verifier->work[1]);
    free(verifier);
}

static uint32_t next_random(struct verifier *verifier)
{
    uint64_t x = verifier->random;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    verifier->random = x;
    return (uint32_t)(x * UINT64_C(0x2545f4914f6cdd1d) >> 32);
}

bool verifier_chooses(struct verifier *verifier, bool is_first)
{
    if (!verifier || verifier->rate == VERIFY_OFF)
        return false;
    // Zero in one of `rate` cases: the upper half of a product with a random number of 32 bits.
    return is_first || (uint64_t)next_random(verifier) * verifier->rate >> 32 == 0;
}

int verify_run_side(const struct verify_side *side, const struct verify_request *request)
{
    if (request->operation == VERIFY_KEYSTREAM)
        return side->ops->keystream(side->key, request->iv, request->data, request->n_bytes);
    return side->ops->crypt(side->key, request->operation == VERIFY_ENCRYPT, request->iv,
                            request->data, request->data, request->n_bytes);
}

static void lose_trust(struct verifier *verifier, struct verify_trust *trust,
                       const struct verify_request *request)
{
    uint64_t none = 0;

    atomic_fetch_add_explicit(&trust->n_mismatches, 1, memory_order_relaxed);
    atomic_compare_exchange_strong(&trust->first, &none,
                                   (uint64_t)request->n_bytes << 2 | request->operation);
    if (!atomic_exchange(&trust->is_lost, true))
        verifier->lost(verifier->user);
}

void verify_lose_hung(struct verify_trust *trust)
{
    atomic_store(&trust->hangs, true);
    atomic_store(&trust->is_lost, true);
}

// An output that is not written at all must not look like the input, nor like what was there.
static void prepare(struct verifier *verifier, const struct verify_request *request)
{
    if (request->operation == VERIFY_KEYSTREAM) {
        memset(verifier->work[0], 0xa5, request->n_bytes);
        return;
    }
    memcpy(verifier->work[0], request->data, request->n_bytes);
    memcpy(verifier->work[1], verifier->work[0], request->n_bytes);
}

static int run_both(struct verifier *verifier, const struct verify_side *tested,
                    const struct verify_side *reference, const struct verify_request *request,
                    struct verify_trust *trust)
{
    struct verify_request work = *request;
    int r;

    prepare(verifier, request);
    work.data = verifier->work[0];
    r = verify_run_side(tested, &work);
    if (r < 0)
        return r;
    work.data = verifier->work[1];
    r = verify_run_side(reference, &work);
    if (r < 0) // OpenSSL is out of memory: there is nothing to compare with, and nothing to give
        return r;
    atomic_fetch_add_explicit(&trust->n_verified, 1, memory_order_relaxed);
    if (memcmp(verifier->work[0], verifier->work[1], request->n_bytes) != 0)
        lose_trust(verifier, trust, request);
    memcpy(request->data, verifier->work[1], request->n_bytes);
    return 0;
}

int verifier_run(struct verifier *verifier, const struct verify_side *tested,
                 const struct verify_side *reference, const struct verify_request *request,
                 struct verify_trust *trust)
{
    int r;

    if (request->n_bytes > VERIFY_SIZE)
        return -EMSGSIZE;
    r = run_both(verifier, tested, reference, request, trust);
    explicit_bzero(verifier->work[0], request->n_bytes);
    explicit_bzero(verifier->work[1], request->n_bytes);
    return r;
}

void verify_describe(const struct verify_trust *trust, char *ret, size_t n_ret)
{
    static const char *const names[] = {"encrypt", "decrypt", "keystream", "?"};
    const uint64_t first = atomic_load(&trust->first);

    (void)snprintf(ret, n_ret, "in use (%s, %u bytes)", names[first & 3], (unsigned)(first >> 2));
}
