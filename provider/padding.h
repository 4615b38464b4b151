// SPDX-License-Identifier: MIT
// Padding of CBC data: PKCS#7 for messages, and the records of TLS up to 1.2 and of SSL 3.0.
// Pure functions on bytes; they know nothing of contexts, keys or errors.
#ifndef CRYPTOD_PROVIDER_PADDING_H
#define CRYPTOD_PROVIDER_PADDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Fills block (n_block bytes, n_used of them data, n_used < n_block) with PKCS#7 padding.
void padding_add(uint8_t *block, size_t n_used, size_t n_block);

// Checks the PKCS#7 padding of a decrypted last block. *ret_n: bytes of data. 0, or -1 if it is not
// padding. Not in constant time: who decrypts unauthenticated data by EVP_DecryptFinal() learns the
// result anyway.
int padding_remove(const uint8_t *block, size_t n_block, size_t *ret_n);

// Writes the padding of a record of n bytes behind it; 1 to n_block bytes. Returns their count.
size_t padding_tls_add(uint8_t *record, size_t n, size_t n_block, bool ssl3);

// A decrypted record without its explicit IV.
struct padding_tls_record {
    const uint8_t *data;
    size_t n;       // bytes, padding included
    size_t n_block; // bytes of a cipher block
    size_t n_mac;   // bytes of MAC at the end of the content; 0: encrypt-then-MAC, none is inside
    bool ssl3;
};

// Finds the content's end and copies the MAC out, in constant time: neither branches nor addresses
// depend on data. With bad padding the MAC is `random` (n_mac bytes), so that its later comparison
// fails as with any bad MAC. *ret_n: bytes of content, a secret. 0, or -1 if the record is invalid
// by its length, or by its padding where there is no MAC inside (both public then).
int padding_tls_remove(const struct padding_tls_record *record, const uint8_t *random,
                       uint8_t *ret_mac, size_t *ret_n);

#endif
