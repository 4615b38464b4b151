// SPDX-License-Identifier: MIT
// See provider_pair.h.
#include "provider_pair.h"

#include <criterion/criterion.h>
#include <libgen.h>
#include <limits.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cryptod.h"
#include "fixture.h"

const char *const pair_names[] = {"AES-128-CBC", "AES-192-CBC", "AES-256-CBC",  "AES-128-CTR",
                                  "AES-192-CTR", "AES-256-CTR", "DES-EDE3-CBC", "ChaCha20"};
const size_t pair_n_names = sizeof(pair_names) / sizeof(pair_names[0]);

// ---------------------------------------------------------------- random numbers

uint32_t pair_random(uint64_t *seed)
{
    uint64_t x = *seed += 0x9e3779b97f4a7c15u; // splitmix64

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((x ^ (x >> 31)) >> 16);
}

void pair_random_bytes(uint64_t *seed, void *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)out)[i] = (uint8_t)pair_random(seed);
}

// ---------------------------------------------------------------- library contexts

const char *pair_modules_folder(void)
{
    static char folder[PATH_MAX];
    char path[PATH_MAX];

    cr_assert_not_null(realpath(fixture_built("cryptod.so"), path), "no built provider");
    snprintf(folder, sizeof(folder), "%s", dirname(path));
    return folder;
}

void pair_world_open(struct pair_world *world)
{
    world->ours = OSSL_LIB_CTX_new();
    world->reference = OSSL_LIB_CTX_new();
    cr_assert_eq(OSSL_PROVIDER_set_default_search_path(world->ours, pair_modules_folder()), 1);
    world->provider = OSSL_PROVIDER_load(world->ours, "cryptod");
    cr_assert_not_null(world->provider, "%s", ERR_error_string(ERR_peek_last_error(), NULL));
    world->default_provider = OSSL_PROVIDER_load(world->reference, "default");
    cr_assert_not_null(world->default_provider);
}

void pair_world_close(struct pair_world *world)
{
    OSSL_PROVIDER_unload(world->provider);
    OSSL_PROVIDER_unload(world->default_provider);
    OSSL_LIB_CTX_free(world->ours);
    OSSL_LIB_CTX_free(world->reference);
}

// ---------------------------------------------------------------- contexts

void pair_open(struct pair *pair, const struct pair_world *world, const char *name)
{
    const size_t n_page = (size_t)sysconf(_SC_PAGESIZE), n_arena = 2 * PAIR_SIZE_MAX + n_page;

    pair->name = name;
    pair->cipher = EVP_CIPHER_fetch(world->ours, name, NULL);
    cr_assert_not_null(pair->cipher, "%s is not offered", name);
    pair->reference_cipher = EVP_CIPHER_fetch(world->reference, name, NULL);
    cr_assert_not_null(pair->reference_cipher);
    cr_assert_str_eq(OSSL_PROVIDER_get0_name(EVP_CIPHER_get0_provider(pair->cipher)), "cryptod");
    pair->ours = EVP_CIPHER_CTX_new();
    pair->reference = EVP_CIPHER_CTX_new();
    pair->n_block = EVP_CIPHER_get_block_size(pair->reference_cipher);
    pair->n_key = EVP_CIPHER_get_key_length(pair->reference_cipher);
    pair->n_iv = EVP_CIPHER_get_iv_length(pair->reference_cipher);
    pair->arena =
        mmap(NULL, n_arena + n_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq((void *)pair->arena, MAP_FAILED);
    pair->arena_end = pair->arena + n_arena;
    cr_assert_eq(mprotect(pair->arena_end, n_page, PROT_NONE), 0);
    pair->input = malloc(PAIR_SIZE_MAX);
    pair->output = malloc(PAIR_SIZE_MAX + EVP_MAX_BLOCK_LENGTH);
    cr_assert(pair->input != NULL && pair->output != NULL);
}

void pair_close(struct pair *pair)
{
    EVP_CIPHER_CTX_free(pair->ours);
    EVP_CIPHER_CTX_free(pair->reference);
    EVP_CIPHER_free(pair->cipher);
    EVP_CIPHER_free(pair->reference_cipher);
    munmap(pair->arena, (size_t)(pair->arena_end - pair->arena) + (size_t)sysconf(_SC_PAGESIZE));
    free(pair->input);
    free(pair->output);
}

// ---------------------------------------------------------------- comparing

struct pair_result {
    int ret;
    int failure; // what ret is after a failure
    int n;
    unsigned long error; // the first on the error stack
};

#define PAIR_CALL(result, call)                                                                    \
    do {                                                                                           \
        ERR_clear_error();                                                                         \
        (result).ret = (call);                                                                     \
        (result).error = ERR_peek_error();                                                         \
    } while (0)

static void pair_compare(const struct pair *pair, const char *what, const struct pair_result *ours,
                         const struct pair_result *reference)
{
    cr_assert_eq(ours->ret, reference->ret, "%s: %s returns %d, not %d", pair->name, what,
                 ours->ret, reference->ret);
    cr_assert_eq(ours->n, reference->n, "%s: %s gives %d bytes, not %d", pair->name, what, ours->n,
                 reference->n);
    cr_assert(ERR_GET_LIB(ours->error) == ERR_GET_LIB(reference->error) &&
                  ERR_GET_REASON(ours->error) == ERR_GET_REASON(reference->error),
              "%s: %s fails with %lx (%s), not %lx (%s)", pair->name, what, ours->error,
              ERR_reason_error_string(ours->error), reference->error,
              ERR_reason_error_string(reference->error));
    if (ours->ret == ours->failure)
        cr_assert_not_null(ERR_reason_error_string(ours->error), "%s: %s fails without a text",
                           pair->name, what);
    ERR_clear_error();
}

struct pair_state {
    size_t n_key, n_iv;
    unsigned padding;
    uint8_t iv[16], updated_iv[16];
    int results[4];
};

static void pair_read_state(EVP_CIPHER_CTX *ctx, struct pair_state *state)
{
    memset(state, 0xa5, sizeof(*state));
    OSSL_PARAM params[] = {
        OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_KEYLEN, &state->n_key),
        OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_IVLEN, &state->n_iv),
        OSSL_PARAM_uint(OSSL_CIPHER_PARAM_PADDING, &state->padding),
        OSSL_PARAM_END,
    };
    state->results[0] = EVP_CIPHER_CTX_get_params(ctx, params);
    state->results[1] = EVP_CIPHER_CTX_get_original_iv(ctx, state->iv, sizeof(state->iv));
    state->results[2] =
        EVP_CIPHER_CTX_get_updated_iv(ctx, state->updated_iv, sizeof(state->updated_iv));
    state->results[3] = EVP_CIPHER_CTX_get_num(ctx);
}

