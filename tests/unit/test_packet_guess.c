// SPDX-License-Identifier: MIT
// client-lib/packet_guess.c: what the next packets will want.
#include <criterion/criterion.h>
#include <string.h>

#include "packet_guess.h"

TestSuite(packet_guess, .timeout = 30);

static struct packet_guess guess;
static uint8_t iv[16];
static uint64_t n_done;

static void set(uint64_t number, uint8_t counter)
{
    uint8_t next[16];

    packet_guess_iv(number, next);
    next[0] = counter;
    packet_guess_next(&guess, packet_guess_place(iv, n_done), next);
    memcpy(iv, next, sizeof iv);
    n_done = 0;
}

static void packet(uint64_t number, uint64_t n_payload)
{
    set(number, 0);
    n_done = 32;
    set(number, 1);
    n_done = n_payload;
}

static void packets(uint64_t first, uint64_t n, uint64_t n_payload)
{
    for (uint64_t i = 0; i < n; i++)
        packet(first + i, n_payload);
}

Test(packet_guess, counts_and_lengths)
{
    static const uint32_t wants[][2] = {
        {1023, 0},      {1024, 64 + 1024}, {1025, 64 + 1088}, {32784, 64 + 32832},
        {65472, 65536}, {65473, 65536},    {65536, 65536},    {262144, 65536},
    };

    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        packets(1000 * (i + 1), 4, wants[i][0]);
        cr_expect_eq(packet_guess_bytes(&guess), wants[i][1], "%u", wants[i][0]);
    }
}

Test(packet_guess, needs_three_steps_by_one)
{
    packets(7, 3, 5000);
    cr_assert_eq(packet_guess_bytes(&guess), 0);
    packet(10, 5000);
    cr_assert_neq(packet_guess_bytes(&guess), 0);
    packet(12, 5000);
    cr_assert_eq(packet_guess_bytes(&guess), 0);
    packets(13, 3, 5000);
    cr_assert_neq(packet_guess_bytes(&guess), 0);
    packet(14, 5000); // back
    cr_assert_eq(packet_guess_bytes(&guess), 0);
}

Test(packet_guess, one_nonce_for_ever_is_no_packet)
{
    for (int i = 0; i < 100; i++) {
        set(5, (uint8_t)i);
        n_done = 5000;
        cr_assert_eq(packet_guess_bytes(&guess), 0);
    }
}

// A counter in the lower bytes, or in another order, is not ssh's.
Test(packet_guess, other_counters)
{
    for (uint64_t i = 0; i < 100; i++) {
        packet(i << 32, 5000);
        cr_assert_eq(packet_guess_bytes(&guess), 0);
    }
    for (uint64_t i = 0; i < 100; i++) {
        packet(__builtin_bswap64(i), 5000);
        cr_assert_eq(packet_guess_bytes(&guess), 0);
    }
}

Test(packet_guess, short_packets_between_long_ones_count_for_little)
{
    packets(1, 4, 32784);
    for (uint64_t number = 5; number < 100; number++) {
        packet(number, number % 7 == 0 ? 32784 : 48);
        cr_assert_eq(packet_guess_bytes(&guess), 64 + 32832);
    }
    packets(100, 17, 48);
    cr_assert_eq(packet_guess_bytes(&guess), 0);
    packets(117, 2, 32784);
    cr_assert_eq(packet_guess_bytes(&guess), 64 + 32832);
}

// What only encrypts 4 bytes of length a packet never wants keystream.
Test(packet_guess, lengths_alone)
{
    for (uint64_t number = 0; number < 100; number++) {
        set(number, 0);
        n_done = 4;
        cr_assert_eq(packet_guess_bytes(&guess), 0);
    }
}

Test(packet_guess, places)
{
    uint8_t place[16] = {0};

    cr_assert_eq(packet_guess_place(place, 7), 7);
    place[0] = 2;
    place[1] = 1;
    cr_assert_eq(packet_guess_place(place, 7), 0x102 * 64 + 7);
    memset(place, 0xff, 4);
    cr_assert_eq(packet_guess_place(place, 0), UINT64_C(0xffffffff) * 64);
    place[4] = 1;
    cr_assert_eq(packet_guess_place(place, 0), PACKET_GUESS_NOWHERE);
    place[4] = 0;
    cr_assert_eq(packet_guess_place(place, UINT64_C(1) << 32), PACKET_GUESS_NOWHERE);
}
