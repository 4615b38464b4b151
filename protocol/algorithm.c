// SPDX-License-Identifier: MIT
// The table of algorithms: the one place where key, IV and block lengths and everybody's names for
// them are written. Must not know of messages, keys or engines.
#include "algorithm.h"

#include <strings.h>

#define AES(bits, name_, MODE, kernel)                                                             \
    [ALGORITHM_AES_##bits##_##MODE] = {                                                            \
        .id = ALGORITHM_AES_##bits##_##MODE,                                                       \
        .mode = ALGORITHM_##MODE,                                                                  \
        .name = (name_),                                                                           \
        .openssl_name = "AES-" #bits "-" #MODE,                                                    \
        .kernel_name = (kernel),                                                                   \
        .n_key = (bits) / 8,                                                                       \
        .n_iv = 16,                                                                                \
        .n_block = ALGORITHM_##MODE == ALGORITHM_CBC ? 16 : 1,                                     \
        .n_cipher_block = 16,                                                                      \
    }

static const struct algorithm_info table[] = {
    AES(128, "aes-128-cbc", CBC, "cbc(aes)"),
    AES(192, "aes-192-cbc", CBC, "cbc(aes)"),
    AES(256, "aes-256-cbc", CBC, "cbc(aes)"),
    AES(128, "aes-128-ctr", CTR, "ctr(aes)"),
    AES(192, "aes-192-ctr", CTR, "ctr(aes)"),
    AES(256, "aes-256-ctr", CTR, "ctr(aes)"),
    [ALGORITHM_DES_EDE3_CBC] =
        {
            .id = ALGORITHM_DES_EDE3_CBC,
            .mode = ALGORITHM_CBC,
            .name = "des-ede3-cbc",
            .openssl_name = "DES-EDE3-CBC",
            .kernel_name = "cbc(des3_ede)",
            .n_key = 24,
            .n_iv = 8,
            .n_block = 8,
            .n_cipher_block = 8,
        },
    [ALGORITHM_CHACHA20] =
        {
            .id = ALGORITHM_CHACHA20,
            .mode = ALGORITHM_CHACHA,
            .name = "chacha20",
            .openssl_name = "ChaCha20",
            .kernel_name = NULL,
            .n_key = 32,
            .n_iv = 16,
            .n_block = 1,
            .n_cipher_block = 64,
        },
};

_Static_assert(sizeof table / sizeof table[0] == ALGORITHM_COUNT, "one row for each number");

const struct algorithm_info *algorithm_get(uint32_t id)
{
    return id < ALGORITHM_COUNT ? &table[id] : NULL;
}

const struct algorithm_info *algorithm_find(const char *name)
{
    for (size_t i = 0; i < ALGORITHM_COUNT; i++) {
        if (strcasecmp(name, table[i].name) == 0 || strcasecmp(name, table[i].openssl_name) == 0)
            return &table[i];
    }
    return NULL;
}

void algorithm_ctr_add(uint8_t counter[16], uint64_t n_blocks)
{
    uint64_t rest = n_blocks;

    for (int i = 15; i >= 0 && rest != 0; i--) {
        // The low byte is added on its own: rest + counter[i] could pass 2^64.
        unsigned sum = counter[i] + (unsigned)(rest & 0xff);
        counter[i] = (uint8_t)sum;
        rest = (rest >> 8) + (sum >> 8);
    }
}
