// SPDX-License-Identifier: MIT
// The provider against OpenSSL's default provider, through the EVP functions, with a real daemon
// that takes every byte it can get (bulk_threshold=0, request_min=1).
#include <criterion/criterion.h>
#include <openssl/err.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "provider_pair.h"

static struct fixture fixture;
static struct pair_world world;

static void provider_setup(void)
{
    fixture_start(&fixture, NULL);
    pair_world_open(&world);
}

static void provider_teardown(void)
{
    pair_world_close(&world);
    fixture_stop(&fixture);
}

TestSuite(provider, .init = provider_setup, .fini = provider_teardown, .timeout = 300);

// ---------------------------------------------------------------- names and constants

static void same_param_list(const OSSL_PARAM *ours, const OSSL_PARAM *reference, const char *name)
{
    size_t n_ours = 0, n_reference = 0;

    cr_assert(ours != NULL && reference != NULL);
    for (; reference[n_reference].key != NULL; n_reference++) {
        const OSSL_PARAM *p = OSSL_PARAM_locate_const(ours, reference[n_reference].key);
        cr_assert_not_null(p, "%s: no parameter %s", name, reference[n_reference].key);
        cr_assert_eq(p->data_type, reference[n_reference].data_type, "%s: %s", name, p->key);
        cr_assert_eq(p->data_size, reference[n_reference].data_size, "%s: %s", name, p->key);
    }
    while (ours[n_ours].key != NULL)
        n_ours++;
    cr_assert_eq(n_ours, n_reference, "%s: %zu parameters, not %zu", name, n_ours, n_reference);
}

Test(provider, every_name_and_constant_is_the_default_providers)
{
    static const char *const names[] = {
        "AES-128-CBC",
        "AES128",
        "2.16.840.1.101.3.4.1.2",
        "aes-128-cbc",
        "AES-192-CBC",
        "AES192",
        "2.16.840.1.101.3.4.1.22",
        "AES-256-CBC",
        "AES256",
        "DES3",
        "2.16.840.1.101.3.4.1.42",
        "DES-EDE3-CBC",
        "AES-128-CTR",
        "id-aes128-CTR",
        "AES-192-CTR",
        "AES-256-CTR",
        "ChaCha20",
        "chacha20",
        "1.2.840.113549.3.7",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        EVP_CIPHER *ours = EVP_CIPHER_fetch(world.ours, names[i], NULL);
        EVP_CIPHER *reference = EVP_CIPHER_fetch(world.reference, names[i], NULL);
        cr_assert_eq(ours == NULL, reference == NULL, "%s", names[i]);
        if (reference == NULL)
            continue;
        cr_assert_str_eq(EVP_CIPHER_get0_name(ours), EVP_CIPHER_get0_name(reference));
        cr_assert_eq(EVP_CIPHER_get_flags(ours), EVP_CIPHER_get_flags(reference), "%s", names[i]);
        cr_assert_eq(EVP_CIPHER_get_mode(ours), EVP_CIPHER_get_mode(reference));
        cr_assert_eq(EVP_CIPHER_get_nid(ours), EVP_CIPHER_get_nid(reference));
        cr_assert_eq(EVP_CIPHER_get_block_size(ours), EVP_CIPHER_get_block_size(reference));
        cr_assert_eq(EVP_CIPHER_get_key_length(ours), EVP_CIPHER_get_key_length(reference));
        cr_assert_eq(EVP_CIPHER_get_iv_length(ours), EVP_CIPHER_get_iv_length(reference));
        same_param_list(EVP_CIPHER_gettable_params(ours), EVP_CIPHER_gettable_params(reference),
                        names[i]);
        same_param_list(EVP_CIPHER_gettable_ctx_params(ours),
                        EVP_CIPHER_gettable_ctx_params(reference), names[i]);
        same_param_list(EVP_CIPHER_settable_ctx_params(ours),
                        EVP_CIPHER_settable_ctx_params(reference), names[i]);
        EVP_CIPHER_free(ours);
        EVP_CIPHER_free(reference);
    }
}

static void refuse(EVP_CIPHER *cipher, void *arg)
{
    const char *name = EVP_CIPHER_get0_name(cipher);

    (*(size_t *)arg)++;
    for (size_t i = 0; i < pair_n_names; i++)
        if (strcmp(name, pair_names[i]) == 0)
            return;
    cr_assert_fail("%s is offered", name);
}

Test(provider, offers_these_ciphers_and_nothing_else)
{
    size_t n = 0;

    EVP_CIPHER_do_all_provided(world.ours, refuse, &n);
    cr_assert_eq(n, pair_n_names);
    cr_assert_null(EVP_MD_fetch(world.ours, "SHA256", NULL));
    cr_assert_null(EVP_MAC_fetch(world.ours, "HMAC", NULL));
    cr_assert_null(EVP_RAND_fetch(world.ours, "CTR-DRBG", NULL));
    ERR_clear_error();
}

// ---------------------------------------------------------------- random operations

static size_t random_length(uint64_t *seed, int n_block)
{
    static const int beside[] = {-16, -1, 0, 1, 16};
    uint32_t kind = pair_random(seed) % 10;

    if (kind < 3)
        return pair_random(seed) % 41;
    if (kind < 6)
        return (size_t)n_block * (pair_random(seed) % 300);
    if (kind < 9)
        return pair_random(seed) % 20000;
    return (size_t)65536 * (1 + pair_random(seed) % 3) + (size_t)beside[pair_random(seed) % 5];
}

