// SPDX-License-Identifier: MIT
// The engine's threads. Each channel belongs to one worker, which sleeps on the bells of its
// channels; requests of all go through one fair queue. The worker that reads a bell runs the
// request itself, without a hand-over; another is woken only if more than one request waits.
//
// A worker that hangs in a driver gets a new thread, which takes over its channels and all that
// they have waiting. What the old thread has in hands stays as it is until it comes back, perhaps
// never: one request, with its key, its channel's memory and its verifier.
//
// An idle pool makes no system call. A request of a lone session costs epoll_wait, recv (bell), the
// work, send (bell); of a busy one that finds the worker still spinning, nothing but the work.
#ifndef CRYPTOD_DAEMON_WORKER_H
#define CRYPTOD_DAEMON_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "channel.h"
#include "fair_queue.h"

#define WORKER_COUNT_MAX 64u
#define WORKER_LOST_MAX  64u // threads that can be replaced in the life of a pool

struct worker_pool;
struct worker_seat; // a channel's place at its worker

struct worker_settings {
    uint32_t n_workers; // 1 .. WORKER_COUNT_MAX
    uint32_t spin_us;   // how long a worker may look at rings before it sleeps; 0: not at all
    // A channel broke the ring's rules and was killed. Called once for it, by its worker.
    void (*on_fault)(void *user);
    void *user;
    uint32_t verify; // how many results are compared: VERIFY_OFF, VERIFY_ALL or one of how many
    // A backend lost its trust. Called by the worker that found it out.
    void (*on_distrust)(void *user);
    // A worker begins a request that may hang while nobody looks whether it ends:
    // worker_pool_look() is to be called at intervals from now on. Called by the worker. NULL:
    // nobody ever looks.
    void (*on_busy)(void *user);
};

// Makes everything that needs descriptors, but no thread yet. 0 or a negative errno.
int worker_pool_new(const struct worker_settings *settings, struct worker_pool **ret);

// Starts the threads. 0 or a negative errno, after which worker_pool_stop() ends those that run.
int worker_pool_start(struct worker_pool *pool);

// Asks all threads to end and waits at most timeout_ms. true if all have ended, those that were
// replaced included; else some hang in a driver, and the process must end without
// worker_pool_free().
bool worker_pool_stop(struct worker_pool *pool, uint32_t timeout_ms);

// ---------------------------------------------------------------- workers that hang (main thread)

struct worker_look {
    bool again;                 // something runs, or did since the last look: look again
    uint32_t n_looks;           // for how many looks before this one it has been in one request
    struct verify_trust *trust; // whose request that is, if n_looks > 0; NULL: nobody's
};

// What one worker does. Looks are counted, not time: an engine that was stopped or suspended as a
// whole has not looked meanwhile, and finds nobody guilty afterwards. If none of a round wants to
// be looked at again, worker_pool_rest() may end the rounds.
void worker_pool_look(struct worker_pool *pool, uint32_t worker, struct worker_look *ret);

// From now on a worker that begins a request that may hang calls on_busy. false: one has begun
// already, and the looks must go on.
bool worker_pool_rest(struct worker_pool *pool);

// Gives the work of a worker that hangs, as the last look saw it, to a new thread. 0; -EALREADY: it
// has come back; -EUSERS: WORKER_LOST_MAX have been replaced; or another negative errno.
int worker_pool_replace(struct worker_pool *pool, uint32_t worker);

// No thread may run. Drops what is queued. Channels that were not removed are let go. NULL is
// allowed.
void worker_pool_free(struct worker_pool *pool);

struct fair_queue *worker_pool_queue(struct worker_pool *pool);
uint32_t worker_pool_size(const struct worker_pool *pool);

// Gives the channel a seat at the worker that has the fewest; takes a reference of its own. Any
// thread. 0 or a negative errno.
int worker_pool_add(struct worker_pool *pool, struct channel *channel, struct worker_seat **ret);

// Has the worker take back the keystream memory of the channel, if it has been idle since the last
// call, or what of it is not to be trusted any more. Never blocks. The main thread.
void worker_pool_tend(struct worker_seat *seat);

// Kills the channel; the worker lets go of it when it comes to it. The seat is gone for the caller.
// Never blocks.
void worker_pool_remove(struct worker_seat *seat);

#endif
