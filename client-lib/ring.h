// SPDX-License-Identifier: MIT
// The client's side of the ring: requests published, bells rung, waits with a deadline, and what
// is still outstanding of requests that nobody waits for any more. For both lanes.
//
// Guarantees: a successful wait takes at most one read() and no look at the clock. Knows slots and
// sequences, nothing of what is in them.
#ifndef CRYPTOD_CLIENT_RING_H
#define CRYPTOD_CLIENT_RING_H

#include "session.h"

#define RING_SLOT_BIT(slot) (UINT64_C(1) << (slot))

// Whether requests may be published: not while any that was given up may still be written to.
bool ring_is_ready(struct session *session);

// Puts a request into the table, with a sequence of its own; request->slot has no other one
// outstanding. The engine may see it only after the next ring_publish().
void ring_put(struct session *session, struct shm_request *request);

// Publishes everything that was put, and rings the bell if the engine sleeps. 0, or what a lost
// channel says.
int ring_publish(struct session *session);

// Whether the slot's last request is done, and the engine's word on it.
bool ring_is_done(const struct session *session, uint32_t slot);
int32_t ring_result(const struct session *session, uint32_t slot);

// Waits until the slot's last request is done: looks n_spins times, then sleeps. 0, -ETIMEDOUT, or
// what a lost channel says.
int ring_wait(const struct session *session, uint32_t slot, uint32_t n_spins);

// After any trouble: counts it; nothing is published until the requests of these slots
// (RING_SLOT_BIT) are done. error -EIO: the engine's word, the channel is well; -EUSERS: the same,
// it has no room for the key, which is not counted; -ETIMEDOUT: a deadline passed, after several
// the channel is given up; else it is lost. Returns -EIO, -EUSERS, -ETIMEDOUT or -EPIPE.
int ring_give_up(struct session *session, uint64_t slots, int error);

#endif
