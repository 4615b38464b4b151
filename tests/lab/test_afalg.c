// SPDX-License-Identifier: MIT
// Backend afalg against OpenSSL, on a kernel that has AF_ALG; elsewhere everything here is skipped,
// with the reason.
#include "backend.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "afalg_rig.h"
#include "reference.h"
#include "selftest.h"
#include "fixture_proc.h"

TestSuite(afalg, .init = afalg_rig_setup, .fini = afalg_rig_teardown, .timeout = 300);

// ---------------------------------------------------------------- the bytes

Test(afalg, gives_the_bytes_of_openssl)
{
    static const size_t sizes[] = {1,     7,     8,     15,    16,    17,   24,
                                   48,    240,   1000,  4080,  4096,  4104, 4112,
                                   12288, 32768, 32784, 65528, 65535, 65536};

    for (enum algorithm_id algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        uint8_t bytes[ALGORITHM_KEY_MAX];
        struct backend_key *key;

        if (!afalg_rig_serves(algorithm))
            continue;
        key = afalg_rig_open(algorithm, bytes);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            if (sizes[i] % algorithm_get(algorithm)->n_block != 0)
                continue;
            for (int kind = 0; kind < 4; kind++)
                afalg_rig_compare(key, algorithm, bytes, kind & 1, sizes[i], kind & 2);
        }
        backend_afalg_ops.close(key);
    }
}

Test(afalg, passes_the_self_test)
{
    const struct backend_settings settings = {.workers = 1};
    struct backend *cpu = NULL;

    cr_assert_eq(backend_cpu_ops.init(&settings, &cpu), 0);
    for (enum algorithm_id algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++)
        if (afalg_rig_serves(algorithm)) {
            struct backend_probe probe;
            backend_afalg_ops.probe(afalg_rig_backend, algorithm, &probe);
            char text[SELFTEST_TEXT_MAX];
            cr_expect_eq(selftest_run(&backend_afalg_ops, afalg_rig_backend, &backend_cpu_ops, cpu,
                                      algorithm_get(algorithm), probe.makes, text),
                         0, "%s: %s", algorithm_get(algorithm)->name, text);
        }
    backend_cpu_ops.fini(cpu);
}

Test(afalg, carries_the_counter_over_all_its_bytes)
{
    uint8_t bytes[ALGORITHM_KEY_MAX], iv[16], data[256], want[256];
    struct backend_key *key = afalg_rig_open(ALGORITHM_AES_256_CTR, bytes);

    for (size_t n_ones = 1; n_ones <= sizeof(iv); n_ones++) {
        memset(iv, 0x5a, sizeof(iv));
        memset(iv + sizeof(iv) - n_ones, 0xff, n_ones);
        memset(data, 0, sizeof(data));
        reference_crypt(ALGORITHM_AES_256_CTR, bytes, iv, true, want, data, sizeof(data));
        cr_assert_eq(backend_afalg_ops.crypt(key, true, iv, data, data, sizeof(data)), 0);
        cr_expect_arr_eq(data, want, sizeof(data));
    }
    backend_afalg_ops.close(key);
}

Test(afalg, makes_keystream_of_ctr)
{
    uint8_t bytes[ALGORITHM_KEY_MAX], iv[16] = {5}, made[4099], want[4099] = {0};
    struct backend_key *ctr = afalg_rig_open(ALGORITHM_AES_128_CTR, bytes);

    reference_crypt(ALGORITHM_AES_128_CTR, bytes, iv, true, want, want, sizeof(want));
    cr_assert_eq(backend_afalg_ops.keystream(ctr, iv, made, sizeof(made)), 0);
    cr_expect_arr_eq(made, want, sizeof(made));
    backend_afalg_ops.close(ctr);
    struct backend_key *cbc = afalg_rig_open(ALGORITHM_AES_128_CBC, bytes);
    cr_expect_eq(backend_afalg_ops.keystream(cbc, iv, made, 4096), -EOPNOTSUPP);
    backend_afalg_ops.close(cbc);
}

// The same result into the same place again must not look like no result.
Test(afalg, gives_the_same_twice)
{
    uint8_t bytes[ALGORITHM_KEY_MAX], iv[16] = {1}, in[64] = {2}, out[64], want[64];
    struct backend_key *key = afalg_rig_open(ALGORITHM_AES_128_CBC, bytes);

    reference_crypt(ALGORITHM_AES_128_CBC, bytes, iv, true, want, in, sizeof(in));
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(backend_afalg_ops.crypt(key, true, iv, out, in, sizeof(in)), 0);
        cr_expect_arr_eq(out, want, sizeof(out));
    }
    backend_afalg_ops.close(key);
}

// ---------------------------------------------------------------- many at once

struct user {
    struct backend_key *key;
    uint64_t seed;
    bool right;
};

static void *use_key(void *arg)
{
    struct user *user = arg;
    static _Thread_local uint8_t plain[32768], data[32768];
    uint8_t iv[16];

    user->right = true;
    for (uint64_t i = 0; i < 50; i++) {
        const size_t n_bytes = 16 + (i * 656) % (sizeof(data) - 16) / 16 * 16;

        afalg_rig_fill(plain, n_bytes, user->seed + i);
        afalg_rig_fill(iv, sizeof(iv), user->seed * 3 + i);
        if (backend_afalg_ops.crypt(user->key, true, iv, data, plain, n_bytes) != 0 ||
            backend_afalg_ops.crypt(user->key, false, iv, data, data, n_bytes) != 0 ||
            memcmp(data, plain, n_bytes) != 0)
            user->right = false;
    }
    return NULL;
}

Test(afalg, serves_one_key_in_several_threads)
{
    const size_t n_before = fixture_proc_count_descriptors(getpid());
    uint8_t bytes[ALGORITHM_KEY_MAX];
    struct backend_key *key = afalg_rig_open(ALGORITHM_AES_128_CBC, bytes);
    struct user users[4];
    pthread_t threads[4];

    for (uint32_t i = 0; i < 4; i++) {
        users[i] = (struct user){.key = key, .seed = i * 1000};
        cr_assert_eq(pthread_create(&threads[i], NULL, use_key, &users[i]), 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        cr_expect(users[i].right);
    }
    // A transform, and three a thread at most.
    cr_expect_leq(fixture_proc_count_descriptors(getpid()), n_before + 1 + 3 * 4);
    backend_afalg_ops.close(key);
    cr_expect_eq(fixture_proc_count_descriptors(getpid()), n_before);
}

Test(afalg, gives_the_descriptors_of_many_keys_back)
{
    const size_t n_before = fixture_proc_count_descriptors(getpid());
    struct backend_key *keys[64];
    uint8_t bytes[ALGORITHM_KEY_MAX];

    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 64; i++) {
            keys[i] = afalg_rig_open(ALGORITHM_AES_256_CBC, bytes);
            afalg_rig_compare(keys[i], ALGORITHM_AES_256_CBC, bytes, true, 32, true);
        }
        for (size_t i = 0; i < 64; i++)
            backend_afalg_ops.close(keys[i]);
        cr_expect_eq(fixture_proc_count_descriptors(getpid()), n_before);
    }
}