void pair_check_state(struct pair *pair)
{
    struct pair_state ours, reference;

    pair_read_state(pair->ours, &ours);
    pair_read_state(pair->reference, &reference);
    cr_assert_arr_eq(ours.results, reference.results, sizeof(ours.results), "%s: results",
                     pair->name);
    cr_assert_eq(ours.n_key, reference.n_key);
    cr_assert_eq(ours.n_iv, reference.n_iv);
    cr_assert_eq(ours.padding, reference.padding);
    cr_assert_arr_eq(ours.iv, reference.iv, sizeof(ours.iv), "%s: iv", pair->name);
    cr_assert_arr_eq(ours.updated_iv, reference.updated_iv, sizeof(ours.updated_iv),
                     "%s: updated iv", pair->name);
}

// ---------------------------------------------------------------- operations

static int pair_init_cipher(struct pair *pair, bool with_cipher, const uint8_t *key,
                            const uint8_t *iv, int encrypt)
{
    struct pair_result ours = {0}, reference = {0};

    PAIR_CALL(ours, EVP_CipherInit_ex(pair->ours, with_cipher ? pair->cipher : NULL, NULL, key, iv,
                                      encrypt));
    PAIR_CALL(reference,
              EVP_CipherInit_ex(pair->reference, with_cipher ? pair->reference_cipher : NULL, NULL,
                                key, iv, encrypt));
    pair_compare(pair, "init", &ours, &reference);
    pair_check_state(pair);
    return ours.ret;
}

int pair_start(struct pair *pair, const uint8_t *key, const uint8_t *iv, int encrypt)
{
    return pair_init_cipher(pair, true, key, iv, encrypt);
}

int pair_init(struct pair *pair, const uint8_t *key, const uint8_t *iv, int encrypt)
{
    return pair_init_cipher(pair, false, key, iv, encrypt);
}

// Puts the input where `place` wants it and finds the output's place.
static uint8_t *pair_place(struct pair *pair, const uint8_t *in, size_t n, enum pair_place place,
                           size_t offset, int n_out, uint8_t **ret_in)
{
    uint8_t *start = pair->arena + 64 + offset, *out = start;

    if (place == PAIR_APART)
        out = pair->arena_end - n_out;
    else if (place == PAIR_BEFORE)
        out = start - 1 - offset % 40;
    else if (place == PAIR_BEHIND)
        out = start + 1 + offset % 40;
    memcpy(start, in, n);
    *ret_in = start;
    return out;
}

static int pair_data(struct pair *pair, bool one_shot, const uint8_t *in, size_t n,
                     enum pair_place place, size_t offset)
{
    const int failure = one_shot ? -1 : 0;
    struct pair_result ours = {.failure = failure}, reference = {.failure = failure};
    const char *what = one_shot ? "EVP_Cipher" : "update";
    uint8_t *start, *out;

