// SPDX-License-Identifier: MIT
// Which keystream the next packets of a ChaCha20 stream will want, guessed from the last ones. Made
// for ssh's chacha20-poly1305, which sets a new IV for every packet, twice: the last 8 bytes of the
// IV are the packet's number (big-endian, one more each time), the first 8 a block counter
// (little-endian): 0 for the 32 bytes of the Poly1305 key, 1 for the payload.
//
// Pure: only IVs and lengths. A wrong guess costs time, never a byte.
#ifndef CRYPTOD_CLIENT_PACKET_GUESS_H
#define CRYPTOD_CLIENT_PACKET_GUESS_H

#include <stdint.h>

struct packet_guess {
    uint64_t number;     // of the packet
    uint64_t n_end;      // bytes of its keystream up to the last one used
    uint32_t n_in_a_row; // packets that were numbered one after the other
    uint32_t n_packets;  // in this group
    uint64_t n_most[2];  // longest payload of this group of packets, and of the one before
};

#define PACKET_GUESS_NOWHERE UINT64_MAX

// Where in a packet's keystream an IV and the bytes done after it lead; _NOWHERE if no packet is so
// long.
uint64_t packet_guess_place(const uint8_t iv[16], uint64_t n_bytes);

// The packet's number.
uint64_t packet_guess_number(const uint8_t iv[16]);

// The IV of a packet's first block.
void packet_guess_iv(uint64_t number, uint8_t ret_iv[16]);

// A new IV; n_end: packet_guess_place() with the IV before it.
void packet_guess_next(struct packet_guess *guess, uint64_t n_end, const uint8_t iv[16]);

// Bytes of keystream, from block 0 on, that each of the next packets will want: a multiple of 64,
// at most 64 KiB. 0: no guess, or not worth it.
uint32_t packet_guess_bytes(const struct packet_guess *guess);

#endif
