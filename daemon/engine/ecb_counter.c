// SPDX-License-Identifier: MIT
// Guarantees: writes n_bytes and nothing else. Must not know what encrypts them.
#include "ecb_counter.h"

#include <endian.h>
#include <string.h>

void ecb_counter_fill(const uint8_t iv[16], uint8_t *out, size_t n_bytes)
{
    uint64_t high, low;

    memcpy(&high, iv, sizeof(high));
    memcpy(&low, iv + sizeof(high), sizeof(low));
    high = be64toh(high);
    low = be64toh(low);
    for (size_t i = 0; i + 16 <= n_bytes; i += 16) {
        const uint64_t words[2] = {htobe64(high), htobe64(low)};

        memcpy(out + i, words, sizeof(words));
        high += ++low == 0;
    }
}
