// SPDX-License-Identifier: MIT
// Backend cpu against OpenSSL asked directly: every algorithm, direction, size, in place and not,
// several threads.
#include "backend.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "reference.h"

static const struct backend_ops *const ops = &backend_cpu_ops;
static struct backend *backend;

static void setup(void)
{
    const struct backend_settings settings = {.workers = 4};

    cr_assert_eq(ops->init(&settings, &backend), 0);
}

static void teardown(void)
{
    ops->fini(backend);
}

TestSuite(backend_cpu, .init = setup, .fini = teardown, .timeout = 120);

// Reproducible bytes; another seed, others.
static void fill(uint8_t *data, size_t n_bytes, uint64_t seed)
{
    struct reference_random random = {.state = seed};

    reference_random_fill(&random, data, n_bytes);
}

static struct backend_key *open_key(enum algorithm_id algorithm, uint8_t key[ALGORITHM_KEY_MAX])
{
    struct backend_key *handle = NULL;

    fill(key, ALGORITHM_KEY_MAX, algorithm + 1);
    cr_assert_eq(ops->open(backend, algorithm, key, &handle), 0);
    return handle;
}

static void compare(struct backend_key *handle, enum algorithm_id algorithm, const uint8_t *key,
                    bool encrypt, size_t n_bytes, bool in_place)
{
    uint8_t *in = malloc(n_bytes), *out = malloc(n_bytes), *want = malloc(n_bytes);
    uint8_t iv[ALGORITHM_IV_LEN_MAX];

    cr_assert(in && out && want);
    fill(in, n_bytes, (uint32_t)n_bytes);
    fill(iv, sizeof(iv), (uint32_t)n_bytes + encrypt);
    reference_crypt(algorithm, key, iv, encrypt, want, in, n_bytes);
    memcpy(out, in, n_bytes);
    cr_assert_eq(ops->crypt(handle, encrypt, iv, out, in_place ? out : in, n_bytes), 0);
    cr_expect_eq(memcmp(out, want, n_bytes), 0, "%s, %s, %zu bytes", algorithm_get(algorithm)->name,
                 encrypt ? "encrypt" : "decrypt", n_bytes);
    free(in);
    free(out);
    free(want);
}

Test(backend_cpu, gives_the_bytes_of_openssl)
{
    static const size_t sizes[] = {1,    7,    8,    15,   16,    17,    48,    240,
                                   1000, 4096, 4104, 4112, 32768, 32784, 65528, 65536};

    for (enum algorithm_id algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        uint8_t key[ALGORITHM_KEY_MAX];
        struct backend_key *handle = open_key(algorithm, key);

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            if (sizes[i] % algorithm_get(algorithm)->n_block != 0)
                continue;
            // Both directions in turn with one key: neither may disturb the other.
            compare(handle, algorithm, key, true, sizes[i], true);
            compare(handle, algorithm, key, false, sizes[i], true);
            compare(handle, algorithm, key, true, sizes[i], false);
            compare(handle, algorithm, key, false, sizes[i], false);
        }
        ops->close(handle);
    }
}

Test(backend_cpu, carries_the_counter_over_all_its_bytes)
{
    uint8_t key[ALGORITHM_KEY_MAX], iv[16], data[256], want[256];
    struct backend_key *handle = open_key(ALGORITHM_AES_128_CTR, key);

    for (size_t n_ones = 1; n_ones <= sizeof(iv); n_ones++) {
        memset(iv, 0x5a, sizeof(iv));
        memset(iv + sizeof(iv) - n_ones, 0xff, n_ones);
        memset(data, 0, sizeof(data));
        reference_crypt(ALGORITHM_AES_128_CTR, key, iv, true, want, data, sizeof(data));
        cr_assert_eq(ops->crypt(handle, true, iv, data, data, sizeof(data)), 0);
        cr_expect_arr_eq(data, want, sizeof(data));
    }
    ops->close(handle);
}

