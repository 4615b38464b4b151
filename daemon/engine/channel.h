// SPDX-License-Identifier: MIT
// A channel as the engine sees it: the mapped memory of one client, its bell, the keys of its
// streams, and one preallocated request a slot.
//
// Everything that comes from the memory or over the bell is hostile: fields are read once into a
// local copy, checked, then used; neither the bell's peer nor holders of copies of the engine's own
// end can make a call on it block. Data is worked on in place, so a client that changes it
// meanwhile gets what it deserves, alone.
//
// Threads: the main thread opens and closes streams and reports; one worker, always the same,
// collects; any worker runs a collected request. Knows nothing of event loops, and not which
// backend does the work.
#ifndef CRYPTOD_DAEMON_CHANNEL_H
#define CRYPTOD_DAEMON_CHANNEL_H

#include <stdbool.h>

#include "fair_queue.h"
#include "keys.h"
#include "message.h"
#include "shm.h"

struct channel;

// Checks and maps memfd; takes memfd and bell on success. 0; -EMEDIUMTYPE, -ERANGE,
// -ENOSPC: not such memory (shm.h); -EPROTOTYPE: not such a bell; or another negative errno. The
// queue must outlive the channel.
int channel_new(const struct message_channel_add *add, int memfd, int bell,
                struct fair_queue *queue, struct channel **ret);

// Counted: the main thread, the worker and each request that waits or runs hold one. The last one
// unmaps, closes the bell and frees.
struct channel *channel_ref(struct channel *channel);
void channel_unref(struct channel *channel);

uint32_t channel_number(const struct channel *channel);
uint32_t channel_uid(const struct channel *channel);
uint32_t channel_pid(const struct channel *channel);
int channel_bell(const struct channel *channel); // stays the channel's

// From now on nothing is collected, and requests that wait are dropped without an answer.
void channel_kill(struct channel *channel);

// ---------------------------------------------------------------- streams (main thread)

// Copies the first n_key bytes of the key that the client left in the stream's place, and wipes the
// place. -ERANGE: no such stream; -EBUSY: it is open already (the place is wiped all the same).
int channel_take_key(struct channel *channel, uint32_t stream, uint8_t *ret_key, size_t n_key);

// Opens a stream whose key was taken; takes over the caller's reference.
void channel_set_stream(struct channel *channel, uint32_t stream, struct key *key);

// Requests that run keep the key to their end. Unknown and closed streams are ignored.
void channel_close_stream(struct channel *channel, uint32_t stream);

// All of them. Their keys are given back here or, if they are in use, at the end of a request, and
// so never in a worker's event loop.
void channel_close_streams(struct channel *channel);

uint32_t channel_count_streams(struct channel *channel); // that are open

void channel_report(struct channel *channel, struct message_engine_channel *ret);

// ---------------------------------------------------------------- the ring (the channel's worker)

// Moves all published requests into the queue. The number of them; or -EBADMSG if the client broke
// the ring's rules: then the channel is killed, and channel_fault() says how.
int channel_collect(struct channel *channel);
const char *channel_fault(
    const struct channel *channel); // NULL: no fault; any thread after the kill

// Whether something is published that was not collected. A look at memory.
bool channel_has_work(const struct channel *channel);

// Announces that nobody looks at the ring any more: the client must ring. false if there is work
// after all, and nothing was announced.
bool channel_begin_sleep(struct channel *channel);

// Takes the memory of filled keystream slots back: of all if nothing was collected since the last
// call, else of those made by a backend that has lost its trust.
void channel_tend(struct channel *channel);

// Whether channel_tend() could have anything to do. Any thread.
bool channel_holds_keystream(const struct channel *channel);

// Takes one packet off the bell. 0; -ENODATA if the client is gone or the bell broken.
int channel_answer_bell(struct channel *channel);

// ---------------------------------------------------------------- requests (any worker)

// How much an item is needed just now.
enum channel_need {
    CHANNEL_NEED_LATER, // keystream ahead of need
    CHANNEL_NEED_SOON,  // keystream, and the client has used up what it had
    CHANNEL_NEED_NOW,   // the request lane: the client waits, or does what comes next meanwhile
};
enum channel_need channel_need(const struct fair_item *item);

// The trust in who may hang with the work (key_trust()). It outlives the item.
struct verify_trust *channel_trust(const struct fair_item *item);

// Does the work of an item that channel_collect() pushed. verifier: the worker's; NULL: nothing is
// compared. Returns its result, for channel_finish(): writes the completion, rings if the client
// waits. The item must not be touched afterwards.
int channel_work(struct fair_item *item, struct verifier *verifier);
void channel_finish(struct fair_item *item, int result);

static inline void channel_run(struct fair_item *item, struct verifier *verifier)
{
    channel_finish(item, channel_work(item, verifier));
}

// Tells the client of an item that hangs in channel_work() that it and its slot are lost. Whoever
// works on it goes on having the item, and must end with channel_finish_lost(), after this.
void channel_abandon(const struct fair_item *item);
void channel_finish_lost(struct fair_item *item);

// The same without the work and without an answer, at the end of the engine.
void channel_drop(struct fair_item *item);

#endif
