// SPDX-License-Identifier: MIT
// A channel's ring and its requests. Guarantees: no value from the client is used before it was
// copied and checked; a slot has one request at a time; nothing is allocated. Must not open or
// close anything.
#include "channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "channel_impl.h"

static bool is_dead(const struct channel *channel)
{
    return atomic_load_explicit(&channel->dead, memory_order_acquire);
}

// ---------------------------------------------------------------- the ring

// The one read of a request. Volatile, or a compiler might look at a field again after it was
// checked.
static void copy_request(const struct shm_map *map, uint32_t sequence, struct shm_request *ret)
{
    const volatile uint8_t *from = (const volatile uint8_t *)shm_request(map, sequence);
    uint8_t *to = (uint8_t *)ret;

    for (size_t i = 0; i < sizeof(*ret); i += sizeof(uint64_t)) {
        uint64_t word = *(const volatile uint64_t *)(const volatile void *)(from + i);

        memcpy(to + i, &word, sizeof(word));
    }
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
    uint8_t all = 0;

    for (size_t i = 0; i < n; i++)
        all |= bytes[i];
    return all == 0;
}

// What can be said of a request without its stream. NULL, or what is wrong with it.
static const char *check_request(const struct channel *channel, const struct shm_request *asked)
{
    if (asked->sequence != channel->taken)
        return "a request out of sequence";
    if (asked->stream >= channel->map.n_streams)
        return "a request for a stream out of range";
    if (asked->operation != SHM_OP_ENCRYPT && asked->operation != SHM_OP_DECRYPT &&
        asked->operation != SHM_OP_KEYSTREAM)
        return "a request for an unknown operation";
    if (asked->slot >= channel->map.n_slots)
        return "a request for a slot out of range";
    // Slots of the request lane have pages of the client's, the others get and lose the engine's.
    if ((asked->operation == SHM_OP_KEYSTREAM) != (asked->slot >= SHM_SLOTS_REQUEST))
        return "a request in a slot of the other lane";
    if (asked->n_bytes == 0 || asked->n_bytes > SHM_SLOT_SIZE)
        return "a request of a wrong length";
    if (!is_zero(asked->reserved, sizeof(asked->reserved)))
        return "a request with reserved bytes set";
    return NULL;
}

static uint32_t unit_of(const struct shm_request *asked, const struct algorithm_info *info)
{
    return asked->operation == SHM_OP_KEYSTREAM ? info->n_cipher_block : info->n_block;
}

// The key of the request's stream. A stream that was open once and is closed now gives none, and
// the request fails alone: a close may overtake requests that the client has given up waiting for.
static const char *find_key(struct channel *channel, const struct shm_request *asked,
                            struct key **ret)
{
    const struct stream *stream = &channel->streams[asked->stream];
    const char *fault = NULL;
    struct key *key = NULL;

    pthread_mutex_lock(&channel->mutex);
    if (stream->key)
        key = key_ref(stream->key);
    else if (!stream->was_open)
        fault = "a request for a stream that was never opened";
    pthread_mutex_unlock(&channel->mutex);
    if (key && asked->n_bytes % unit_of(asked, key_info(key)) != 0) {
        key_unref(key);
        return "a request that is not a multiple of the block";
    }
    if (!fault)
        *ret = key;
    return fault;
}

static void complete(const struct channel *channel, uint32_t slot, uint32_t sequence, int result);

static const char *take_request(struct channel *channel)
{
    struct request *request;
    struct shm_request asked;
    const char *fault;

    copy_request(&channel->map, channel->taken, &asked);
    fault = check_request(channel, &asked);
    if (fault)
        return fault;
    request = &channel->requests[asked.slot];
    if (atomic_load_explicit(&request->busy, memory_order_acquire))
        return "a request in a slot that is in use";
    if (channel_take_quota(channel, QUOTA_REQUESTS, 1) < 0) {
        channel->taken++;
        complete(channel, asked.slot, asked.sequence, -EDQUOT);
        return NULL;
    }
    fault = find_key(channel, &asked, &request->key);
    if (fault) {
        channel_give_quota(channel, QUOTA_REQUESTS, 1);
        return fault;
    }
    request->sequence = asked.sequence;
    request->n_bytes = asked.n_bytes;
    request->item.n_bytes = asked.n_bytes;
    request->operation = asked.operation;
    request->rests_on = NULL;
    memcpy(request->iv, asked.iv, sizeof(request->iv));
    atomic_store_explicit(&request->busy, true, memory_order_relaxed);
    channel_ref(channel);
    channel->taken++;
    fair_queue_push(channel->queue, channel->user, &request->item);
    return NULL;
}

int channel_collect(struct channel *channel)
{
    const char *fault = NULL;
    uint32_t n;

    if (is_dead(channel))
        return 0;
    n = channel_count_pending(channel);
    if (n > channel->map.n_slots)
        fault = "more requests than slots";
    for (uint32_t i = 0; i < n && !fault; i++)
        fault = take_request(channel);
    if (fault) {
        channel->fault = fault;
        channel_kill(channel);
        return -EBADMSG;
    }
    return (int)n;
}

const char *channel_fault(const struct channel *channel)
{
    return is_dead(channel) ? channel->fault : NULL;
}

bool channel_has_work(const struct channel *channel)
{
    return channel_count_pending(channel) != 0 && !is_dead(channel);
}

bool channel_begin_sleep(struct channel *channel)
{
    struct shm_header *header = shm_header(&channel->map);

    shm_wait_begin(&header->engine_waits);
    if (!channel_has_work(channel))
        return true;
    shm_wait_end(&header->engine_waits);
    return false;
}