Test(backend_cpu, makes_keystream_of_stream_ciphers_only)
{
    for (enum algorithm_id algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        uint8_t key[ALGORITHM_KEY_MAX], iv[ALGORITHM_IV_LEN_MAX] = {3}, made[1000],
                                        want[1000] = {0};
        struct backend_key *handle = open_key(algorithm, key);
        int r = ops->keystream(handle, iv, made, sizeof(made));

        if (algorithm_get(algorithm)->mode == ALGORITHM_CBC) {
            cr_expect_eq(r, -EOPNOTSUPP);
        } else {
            cr_expect_eq(r, 0);
            reference_crypt(algorithm, key, iv, true, want, want, sizeof(want));
            cr_expect_arr_eq(made, want, sizeof(made));
        }
        ops->close(handle);
    }
}

Test(backend_cpu, refuses_a_part_of_a_block)
{
    uint8_t key[ALGORITHM_KEY_MAX], iv[16] = {0}, data[64] = {0};
    struct backend_key *handle = open_key(ALGORITHM_AES_256_CBC, key);

    cr_expect_eq(ops->crypt(handle, true, iv, data, data, 17), -EIO);
    // And the key is as good as before.
    compare(handle, ALGORITHM_AES_256_CBC, key, true, 64, true);
    ops->close(handle);
}

Test(backend_cpu, says_what_it_is)
{
    for (enum algorithm_id algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        struct backend_probe probe;

        ops->probe(backend, algorithm, &probe);
        cr_expect_eq(probe.error, 0);
        cr_expect_not(probe.hardware);
        cr_expect_eq(strncmp(probe.driver, "OpenSSL ", 8), 0);
        cr_expect_str_eq(probe.text, "");
    }
}

// A configuration that asks for another provider, as the one that names cryptod's own would.
Test(backend_cpu, does_not_read_the_machines_configuration)
{
    static const char text[] =
        "openssl_conf = a\n[a]\nproviders = b\nalg_section = d\n[b]\n"
        "base = c\n[c]\nactivate = 1\n[d]\ndefault_properties = provider=base\n";
    const struct backend_settings settings = {.workers = 1};
    int fd = memfd_create("openssl.cnf", 0);
    struct backend *other = NULL;
    struct backend_probe probe;
    char path[64];

    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    setenv("OPENSSL_CONF", path, 1);
    cr_assert_eq(ops->init(&settings, &other), 0);
    ops->probe(other, ALGORITHM_AES_128_CBC, &probe);
    cr_expect_eq(probe.error, 0);
    ops->fini(other);
    // It was a configuration that does harm.
    cr_assert(OSSL_LIB_CTX_load_config(NULL, path));
    cr_expect_null(EVP_CIPHER_fetch(NULL, "AES-128-CBC", NULL));
    close(fd);
}

struct user {
    struct backend_key *handle;
    const uint8_t *key;
    uint32_t seed;
    bool right;
};

static void *use_key(void *arg)
{
    struct user *user = arg;
    uint8_t iv[16], data[4096], plain[4096];

    user->right = true;
    for (uint32_t i = 0; i < 300; i++) {
        fill(plain, sizeof(plain), user->seed + i);
        fill(iv, sizeof(iv), user->seed * 3 + i);
        if (ops->crypt(user->handle, true, iv, data, plain, sizeof(plain)) != 0 ||
            ops->crypt(user->handle, false, iv, data, data, sizeof(data)) != 0 ||
            memcmp(data, plain, sizeof(data)) != 0)
            user->right = false;
    }
    return NULL;
}

Test(backend_cpu, serves_one_key_in_several_threads)
{
    uint8_t key[ALGORITHM_KEY_MAX];
    struct backend_key *handle = open_key(ALGORITHM_AES_192_CBC, key);
    struct user users[4];
    pthread_t threads[4];

    for (uint32_t i = 0; i < 4; i++) {
        users[i] = (struct user){.handle = handle, .key = key, .seed = i * 1000};
        cr_assert_eq(pthread_create(&threads[i], NULL, use_key, &users[i]), 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        cr_expect(users[i].right);
    }
    ops->close(handle);
}
