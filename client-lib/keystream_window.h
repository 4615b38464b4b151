// SPDX-License-Identifier: MIT
// Keystream that was asked for ahead of need: one window a stream number, a queue of pieces, each
// in a data slot of its own.
//
//      free ---put---> in a window ---used up---> free
//                           |                       ^
//                  passed over, dropped             | done, and wiped
//                           `-----> returning ------'
//
// Guarantees: a byte of keystream is used at most once, and wiped; only from a piece that the
// engine has said is right, and that was claimed from it; a slot is not asked for again while its
// last request is outstanding. Knows nothing of ciphers: a place is a tag and a position under it,
// and places come in order.
#ifndef CRYPTOD_CLIENT_KEYSTREAM_WINDOW_H
#define CRYPTOD_CLIENT_KEYSTREAM_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "handshake.h"
#include "shm.h"

struct session;

#define KEYSTREAM_PIECES_MAX (HANDSHAKE_SLOTS - SHM_SLOTS_REQUEST)

struct keystream_place {
    uint64_t tag;
    uint64_t position; // bytes
};

struct keystream_piece {
    struct keystream_place start;
    uint32_t n_bytes;
    uint32_t n_passed; // bytes at its beginning that were used or passed over
    bool is_claimed;   // then these are wiped
};

struct keystream_window {
    uint8_t slots[KEYSTREAM_PIECES_MAX]; // a ring
    uint8_t first;
    uint8_t n;
    uint8_t size; // pieces that it may have, for now
};

// Keystream is copied here before it is used: what a fork in the middle of a call does to the
// shared memory, in either process, does not reach it.
#define KEYSTREAM_COPY_SIZE 4096u

struct keystream_table {
    uint8_t copy[KEYSTREAM_COPY_SIZE];
    struct keystream_window windows[SHM_STREAMS_MAX];
    struct keystream_piece pieces[HANDSHAKE_SLOTS]; // by slot
    uint32_t n_slots;
    uint32_t n_most;    // pieces that a window may have
    uint64_t free;      // a bit a slot
    uint64_t returning; // a bit a slot
};

enum keystream_state {
    KEYSTREAM_HERE,  // the first piece has the place
    KEYSTREAM_AHEAD, // the window begins after it
    KEYSTREAM_NONE,  // there is nothing
};

// All for the holder of the channel; index: the stream's number.

// For a new channel. n_most: 0 if there shall be no keystream.
void keystream_table_reset(struct keystream_table *table, uint32_t n_slots, uint32_t n_most);

// Wipes what can be wiped, of all windows: the channel is given back.
void keystream_table_wipe(struct session *session);

// Passes over everything before a place. Pieces made in vain make the window smaller.
enum keystream_state keystream_seek(struct session *session, uint32_t index,
                                    struct keystream_place place);

// What is left of the first piece, which there is.
struct keystream_place keystream_next(const struct session *session, uint32_t index);

// The first place after the window, which is not empty.
struct keystream_place keystream_end(const struct session *session, uint32_t index);

// Waits for the first piece, which there is. 0; -EIO: the engine failed; -EUSERS: it has no room
// for the key; -ESTALE: it has taken the slot back; or as ring_wait().
int keystream_await(struct session *session, uint32_t index);

// Uses the first piece, which was waited for, up to its end. Bytes done; the channel may not be
// this process's any more afterwards (session_is_intact()).
size_t keystream_use(struct session *session, uint32_t index, uint8_t *out, const uint8_t *in,
                     size_t n_bytes);

// How many pieces shall be put now: none until a quarter of the window is free, or its last piece
// in use. A window grows each time.
uint32_t keystream_room(struct session *session, uint32_t index);

// Puts one of them into the ring; not published yet.
void keystream_put(struct session *session, uint32_t index, struct keystream_place start,
                   uint32_t n_bytes, const uint8_t *iv);

// The slots of pieces that may be outstanding, as RING_SLOT_BIT.
uint64_t keystream_slots(const struct session *session, uint32_t index);

// Gives everything up; the window begins small again.
void keystream_drop(struct session *session, uint32_t index);

#endif
