// SPDX-License-Identifier: MIT
// See provider_states.h.
#include "provider_states.h"

#include <string.h>

bool states_enter(struct pair *pair, unsigned state, int encrypt, const uint8_t *data)
{
    uint8_t key[32], iv[16];
    uint64_t seed = state;

    pair_random_bytes(&seed, key, sizeof(key));
    pair_random_bytes(&seed, iv, sizeof(iv));
    switch (state) {
    case 0: // a cipher, nothing else
        pair_start(pair, NULL, NULL, encrypt);
        return true;
    case 1:
        pair_start(pair, NULL, iv, encrypt);
        return true;
    case 2:
        pair_start(pair, key, NULL, encrypt);
        return true;
    }
    pair_start(pair, key, iv, encrypt);
    switch (state) {
    case 3:
        return true;
    case 4: // a part of a block
        pair_update(pair, data, 5, PAIR_APART, 0);
        return true;
    case 5: // a block held back when decrypting
        pair_update(pair, data, 48, PAIR_APART, 0);
        return true;
    case 6: // bulk, then a part of a block
        pair_update(pair, data, 200003, PAIR_APART, 1);
        return true;
    case 7: // bulk by EVP_Cipher()
        pair_cipher(pair, data, 131072, PAIR_APART, 3);
        return true;
    case 8: // at the end, or failed there
        pair_update(pair, data, 4096, PAIR_APART, 0);
        pair_final(pair);
        return true;
    case 9: // no padding, a part of a block
        pair_set_padding(pair, 0);
        pair_update(pair, data, 70001, PAIR_APART, 0);
        return true;
    case 10: // a new IV after bulk
        pair_cipher(pair, data, 65536, PAIR_APART, 0);
        pair_init(pair, NULL, iv, -1);
        return true;
    case 11: // refused for the lack of a key
        pair_start(pair, NULL, iv, encrypt);
        pair_update(pair, data, 64, PAIR_APART, 0);
        return true;
    default:
        return false;
    }
}

void states_go_on(struct pair *pair, uint64_t seed, const uint8_t *data)
{
    uint8_t key[32], iv[16];

    pair_update(pair, data + 1, pair_random(&seed) % 40, PAIR_APART, 0);
    pair_update(pair, data + 2, pair_random(&seed) % 100000, PAIR_IN_PLACE, 0);
    pair_cipher(pair, data + 3, (size_t)16 * (pair_random(&seed) % 4000), PAIR_APART, 1);
    pair_final(pair);
    pair_init(pair, NULL, NULL, -1);
    pair_update(pair, data, 100, PAIR_APART, 0);
    pair_random_bytes(&seed, key, sizeof(key));
    pair_random_bytes(&seed, iv, sizeof(iv));
    pair_init(pair, key, NULL, -1);
    pair_update(pair, data, pair_random(&seed) % 100000, PAIR_APART, 0);
    pair_init(pair, NULL, iv, -1);
    pair_update(pair, data, pair_random(&seed) % 100000, PAIR_APART, 0);
    pair_final(pair);
}
