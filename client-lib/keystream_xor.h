// SPDX-License-Identifier: MIT
// Using keystream up.
#ifndef CRYPTOD_CLIENT_KEYSTREAM_XOR_H
#define CRYPTOD_CLIENT_KEYSTREAM_XOR_H

#include <stddef.h>
#include <stdint.h>

// out = in ^ keystream, and wipes the keystream, in one pass. out and in are equal or do not
// overlap, neither overlaps keystream; any alignment.
void keystream_xor(uint8_t *out, const uint8_t *in, uint8_t *keystream, size_t n_bytes);

#endif
