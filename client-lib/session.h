// SPDX-License-Identifier: MIT
// The process's one channel to the daemon: who may use it, and its life from opening to loss.
//
// Guarantees: nobody waits for the channel (whoever finds it in use goes on in software); a forked
// child never writes to its parent's descriptors or memory; after opening, only read, write, ppoll,
// close, munmap, futex and clock_gettime are called.
#ifndef CRYPTOD_CLIENT_SESSION_H
#define CRYPTOD_CLIENT_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algorithm.h"
#include "handshake.h"
#include "keystream_window.h"
#include "shm.h"
#include "slot.h"

struct session {
    // Owned by whoever holds the channel.
    int control; // -1: no channel
    int bell;
    struct shm_map map;
    uint32_t deadline_ms;
    uint32_t spins;                // looks at a completion before sleeping
    uint32_t sequence;             // requests put into the ring so far
    uint32_t asked[SHM_SLOTS_MAX]; // the sequence of a data slot's last request
    uint64_t late;                 // a bit a data slot: its request was given up, and is not done
    uint64_t lost;                 // the same: it hangs in a driver, and the slot is not to be used
    uint32_t deadlines;            // that passed so far
    uint32_t request_slot;         // whose turn it is in the request lane, modulo their number
    struct slot_table slots;
    struct keystream_table keystream;

    // Read by anybody.
    _Atomic bool live;
    _Atomic uint32_t bulk_threshold;
    _Atomic uint32_t lanes[ALGORITHM_COUNT];
    _Atomic uint32_t request_min[ALGORITHM_COUNT];
};

// Takes the channel if it is open, this process's own and not in use; else NULL. No system call
// but, when another thread has left a message to be sent, that write().
struct session *session_acquire(void);
void session_release(struct session *session);

// Whether a channel is open and offers this lane (MESSAGE_LANE_*) for the algorithm. No system
// call. ret_min: least bytes of a request; ret_threshold: bytes that make a stream bulk.
bool session_offers_lane(enum algorithm_id algorithm, uint32_t lane, uint32_t *ret_min,
                         uint32_t *ret_threshold);

// For the holder, between reading the shared memory and believing it: whether the channel is still
// this process's. A signal handler may have forked meanwhile, and this be the child: its parent
// goes on with the memory.
bool session_is_intact(const struct session *session);

// For slot_let_go(), which may not wait for the channel.
struct slot_table *session_slots(void);

// The holder's: the channel is lost. error: the errno that showed it; descriptors that do not look
// like our own any more (anything but an end of file or a deadline) are left alone.
void session_fail(struct session *session, int error);

// The daemon's statistics learn what this process has done without it.
void session_report(void);

#endif
