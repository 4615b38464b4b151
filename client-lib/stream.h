// SPDX-License-Identifier: MIT
// What a stream is, for the lanes. The public side is cryptod.h.
#ifndef CRYPTOD_CLIENT_STREAM_H
#define CRYPTOD_CLIENT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algorithm.h"
#include "lane_cost.h"
#include "packet_guess.h"
#include "slot.h"
#include "software.h"

struct cryptod_stream {
    const struct algorithm_info *info;
    struct software software;
    bool has_key;
    bool encrypt;
    bool must_rekey;  // software does not have this key and direction
    bool must_seek;   // software is at another place
    bool is_settled;  // this key stays in software
    uint8_t refusals; // in a row, over keys: each doubles the bytes before the next question
    uint8_t errors;   // in a row, of the engine
    struct slot_lease lease;
    struct lane_cost cost;
    uint64_t n_bulk;           // bytes since the key was set
    uint64_t position;         // CTR, ChaCha20: bytes since the IV was set
    uint64_t n_inits;          // times that the IV was set
    struct packet_guess guess; // ChaCha20
    uint8_t key[ALGORITHM_KEY_MAX];
    uint8_t iv[ALGORITHM_IV_LEN_MAX];    // as it was set
    uint8_t chain[ALGORITHM_IV_LEN_MAX]; // CBC: the last ciphertext block
};

// Bytes used of the current keystream block.
static inline unsigned stream_used(const struct cryptod_stream *stream)
{
    return (unsigned)(stream->position % stream->info->n_cipher_block);
}

// The counter block n_blocks after the one that was set; CBC: the block that the next one is
// chained to. Writes the algorithm's n_iv bytes.
void stream_place(const struct cryptod_stream *stream, uint64_t n_blocks, uint8_t *ret_iv);

// n_bytes in software: goes to the stream's place first if it is elsewhere. 0 or -EIO.
int stream_crypt_software(struct cryptod_stream *stream, uint8_t *out, const uint8_t *in,
                          size_t n_bytes);

#endif
