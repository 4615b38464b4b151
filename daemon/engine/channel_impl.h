// SPDX-License-Identifier: MIT
// The inside of a channel, for channel.c (life and streams) and channel_ring.c (ring and requests)
// alone.
#ifndef CRYPTOD_DAEMON_CHANNEL_IMPL_H
#define CRYPTOD_DAEMON_CHANNEL_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "channel.h"

struct request {
    struct fair_item item; // first: the queue hands it back
    struct channel *channel;
    struct key *key; // NULL: its stream was closed
    uint32_t sequence;
    uint32_t n_bytes;
    uint32_t operation; // SHM_OP_*
    uint8_t iv[ALGORITHM_IV_LEN_MAX];
    const struct verify_trust *rests_on; // of keystream that was not compared; else NULL
    _Atomic bool busy;                   // waits or runs
    bool allocated;  // a keystream slot with pages; whoever made it busy, else the collector
    uint32_t tended; // sequence + 1 when it was last looked at for idleness; the collector's
};

struct stream {
    struct key *key;
    bool was_open; // at some time
};

struct channel {
    _Atomic uint32_t n_refs;
    _Atomic bool dead;
    uint32_t number;
    uint32_t uid;
    uint32_t pid;
    int bell;
    int memfd;
    struct shm_map map;
    struct fair_queue *queue;
    struct fair_user *user;
    const char *fault; // written before dead
    struct statistics statistics;
    uint32_t taken;               // requests collected, modulo 2^32; the collecting worker's
    _Atomic uint32_t n_allocated; // keystream slots with pages
    pthread_mutex_t mutex;        // the streams
    uint32_t n_open;
    struct stream streams[SHM_STREAMS_MAX];
    struct request requests[]; // one a slot
};

static inline int channel_take_quota(struct channel *channel, enum quota_kind kind, uint64_t n)
{
    return quota_take(fair_queue_quota(channel->queue), fair_user_share(channel->user), kind, n);
}

static inline void channel_give_quota(struct channel *channel, enum quota_kind kind, uint64_t n)
{
    quota_give(fair_queue_quota(channel->queue), fair_user_share(channel->user), kind, n);
}

// Requests that are published and not collected.
static inline uint32_t channel_count_pending(const struct channel *channel)
{
    return atomic_load_explicit(&shm_header(&channel->map)->submitted, memory_order_acquire) -
           channel->taken;
}

#endif
