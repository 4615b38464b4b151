// SPDX-License-Identifier: MIT
// The algorithms that cryptod knows: one table for the client library, the provider and the daemon.
// The numbers are part of the protocol and never change; new ones are added at the end.
#ifndef CRYPTOD_PROTOCOL_ALGORITHM_H
#define CRYPTOD_PROTOCOL_ALGORITHM_H

#include <stddef.h>
#include <stdint.h>

// The same numbers as enum cryptod_algorithm in cryptod.h (the client library asserts it).
enum algorithm_id {
    ALGORITHM_AES_128_CBC = 0,
    ALGORITHM_AES_192_CBC = 1,
    ALGORITHM_AES_256_CBC = 2,
    ALGORITHM_AES_128_CTR = 3,
    ALGORITHM_AES_192_CTR = 4,
    ALGORITHM_AES_256_CTR = 5,
    ALGORITHM_DES_EDE3_CBC = 6,
    ALGORITHM_CHACHA20 = 7,
};
#define ALGORITHM_COUNT 8u

enum algorithm_mode {
    ALGORITHM_CBC,
    ALGORITHM_CTR,    // AES, one 128-bit big-endian counter
    ALGORITHM_CHACHA, // ChaCha20, IV = 32-bit or 64-bit little-endian counter, then the nonce (RFC
                      // 8439, 2.3)
};

#define ALGORITHM_KEY_MAX    32 // bytes, longest key
#define ALGORITHM_IV_LEN_MAX 16

struct algorithm_info {
    enum algorithm_id id;
    enum algorithm_mode mode;
    const char *name;         // for people and in configuration: "aes-128-cbc"
    const char *openssl_name; // for EVP_CIPHER_fetch: "AES-128-CBC"
    const char *kernel_name;  // for AF_ALG: "cbc(aes)"; NULL: the kernel is never asked for it
    uint32_t n_key;           // bytes
    uint32_t n_iv;            // bytes
    uint32_t n_block;        // bytes that a request's length is a multiple of; 1 for stream ciphers
    uint32_t n_cipher_block; // bytes of the underlying block cipher: 16 AES, 8 DES, 64 ChaCha20
};

// The entry for id, or NULL if id is not one of the known algorithms (id may be any number).
const struct algorithm_info *algorithm_get(uint32_t id);

// The entry whose name or openssl_name is name (case ignored), or NULL.
const struct algorithm_info *algorithm_find(const char *name);

// Adds n_blocks to a 128-bit big-endian counter, modulo 2^128 (NIST SP 800-38A, appendix B.1).
void algorithm_ctr_add(uint8_t counter[16], uint64_t n_blocks);

#endif
