// SPDX-License-Identifier: MIT
// Copies of contexts, in every state: each goes on as if it were alone. (OpenSSL's own callers
// copy, and offload libraries have given bad TLS signatures by getting it wrong.)
#include <criterion/criterion.h>
#include <openssl/err.h>
#include <string.h>

#include "fixture.h"
#include "provider_pair.h"
#include "provider_states.h"

#define N_COPIES 5

static struct fixture fixture;
static struct pair_world world;
static uint8_t data[PAIR_SIZE_MAX];

static void provider_copy_setup(void)
{
    uint64_t seed = 3;

    fixture_start(&fixture, NULL);
    pair_world_open(&world);
    pair_random_bytes(&seed, data, sizeof(data));
}

static void provider_copy_teardown(void)
{
    pair_world_close(&world);
    fixture_stop(&fixture);
}

TestSuite(provider_copy, .init = provider_copy_setup, .fini = provider_copy_teardown,
          .timeout = 300);

Test(provider_copy, of_a_context_without_a_cipher_is_refused)
{
    struct pair pair;

    pair_open(&pair, &world, "AES-128-CBC");
    pair_copy(&pair, true);
    cr_assert_null(EVP_CIPHER_CTX_get0_cipher(pair.ours));
    pair_close(&pair);
}

Test(provider_copy, in_every_state_goes_its_own_way)
{
    for (size_t i = 0; i < pair_n_names; i++)
        for (unsigned round = 0;; round++) {
            struct pair pairs[N_COPIES];
            for (size_t k = 0; k < N_COPIES; k++)
                pair_open(&pairs[k], &world, pair_names[i]);
            bool known = states_enter(&pairs[0], round / 2, round % 2, data);
            for (size_t k = 1; known && k < N_COPIES; k++)
                pair_copy_into(&pairs[k], &pairs[(k - 1) / 2]); // copies of copies too
            for (size_t k = N_COPIES; known && k-- > 0;)
                states_go_on(&pairs[k], 100 * (uint64_t)round + k, data);
            for (size_t k = 0; k < N_COPIES; k++)
                pair_close(&pairs[k]);
            if (!known)
                break;
        }
}

Test(provider_copy, over_a_context_in_use)
{
    for (size_t i = 0; i < pair_n_names; i++) {
        struct pair from, to;
        pair_open(&from, &world, pair_names[i]);
        pair_open(&to, &world, pair_names[i]);
        states_enter(&from, 6, 1, data);
        states_enter(&to, 9, 0, data);
        pair_copy_into(&to, &from);
        states_go_on(&to, 1, data);
        states_go_on(&from, 2, data);
        pair_close(&from);
        pair_close(&to);
    }
}

// More streams than a channel has: the rest stays in software.
Test(provider_copy, more_than_the_daemon_has_streams_for)
{
    enum { N = 40 };
    static struct pair pairs[N];

    for (int round = 0; round < 2; round++) {
        for (size_t k = 0; k < N; k++)
            pair_open(&pairs[k], &world, pair_names[k % pair_n_names]);
        for (size_t k = 0; k < N; k++)
            if (k < pair_n_names)
                states_enter(&pairs[k], 6, (int)(k & 1), data);
            else
                pair_copy_into(&pairs[k], &pairs[k % pair_n_names]);
        for (int turn = 0; turn < 4; turn++)
            for (size_t k = 0; k < N; k++)
                pair_update(&pairs[k], data + k, 30000 + k, PAIR_APART, k);
        for (size_t k = 0; k < N; k++)
            pair_close(&pairs[k]);
    }
}

// The copy must not follow what is written through the original's IV pointer, nor the other way
// round.
Test(provider_copy, has_an_iv_of_its_own)
{
    struct pair from, to;
    uint8_t *iv = NULL;
    OSSL_PARAM params[] = {
        OSSL_PARAM_octet_ptr("updated-iv", (void **)&iv, 16),
        OSSL_PARAM_END,
    };

    pair_open(&from, &world, "AES-256-CTR");
    pair_open(&to, &world, "AES-256-CTR");
    states_enter(&from, 7, 1, data);
    cr_assert_eq(EVP_CIPHER_CTX_get_params(from.ours, params), 1);
    pair_copy_into(&to, &from);
    memset(iv, 0x77, 16);
    states_go_on(&to, 5, data);
    pair_close(&from);
    pair_close(&to);
}
