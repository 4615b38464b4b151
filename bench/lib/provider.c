// SPDX-License-Identifier: MIT
#include "provider.h"

#include <openssl/evp.h>
#include <stdint.h>
#include <stdlib.h>

#include "harness.h"

#define SETTLE_S 20.0

struct provider_cipher {
    EVP_CIPHER *cipher;
    EVP_CIPHER_CTX *context;
    enum cryptod_lane lane;
    size_t n_bytes;
    uint8_t *buffer;
};

// In place: the memory that is read and written does not differ from one figure to the next.
static void update(struct provider_cipher *cipher)
{
    int n = 0;
    if (EVP_EncryptUpdate(cipher->context, cipher->buffer, &n, cipher->buffer,
                          (int)cipher->n_bytes) != 1 ||
        n != (int)cipher->n_bytes)
        harness_die("the provider's update failed");
}

// Through the lane. The provider and this program have the library, and so its counters, in common.
static uint64_t lane_bytes(enum cryptod_lane lane)
{
    struct cryptod_counters counters;
    cryptod_counters_get(&counters);
    return lane == CRYPTOD_LANE_KEYSTREAM ? counters.keystream_bytes : counters.request_bytes;
}

// Until a whole run of updates has gone through it.
static void settle(struct provider_cipher *cipher)
{
    double start = harness_now();
    uint64_t before;
    do {
        if (harness_now() - start > SETTLE_S)
            harness_die("the provider's cipher got no lane of the daemon");
        before = lane_bytes(cipher->lane);
        for (int i = 0; i < 64; i++)
            update(cipher);
    } while (lane_bytes(cipher->lane) - before < 64 * cipher->n_bytes);
}

struct provider_cipher *provider_cipher_new(const char *name, enum cryptod_lane lane,
                                            size_t n_bytes)
{
    static const uint8_t key[32] = {42}, iv[16] = {7};
    struct provider_cipher *cipher = calloc(1, sizeof *cipher);
    if (cipher == NULL)
        harness_die("out of memory");
    cipher->lane = lane;
    cipher->n_bytes = n_bytes;
    cipher->buffer = aligned_alloc(64, (n_bytes + 63) / 64 * 64);
    cipher->context = EVP_CIPHER_CTX_new();
    cipher->cipher = EVP_CIPHER_fetch(NULL, name, "provider=cryptod");
    if (cipher->cipher == NULL)
        harness_die("the provider does not offer %s", name);
    if (cipher->buffer == NULL || cipher->context == NULL ||
        EVP_EncryptInit_ex2(cipher->context, cipher->cipher, key, iv, NULL) != 1)
        harness_die("the provider's %s cannot be set up", name);
    for (size_t i = 0; i < n_bytes; i++)
        cipher->buffer[i] = 7;
    settle(cipher);
    return cipher;
}

void provider_cipher_free(struct provider_cipher *cipher)
{
    if (cipher == NULL)
        return;
    EVP_CIPHER_CTX_free(cipher->context);
    EVP_CIPHER_free(cipher->cipher);
    free(cipher->buffer);
    free(cipher);
}

double provider_cipher_run(struct provider_cipher *cipher, unsigned n_updates)
{
    uint64_t before = lane_bytes(cipher->lane);
    double start = harness_now();
    for (unsigned i = 0; i < n_updates; i++)
        update(cipher);
    double seconds = harness_now() - start;
    double share =
        (double)(lane_bytes(cipher->lane) - before) / ((double)n_updates * (double)cipher->n_bytes);
    if (share < 0.99)
        harness_die("only %.1f %% went through the lane", share * 100);
    return seconds;
}
