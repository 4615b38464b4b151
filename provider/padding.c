// SPDX-License-Identifier: MIT
// Guarantees: the TLS part runs in a time that depends on lengths alone, since the padding of a
// MAC-then-encrypt record is unauthenticated when it is read (Vaudenay's and the Lucky 13 attacks).
#include "padding.h"

#include <string.h>

#define PADDING_TLS_MAX 256u // bytes, the length byte included
#define PADDING_MAC_MAX 64u

void padding_add(uint8_t *block, size_t n_used, size_t n_block)
{
    memset(block + n_used, (int)(n_block - n_used), n_block - n_used);
}

int padding_remove(const uint8_t *block, size_t n_block, size_t *ret_n)
{
    uint8_t n_padding = block[n_block - 1];

    if (n_padding == 0 || n_padding > n_block)
        return -1;
    for (size_t i = n_block - n_padding; i < n_block; i++)
        if (block[i] != n_padding)
            return -1;
    *ret_n = n_block - n_padding;
    return 0;
}

size_t padding_tls_add(uint8_t *record, size_t n, size_t n_block, bool ssl3)
{
    size_t n_padding = n_block - n % n_block;
    uint8_t value = (uint8_t)(n_padding - 1);

    memset(record + n, ssl3 ? 0 : value, n_padding);
    record[n + n_padding - 1] = value;
    return n_padding;
}

// ---------------------------------------------------------------- constant time

// Masks are all ones or all zeros. The empty assembly keeps the compiler from seeing that, and from
// branching.
static inline size_t mask_hide(size_t mask)
{
    __asm__("" : "+r"(mask));
    return mask;
}

// a < b, for values below SIZE_MAX / 2.
static inline size_t mask_less(size_t a, size_t b)
{
    return mask_hide((size_t)0 - ((a - b) >> (sizeof(size_t) * 8 - 1)));
}

static inline size_t mask_equal(size_t a, size_t b)
{
    size_t difference = a ^ b;

    return ~mask_hide((size_t)0 -
                      ((difference | ((size_t)0 - difference)) >> (sizeof(size_t) * 8 - 1)));
}

static inline uint8_t mask_select(size_t mask, uint8_t yes, uint8_t no)
{
    return (uint8_t)((yes & mask) | (no & ~mask));
}

// All ones if the last n_padding + 1 bytes may be padding. All bytes that could be are looked at.
static size_t padding_tls_check(const struct padding_tls_record *record, size_t n_padding)
{
    size_t good = ~mask_less(record->n, n_padding + 1 + record->n_mac);
    size_t n_check = record->n < PADDING_TLS_MAX ? record->n : PADDING_TLS_MAX;
    size_t difference = 0;

    if (record->ssl3) // the bytes may be anything, but there is no more than a block of them
        return good & mask_less(n_padding, record->n_block);
    for (size_t i = 0; i < n_check; i++)
        difference |= ~mask_less(n_padding, i) & (record->data[record->n - 1 - i] ^ n_padding);
    return good & mask_equal(difference, 0);
}

// Turns mac left by n_shift bytes (a secret, below n_mac): by 1, 2, 4, .. bytes, each step done or
// not by mask.
static void padding_tls_rotate(uint8_t *mac, size_t n_mac, size_t n_shift)
{
    uint8_t turned[PADDING_MAC_MAX];

    for (size_t step = 1; step < n_mac; step <<= 1) {
        size_t mask = ~mask_equal(n_shift & step, 0);
        for (size_t i = 0; i < n_mac; i++)
            turned[i] = mac[(i + step) % n_mac];
        for (size_t i = 0; i < n_mac; i++)
            mac[i] = mask_select(mask, turned[i], mac[i]);
    }
    explicit_bzero(turned, sizeof(turned));
}

// Copies the n_mac bytes that end at mac_end (a secret) of the record. Every byte where they may
// lie is read once, and goes to the place of mac that its position has modulo n_mac; then mac is
// turned.
static void padding_tls_copy_mac(const struct padding_tls_record *record, size_t mac_end,
                                 uint8_t *mac)
{
    const size_t n_reach = record->n_mac + PADDING_TLS_MAX;
    const size_t first = record->n > n_reach ? record->n - n_reach : 0;
    const size_t mac_start = mac_end - record->n_mac;
    size_t n_shift = 0, inside = 0, place = 0;

    memset(mac, 0, record->n_mac);
    for (size_t i = first; i < record->n; i++) {
        size_t starts = mask_equal(i, mac_start);
        inside = (inside | starts) & mask_less(i, mac_end);
        n_shift |= place & starts;
        mac[place] |= (uint8_t)(record->data[i] & inside);
        place = place + 1 == record->n_mac ? 0 : place + 1;
    }
    padding_tls_rotate(mac, record->n_mac, n_shift);
}

int padding_tls_remove(const struct padding_tls_record *record, const uint8_t *random,
                       uint8_t *ret_mac, size_t *ret_n)
{
    if (record->n_mac > PADDING_MAC_MAX || record->n < record->n_mac + 1)
        return -1;

    size_t n_padding = record->data[record->n - 1];
    size_t good = padding_tls_check(record, n_padding);
    size_t content_end = record->n - (good & (n_padding + 1));

    if (record->n_mac == 0) {
        if (good == 0)
            return -1;
        *ret_n = content_end;
        return 0;
    }
    padding_tls_copy_mac(record, content_end, ret_mac);
    for (size_t i = 0; i < record->n_mac; i++)
        ret_mac[i] = mask_select(good, ret_mac[i], random[i]);
    *ret_n = content_end - record->n_mac;
    return 0;
}
