// SPDX-License-Identifier: MIT
// The keystream memory of channels that do not use it. Guarantees: what a client has begun to use
// stays, and what is taken back is nobody's keystream any more. Must not collect or run requests.
#include "channel.h"

#include "channel_impl.h"

// Called by the collector: no request can enter a slot meanwhile. One that is filled is the
// engine's if the client has not begun to use it, and its keystream goes with the pages.
static void take_back(struct channel *channel, uint32_t slot)
{
    struct request *request = &channel->requests[slot];

    if (!shm_claim(shm_done(&channel->map, slot), SHM_CLAIM_ENGINE))
        return;
    if (shm_slot_free(channel->memfd, slot) < 0)
        return; // the pages stay, and nobody uses them until the client asks again
    request->allocated = false;
    channel_give_quota(channel, QUOTA_MEMORY, SHM_SLOT_SIZE);
    atomic_fetch_sub_explicit(&channel->n_allocated, 1, memory_order_relaxed);
}

bool channel_holds_keystream(const struct channel *channel)
{
    return atomic_load_explicit(&channel->n_allocated, memory_order_relaxed) > 0;
}

// Filled before the last look already, or made by whom nobody trusts any more.
static bool is_to_be_taken(struct channel *channel, uint32_t slot, bool any_pending)
{
    struct request *request = &channel->requests[slot];
    bool taken = false;

    pthread_mutex_lock(&channel->mutex);
    if (!atomic_load_explicit(&request->busy, memory_order_acquire) && request->allocated) {
        taken = (request->tended == request->sequence + 1 && !any_pending) ||
                (request->rests_on && verify_is_lost(request->rests_on));
        request->tended = request->sequence + 1;
    }
    pthread_mutex_unlock(&channel->mutex);
    return taken;
}

void channel_tend(struct channel *channel)
{
    const bool any_pending = channel_count_pending(channel) != 0; // perhaps for one of these slots

    for (uint32_t slot = SHM_SLOTS_REQUEST; slot < channel->map.n_slots; slot++)
        if (is_to_be_taken(channel, slot, any_pending))
            take_back(channel, slot);
}