    cr_assert_leq(n, PAIR_SIZE_MAX - 256);
    memcpy(pair->input, in, n);
    if (one_shot)
        PAIR_CALL(reference, EVP_Cipher(pair->reference, pair->output, pair->input, (unsigned)n));
    else
        PAIR_CALL(reference, EVP_CipherUpdate(pair->reference, pair->output, &reference.n,
                                              pair->input, (int)n));
    int n_out = one_shot && reference.ret > 0 ? reference.ret : reference.n;
    out = pair_place(pair, in, n, place, offset % 64, n_out, &start);
    if (one_shot)
        PAIR_CALL(ours, EVP_Cipher(pair->ours, out, start, (unsigned)n));
    else
        PAIR_CALL(ours, EVP_CipherUpdate(pair->ours, out, &ours.n, start, (int)n));

    pair_compare(pair, what, &ours, &reference);
    cr_assert_arr_eq(out, pair->output, (size_t)n_out, "%s: %s of %zu bytes, place %d", pair->name,
                     what, n, (int)place);
    pair_check_state(pair);
    return ours.ret;
}

int pair_update(struct pair *pair, const uint8_t *in, size_t n, enum pair_place place,
                size_t offset)
{
    return pair_data(pair, false, in, n, place, offset);
}

int pair_cipher(struct pair *pair, const uint8_t *in, size_t n, enum pair_place place,
                size_t offset)
{
    return pair_data(pair, true, in, n, place, offset);
}

int pair_final(struct pair *pair)
{
    struct pair_result ours = {0}, reference = {0};

    PAIR_CALL(reference, EVP_CipherFinal_ex(pair->reference, pair->output, &reference.n));
    uint8_t *out = pair->arena_end - reference.n;
    PAIR_CALL(ours, EVP_CipherFinal_ex(pair->ours, out, &ours.n));
    pair_compare(pair, "final", &ours, &reference);
    cr_assert_arr_eq(out, pair->output, (size_t)reference.n, "%s: final", pair->name);
    pair_check_state(pair);
    return ours.ret;
}

int pair_set_padding(struct pair *pair, int padding)
{
    struct pair_result ours = {0}, reference = {0};

    PAIR_CALL(ours, EVP_CIPHER_CTX_set_padding(pair->ours, padding));
    PAIR_CALL(reference, EVP_CIPHER_CTX_set_padding(pair->reference, padding));
    pair_compare(pair, "set_padding", &ours, &reference);
    pair_check_state(pair);
    return ours.ret;
}

int pair_set_num(struct pair *pair, int num)
{
    struct pair_result ours = {0}, reference = {0};

    PAIR_CALL(ours, EVP_CIPHER_CTX_set_num(pair->ours, num));
    PAIR_CALL(reference, EVP_CIPHER_CTX_set_num(pair->reference, num));
    pair_compare(pair, "set_num", &ours, &reference);
    pair_check_state(pair);
    return ours.ret;
}

void pair_copy_into(struct pair *to, const struct pair *from)
{
    struct pair_result ours = {0}, reference = {0};

    PAIR_CALL(ours, EVP_CIPHER_CTX_copy(to->ours, from->ours));
    PAIR_CALL(reference, EVP_CIPHER_CTX_copy(to->reference, from->reference));
    pair_compare(from, "copy", &ours, &reference);
}

void pair_copy(struct pair *pair, bool free_first)
{
    EVP_CIPHER_CTX *ours = pair->ours, *reference = pair->reference;
    const struct pair original = *pair;
    struct pair_result a = {0}, b = {0};
    uint8_t data[64] = {1, 2, 3};

    pair->ours = EVP_CIPHER_CTX_new();
    pair->reference = EVP_CIPHER_CTX_new();
    pair_copy_into(pair, &original);
    if (!free_first && EVP_CIPHER_CTX_get0_cipher(ours) !=
                           NULL) { // what happens to the original must not reach the copy
        uint8_t out[sizeof(data) + EVP_MAX_BLOCK_LENGTH], expected[sizeof(out)];
        PAIR_CALL(a, EVP_CipherUpdate(ours, out, &a.n, data, sizeof(data)));
        PAIR_CALL(b, EVP_CipherUpdate(reference, expected, &b.n, data, sizeof(data)));
        pair_compare(pair, "update of a copied context", &a, &b);
        cr_assert_arr_eq(out, expected, (size_t)b.n);
    }
    EVP_CIPHER_CTX_free(ours);
    EVP_CIPHER_CTX_free(reference);
    if (EVP_CIPHER_CTX_get0_cipher(pair->ours) != NULL)
        pair_check_state(pair);
}

// ---------------------------------------------------------------- the daemon's account

void pair_served(const char *algorithm, uint64_t *ret_operations, uint64_t *ret_bytes)
{
    struct cryptod_status *status = NULL;

    *ret_operations = *ret_bytes = 0;
    cr_assert_eq(cryptod_status_get(NULL, 10000, &status), 0);
    for (size_t i = 0; i < status->n_algorithms; i++)
        if (strcasecmp(status->algorithms[i].algorithm, algorithm) == 0) {
            *ret_operations += status->algorithms[i].operations;
            *ret_bytes += status->algorithms[i].bytes;
        }
    cryptod_status_free(status);
}
