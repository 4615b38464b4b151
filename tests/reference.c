// SPDX-License-Identifier: MIT
// The right bytes. See reference.h.
#include "reference.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

EVP_CIPHER_CTX *reference_new(enum algorithm_id algorithm, const uint8_t *key, const uint8_t *iv,
                              bool encrypt)
{
    EVP_CIPHER *cipher =
        EVP_CIPHER_fetch(NULL, algorithm_get(algorithm)->openssl_name, "provider=default");
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();

    cr_assert_not_null(cipher);
    cr_assert_not_null(ctx);
    cr_assert_eq(EVP_CipherInit_ex2(ctx, cipher, key, iv, encrypt, NULL), 1);
    cr_assert_eq(EVP_CIPHER_CTX_set_padding(ctx, 0), 1);
    EVP_CIPHER_free(cipher);
    return ctx;
}

void reference_update(EVP_CIPHER_CTX *ctx, uint8_t *out, const uint8_t *in, size_t n_bytes)
{
    const size_t most = (size_t)1 << 24; // EVP counts in int

    while (n_bytes > 0) {
        int n = (int)(n_bytes < most ? n_bytes : most), n_out = 0;
        cr_assert_eq(EVP_CipherUpdate(ctx, out, &n_out, in, n), 1);
        cr_assert_eq(n_out, n);
        out += n;
        in += n;
        n_bytes -= (size_t)n;
    }
}

void reference_crypt(enum algorithm_id algorithm, const uint8_t *key, const uint8_t *iv,
                     bool encrypt, uint8_t *out, const uint8_t *in, size_t n_bytes)
{
    EVP_CIPHER_CTX *ctx = reference_new(algorithm, key, iv, encrypt);

    reference_update(ctx, out, in, n_bytes);
    EVP_CIPHER_CTX_free(ctx);
}

void reference_random_init(struct reference_random *random)
{
    const char *given = getenv("CRYPTOD_TEST_SEED");

    if (given)
        random->state = strtoull(given, NULL, 0);
    else
        cr_assert_eq(getrandom(&random->state, sizeof random->state, 0),
                     (ssize_t)sizeof random->state);
    cr_log_info("CRYPTOD_TEST_SEED=%#llx", (unsigned long long)random->state);
}

// splitmix64: Sebastiano Vigna's, in the public domain.
uint64_t reference_random_next(struct reference_random *random)
{
    uint64_t z = (random->state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

size_t reference_random_below(struct reference_random *random, size_t n)
{
    return (size_t)(reference_random_next(random) % n);
}

void reference_random_fill(struct reference_random *random, void *out, size_t n_bytes)
{
    uint8_t *bytes = out;

    for (size_t i = 0; i < n_bytes; i += sizeof(uint64_t)) {
        uint64_t value = reference_random_next(random);
        memcpy(bytes + i, &value, n_bytes - i < sizeof value ? n_bytes - i : sizeof value);
    }
}

void reference_guard_new(struct reference_guard *guard, size_t n_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t n_used = (n_bytes + page - 1) / page * page;

    guard->n_map = n_used + page;
    guard->map =
        mmap(NULL, guard->n_map, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(guard->map, MAP_FAILED);
    cr_assert_eq(mprotect((uint8_t *)guard->map + n_used, page, PROT_NONE), 0);
    guard->bytes = (uint8_t *)guard->map + n_used - n_bytes;
}

void reference_guard_free(struct reference_guard *guard)
{
    munmap(guard->map, guard->n_map);
    guard->map = NULL;
    guard->bytes = NULL;
}