// MSG_DONTWAIT and not O_NONBLOCK: the client may have kept a copy of this end of the bell, with
// which it could take the flag, and the packet that poll has promised, away.
int channel_answer_bell(struct channel *channel)
{
    uint8_t byte;
    ssize_t n = recv(channel->bell, &byte, sizeof(byte), MSG_DONTWAIT);

    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return 0;
    return -ENODATA;
}

// ---------------------------------------------------------------- requests

static void complete(const struct channel *channel, uint32_t slot, uint32_t sequence, int result)
{
    struct shm_done *done = shm_done(&channel->map, slot);
    const uint8_t byte = 1;

    atomic_store_explicit(&done->result, result, memory_order_relaxed);
    atomic_store_explicit(&done->sequence, sequence + 1, memory_order_release);
    // A full bell rings already, and a client that is gone needs none.
    if (shm_must_ring_slot(&shm_header(&channel->map)->client_waits, slot))
        (void)send(channel->bell, &byte, sizeof(byte), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static uint32_t slot_of(const struct request *request)
{
    return (uint32_t)(request - request->channel->requests);
}

static int keystream_request(struct request *request, struct verifier *verifier)
{
    struct channel *channel = request->channel;
    uint32_t slot = slot_of(request);
    int r;

    if (!request->allocated) {
        r = channel_take_quota(channel, QUOTA_MEMORY, SHM_SLOT_SIZE);
        if (r < 0)
            return r;
        r = shm_slot_allocate(channel->memfd, slot);
        if (r < 0) {
            channel_give_quota(channel, QUOTA_MEMORY, SHM_SLOT_SIZE);
            return r;
        }
        request->allocated = true;
        atomic_fetch_add_explicit(&channel->n_allocated, 1, memory_order_relaxed);
    }
    return key_keystream(request->key, verifier, request->iv, shm_data(&channel->map, slot),
                         request->n_bytes, &request->rests_on);
}

static int crypt_request(struct request *request, struct verifier *verifier)
{
    struct channel *channel = request->channel;

    if (!request->key)
        return -ENOKEY;
    if (request->operation == SHM_OP_KEYSTREAM)
        return keystream_request(request, verifier);
    return key_crypt(request->key, verifier, request->operation == SHM_OP_ENCRYPT, request->iv,
                     shm_data(&channel->map, slot_of(request)), request->n_bytes);
}

// The request is free again, and not this thread's any more, before the client can know that it may
// reuse the slot.
static void release_request(struct request *request)
{
    struct key *key = request->key;

    request->key = NULL;
    channel_give_quota(request->channel, QUOTA_REQUESTS, 1);
    atomic_store_explicit(&request->busy, false, memory_order_release);
    key_unref(key);
}

enum channel_need channel_need(const struct fair_item *item)
{
    const struct request *request = (const struct request *)(const void *)item;
    _Atomic uint32_t *waits = &shm_header(&request->channel->map)->client_waits;

    if (request->operation != SHM_OP_KEYSTREAM)
        return CHANNEL_NEED_NOW;
    return atomic_load_explicit(waits, memory_order_relaxed) != 0 ? CHANNEL_NEED_SOON
                                                                  : CHANNEL_NEED_LATER;
}

struct verify_trust *channel_trust(const struct fair_item *item)
{
    const struct request *request = (const struct request *)(const void *)item;

    return request->key ? key_trust(request->key) : NULL;
}

// The same for keystream, which may lie there for long: whether it can be trusted is asked under
// the mutex, as in take_back(), so that one of both sees what the other one did. Of keystream that
// is refused nothing is left.
static int release_keystream(struct request *request, int result)
{
    struct channel *channel = request->channel;
    const struct verify_trust *rests_on = request->rests_on;

    pthread_mutex_lock(&channel->mutex);
    if (result == 0 && rests_on && verify_is_lost(rests_on))
        result = -EKEYREVOKED;
    if (result < 0 && request->allocated)
        explicit_bzero(shm_data(&channel->map, slot_of(request)), request->n_bytes);
    release_request(request);
    pthread_mutex_unlock(&channel->mutex);
    return result;
}

static struct request *request_of(struct fair_item *item)
{
    return (struct request *)(void *)item;
}

int channel_work(struct fair_item *item, struct verifier *verifier)
{
    struct request *request = request_of(item);

    return is_dead(request->channel) ? -ESHUTDOWN : crypt_request(request, verifier);
}

static int release(struct request *request, int result)
{
    if (request->operation == SHM_OP_KEYSTREAM)
        return release_keystream(request, result);
    release_request(request);
    return result;
}

void channel_finish(struct fair_item *item, int result)
{
    struct request *request = request_of(item);
    struct channel *channel = request->channel;
    const uint32_t sequence = request->sequence, slot = slot_of(request);
    const uint32_t n_bytes = request->n_bytes;

    result = release(request, result);
    if (result == 0)
        statistics_add(&channel->statistics, n_bytes);
    else if (result != -ENOKEY && result != -ESHUTDOWN)
        statistics_add_error(&channel->statistics);
    if (result != -ESHUTDOWN)
        complete(channel, slot, sequence, result);
    channel_unref(channel);
}

void channel_abandon(const struct fair_item *item)
{
    const struct request *request = (const struct request *)(const void *)item;
    struct channel *channel = request->channel;

    statistics_add_error(&channel->statistics);
    if (!is_dead(channel))
        complete(channel, slot_of(request), request->sequence, SHM_RESULT_LOST);
}

// The slot stays busy until here, so nobody else works in it even if the client asks.
void channel_finish_lost(struct fair_item *item)
{
    struct request *request = request_of(item);
    struct channel *channel = request->channel;

    (void)release(request, -EKEYREVOKED);
    channel_unref(channel);
}

void channel_drop(struct fair_item *item)
{
    struct request *request = request_of(item);
    struct channel *channel = request->channel;

    release_request(request);
    channel_unref(channel);
}
