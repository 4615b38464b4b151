// SPDX-License-Identifier: MIT
// Two cipher contexts that must not be told apart: one of the built provider, one of OpenSSL's
// default provider. Every operation is done on both, and what comes back is compared: return value,
// length, bytes, errors, parameters. A difference fails the test.
#ifndef CRYPTOD_TESTS_PROVIDER_PAIR_H
#define CRYPTOD_TESTS_PROVIDER_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/evp.h>
#include <openssl/provider.h>

#define PAIR_SIZE_MAX ((size_t)256 * 1024) // bytes, the longest piece of data

// The names under which every cipher of the provider is asked for.
extern const char *const pair_names[];
extern const size_t pair_n_names;

struct pair_world {
    OSSL_LIB_CTX *ours, *reference;
    OSSL_PROVIDER *provider, *default_provider;
};

// Loads the built cryptod.so, alone, in a library context of its own, and the default provider in
// another.
void pair_world_open(struct pair_world *world);
void pair_world_close(struct pair_world *world);

// The folder with the built provider, as OSSL_PROVIDER_set_default_search_path() wants it.
const char *pair_modules_folder(void);

struct pair {
    const char *name;
    EVP_CIPHER *cipher, *reference_cipher;
    EVP_CIPHER_CTX *ours, *reference;
    int n_block, n_key, n_iv;
    uint8_t *arena; // 2 * PAIR_SIZE_MAX and more bytes, with a page behind that must not be touched
    uint8_t *arena_end;
    uint8_t *input, *output; // of the reference
};

void pair_open(struct pair *pair, const struct pair_world *world, const char *name);
void pair_close(struct pair *pair);

// Where the output of our context lies.
enum pair_place {
    PAIR_APART,    // it ends where the page that must not be touched begins
    PAIR_IN_PLACE, // over the input
    PAIR_BEFORE,   // partly over the input, and before it
    PAIR_BEHIND,   // partly over the input, and behind it
    PAIR_N_PLACES,
};

// Each of these returns what OpenSSL returned, the same for both. `offset` misaligns the input.
int pair_start(struct pair *pair, const uint8_t *key, const uint8_t *iv,
               int encrypt); // with the cipher
int pair_init(struct pair *pair, const uint8_t *key, const uint8_t *iv, int encrypt);
int pair_update(struct pair *pair, const uint8_t *in, size_t n, enum pair_place place,
                size_t offset);
int pair_cipher(struct pair *pair, const uint8_t *in, size_t n, enum pair_place place,
                size_t offset);
int pair_final(struct pair *pair);
int pair_set_padding(struct pair *pair, int padding);
int pair_set_num(struct pair *pair, int num);

// Replaces both contexts by copies; with free_first the originals are freed before the copies are
// used, else used once more after the copies were made.
void pair_copy(struct pair *pair, bool free_first);

// Makes the contexts of `to` copies of those of `from`, whatever they were before.
void pair_copy_into(struct pair *to, const struct pair *from);

// Compares everything that can be asked of the two contexts.
void pair_check_state(struct pair *pair);

// Numbers from a seed, the same in every run.
uint32_t pair_random(uint64_t *seed);
void pair_random_bytes(uint64_t *seed, void *out, size_t n);

// Operations and bytes that the daemon at $CRYPTOD_SOCKET has done for an algorithm (any case).
void pair_served(const char *algorithm, uint64_t *ret_operations, uint64_t *ret_bytes);

// A stream is in software until the daemon has its key, so a short one may be over by then. Whoever
// wants to see the daemon at work repeats, this often at most.
#define PAIR_REPEAT 50

#endif