struct random_run {
    struct pair pair;
    uint64_t seed;
    uint8_t *data;
    bool keyed;
};

// AES-CBC turned around without a key is undefined in the default provider (it keeps the other
// direction's key schedule), so the direction only changes together with the key there.
static void random_init(struct random_run *run)
{
    uint8_t key[32], iv[16];
    uint32_t kind = pair_random(&run->seed);
    bool with_key = kind & 1 || !run->keyed, with_iv = kind & 2, type = (kind & 28) == 0;
    bool free_direction = strstr(run->pair.name, "AES") == NULL || run->pair.n_block == 1;
    int encrypt = with_key || free_direction ? (int)(kind >> 5 & 1) : -1;

    pair_random_bytes(&run->seed, key, sizeof(key));
    pair_random_bytes(&run->seed, iv, sizeof(iv));
    if (type) // the context is emptied and filled again
        pair_start(&run->pair, with_key ? key : NULL, with_iv ? iv : NULL, encrypt);
    else
        pair_init(&run->pair, with_key ? key : NULL, with_iv ? iv : NULL, encrypt);
    run->keyed = with_key || (run->keyed && !type);
}

static void random_operation(struct random_run *run)
{
    struct pair *pair = &run->pair;
    uint32_t kind = pair_random(&run->seed) % 100, offset = pair_random(&run->seed);
    size_t n = random_length(&run->seed, pair->n_block);
    enum pair_place place = pair_random(&run->seed) % PAIR_N_PLACES;

    if (kind < 55)
        pair_update(pair, run->data + offset % 64, n, place, offset);
    else if (kind < 72)
        pair_cipher(pair, run->data + offset % 64, n - n % (size_t)pair->n_block, place, offset);
    else if (kind < 78)
        pair_final(pair);
    else if (kind < 84)
        pair_set_padding(pair, (int)(offset & 1));
    else if (kind < 90)
        pair_copy(pair, offset & 1);
    else if (kind < 92)
        pair_set_num(pair, (int)(offset % (unsigned)pair->n_block));
    else
        random_init(run);
}

static void random_operations(const char *name, uint64_t seed, unsigned n_operations)
{
    struct random_run run = {.seed = seed, .data = malloc(PAIR_SIZE_MAX)};

    cr_assert_not_null(run.data);
    pair_random_bytes(&run.seed, run.data, PAIR_SIZE_MAX);
    pair_open(&run.pair, &world, name);
    pair_copy(&run.pair, true); // refused: not initialised
    pair_start(&run.pair, NULL, NULL, 1);
    for (unsigned i = 0; i < n_operations; i++)
        random_operation(&run);
    pair_close(&run.pair);
    free(run.data);
}

static void random_runs(const char *name)
{
    uint64_t operations, bytes, operations_before, bytes_before;
    bool served;

    pair_served(name, &operations_before, &bytes_before);
    for (uint64_t seed = 1; seed <= 3; seed++)
        random_operations(name, seed, 400);
    if (strcmp(name, "ChaCha20") == 0)
        return; // stays in the process
    for (uint64_t seed = 4;; seed++) {
        pair_served(name, &operations, &bytes);
        served = operations > operations_before && bytes > bytes_before;
        if (served || seed > PAIR_REPEAT)
            break;
        random_operations(name, seed, 400);
    }
    cr_assert(served, "%s: the daemon did nothing", name);
}

#define RANDOM_TEST(name, algorithm)                                                               \
    Test(provider, name)                                                                           \
    {                                                                                              \
        random_runs(algorithm);                                                                    \
    }

RANDOM_TEST(random_operations_aes_128_cbc, "AES-128-CBC")
RANDOM_TEST(random_operations_aes_192_cbc, "AES-192-CBC")
RANDOM_TEST(random_operations_aes_256_cbc, "AES-256-CBC")
RANDOM_TEST(random_operations_aes_128_ctr, "AES-128-CTR")
RANDOM_TEST(random_operations_aes_192_ctr, "AES-192-CTR")
RANDOM_TEST(random_operations_aes_256_ctr, "AES-256-CTR")
RANDOM_TEST(random_operations_des_ede3_cbc, "DES-EDE3-CBC")
RANDOM_TEST(random_operations_chacha20, "ChaCha20")

// ---------------------------------------------------------------- threads

struct thread_run {
    pthread_t thread;
    const char *name;
    uint64_t seed;
};

static void *thread_main(void *arg)
{
    struct thread_run *run = arg;

    random_operations(run->name, run->seed, 300);
    return NULL;
}

Test(provider, eight_threads_at_once)
{
    struct thread_run runs[8];

    for (size_t i = 0; i < 8; i++) {
        runs[i].name = pair_names[i % 7]; // ChaCha20 stays in the process
        runs[i].seed = 1000 + i;
        cr_assert_eq(pthread_create(&runs[i].thread, NULL, thread_main, &runs[i]), 0);
    }
    for (size_t i = 0; i < 8; i++)
        cr_assert_eq(pthread_join(runs[i].thread, NULL), 0);
}
