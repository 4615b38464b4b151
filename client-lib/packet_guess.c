// SPDX-License-Identifier: MIT
// Guesses about packets. See packet_guess.h.
#include "packet_guess.h"

#include "shm.h"

#define N_BLOCK 64u // of ChaCha20; the first one has the Poly1305 key

// Only a stream that has counted so far is expected to go on with it.
#define N_IN_A_ROW_LEAST 3u

// Below that the process is as fast. Also keeps away the stream that only encrypts lengths.
#define N_PAYLOAD_LEAST 1024u

// Short packets between long ones are no reason to expect short ones: the longest of so many, and
// of as many before, counts.
#define N_GROUP 8u

uint64_t packet_guess_place(const uint8_t iv[16], uint64_t n_bytes)
{
    uint64_t counter = 0;

    for (unsigned i = 8; i-- > 0;)
        counter = counter << 8 | iv[i];
    if (counter > UINT32_MAX || n_bytes > UINT32_MAX)
        return PACKET_GUESS_NOWHERE;
    return counter * N_BLOCK + n_bytes;
}

uint64_t packet_guess_number(const uint8_t iv[16])
{
    uint64_t number = 0;

    for (unsigned i = 8; i < 16; i++)
        number = number << 8 | iv[i];
    return number;
}

void packet_guess_iv(uint64_t number, uint8_t ret_iv[16])
{
    for (unsigned i = 0; i < 8; i++) {
        ret_iv[i] = 0;
        ret_iv[15 - i] = (uint8_t)(number >> (8 * i));
    }
}

static void guess_learn(struct packet_guess *guess)
{
    uint64_t n_payload = guess->n_end > N_BLOCK ? guess->n_end - N_BLOCK : 0;

    if (guess->n_end == PACKET_GUESS_NOWHERE)
        n_payload = 0;
    if (guess->n_packets++ >= N_GROUP) {
        guess->n_packets = 1;
        guess->n_most[1] = guess->n_most[0];
        guess->n_most[0] = 0;
    }
    if (n_payload > guess->n_most[0])
        guess->n_most[0] = n_payload;
}

void packet_guess_next(struct packet_guess *guess, uint64_t n_end, const uint8_t iv[16])
{
    uint64_t number = packet_guess_number(iv);

    if (n_end > guess->n_end)
        guess->n_end = n_end;
    if (number == guess->number)
        return;
    if (number == guess->number + 1) {
        guess_learn(guess);
        if (guess->n_in_a_row < UINT32_MAX)
            guess->n_in_a_row++;
    } else {
        *guess = (struct packet_guess){.number = 0};
    }
    guess->number = number;
    guess->n_end = 0;
}

uint32_t packet_guess_bytes(const struct packet_guess *guess)
{
    uint64_t n = guess->n_most[0] > guess->n_most[1] ? guess->n_most[0] : guess->n_most[1];

    if (guess->n_in_a_row < N_IN_A_ROW_LEAST || n < N_PAYLOAD_LEAST)
        return 0;
    if (n > SHM_SLOT_SIZE - N_BLOCK)
        return SHM_SLOT_SIZE;
    return N_BLOCK + ((uint32_t)n + N_BLOCK - 1) / N_BLOCK * N_BLOCK;
}
