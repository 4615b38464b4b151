// SPDX-License-Identifier: MIT
// Using keystream up, with the vectors that every machine of the architecture has. (Wider ones gain
// nothing: the memory is the limit, most of it was written by another CPU.)
#include "keystream_xor.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

void keystream_xor(uint8_t *out, const uint8_t *in, uint8_t *keystream, size_t n_bytes)
{
    // Each byte depends on those of its own place alone, in place too.
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
    for (size_t i = 0; i < n_bytes; i++) {
        out[i] = (uint8_t)(in[i] ^ keystream[i]);
        keystream[i] = 0;
    }
}
