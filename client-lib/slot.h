// SPDX-License-Identifier: MIT
// The channel's stream numbers: which keys the daemon holds for us, asked for and given back
// without ever waiting for an answer.
//
//            ask                 answer: yes              release
//     FREE ------> ASKED -----------------------> OPEN ----------> CLOSING ---> FREE
//                    | \          answer: no                          ^  (written)
//           release  |  `-----------> REFUSED --release--> FREE       |
//                    v                                     answer: yes|
//                ABANDONED -------------------------------------------'
//                    `------- answer: no ------> FREE
//
// A number is not used again before the answer to its last question has come. A lease tells whose a
// number is: leases are never repeated in a process, so one from a channel that is gone, or from
// before a fork, fits nothing.
#ifndef CRYPTOD_CLIENT_SLOT_H
#define CRYPTOD_CLIENT_SLOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algorithm.h"
#include "shm.h"

struct session;

enum slot_state {
    SLOT_FREE, // also: the lease fits nothing
    SLOT_ASKED,
    SLOT_OPEN,
    SLOT_REFUSED,
    SLOT_ABANDONED,
    SLOT_CLOSING,
};

struct slot {
    _Atomic uint32_t state;  // written by the holder of the channel
    _Atomic uint32_t lease;  // 0: nobody's
    _Atomic uint32_t let_go; // the lease that its owner has given back without the channel
    uint64_t serial;         // of the question: its lease
    uint64_t asked_ms;
};

struct slot_table {
    struct slot slots[SHM_STREAMS_MAX];
    uint32_t n_slots;
    uint32_t n_unsettled;    // slots that are ASKED, ABANDONED or CLOSING
    _Atomic bool any_let_go; // some slot's let_go wants a look
};

struct slot_lease {
    uint32_t index;
    uint32_t lease; // 0: none
};

// All for the holder of the channel.

// Forgets every slot; leases given out fit nothing any more.
void slot_table_reset(struct slot_table *table, uint32_t n_slots);

// Asks the daemon to take a key. 0 with the lease (ASKED); -EUSERS: every number is taken; or the
// error of the write (-EAGAIN: the daemon does not read). The channel may be lost afterwards.
int slot_ask(struct session *session, enum algorithm_id algorithm, const uint8_t *key,
             struct slot_lease *ret);

// How the lease stands, after a look for an answer if one is due. An answer that is due longer than
// the deadline is a refusal. The channel may be lost afterwards.
enum slot_state slot_look(struct session *session, const struct slot_lease *lease);

// Gives the lease back.
void slot_release(struct session *session, struct slot_lease *lease);

// Does what others have let go, and writes what could not be written before.
void slot_sweep(struct session *session);

// For anybody, with or without the channel; waits for nobody.

// Gives the lease back, now or when the channel is acquired next.
void slot_let_go(struct slot_lease *lease);

// How the lease stands, without a look for answers.
enum slot_state slot_peek(const struct slot_table *table, const struct slot_lease *lease);

#endif
