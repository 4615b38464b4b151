// SPDX-License-Identifier: MIT
// A channel's life and its streams. Guarantees: the memory stays mapped and the bell open until the
// last user is gone; a key leaves the shared memory in the same moment as it is read. Must not look
// at the ring.
#include "channel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "channel_impl.h"

static int check_bell(int fd)
{
    int value;
    socklen_t n = sizeof(value);

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &n) < 0 || value != AF_UNIX)
        return -EPROTOTYPE;
    n = sizeof(value);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &n) < 0 || value != SOCK_SEQPACKET)
        return -EPROTOTYPE;
    return 0;
}

static int map_memory(struct channel *channel, const struct message_channel_add *add, int memfd)
{
    int r = shm_attach(memfd, add->n_slots, add->n_streams, &channel->map);

    if (r < 0)
        return r;
    // Best effort: no kernel in use lacks it, and the process leaves no core anyway.
    (void)madvise(channel->map.base, channel->map.size, MADV_DONTDUMP);
    return 0;
}

int channel_new(const struct message_channel_add *add, int memfd, int bell,
                struct fair_queue *queue, struct channel **ret)
{
    struct channel *channel;
    int r = check_bell(bell);

    if (r < 0)
        return r;
    if (add->n_slots == 0 || add->n_slots > SHM_SLOTS_MAX)
        return -ERANGE;
    channel = calloc(1, sizeof(*channel) + add->n_slots * sizeof(struct request));
    if (!channel)
        return -ENOMEM;
    r = -pthread_mutex_init(&channel->mutex, NULL);
    if (r < 0)
        goto fail_free;
    r = map_memory(channel, add, memfd);
    if (r < 0)
        goto fail_mutex;
    r = fair_queue_get_user(queue, add->uid, &channel->user);
    if (r < 0)
        goto fail_map;
    atomic_init(&channel->n_refs, 1);
    channel->number = add->channel;
    channel->uid = add->uid;
    channel->pid = add->pid;
    channel->bell = bell;
    channel->memfd = memfd;
    channel->queue = queue;
    for (uint32_t i = 0; i < add->n_slots; i++)
        channel->requests[i].channel = channel;
    shm_wait_begin(&shm_header(&channel->map)->engine_waits);
    *ret = channel;
    return 0;

fail_map:
    shm_unmap(&channel->map);
fail_mutex:
    pthread_mutex_destroy(&channel->mutex);
fail_free:
    free(channel);
    return r;
}

static uint64_t locked_memory(const struct channel *channel)
{
    return (uint64_t)atomic_load_explicit(&channel->n_allocated, memory_order_relaxed) *
           SHM_SLOT_SIZE;
}

struct channel *channel_ref(struct channel *channel)
{
    atomic_fetch_add_explicit(&channel->n_refs, 1, memory_order_relaxed);
    return channel;
}

void channel_unref(struct channel *channel)
{
    if (!channel || atomic_fetch_sub_explicit(&channel->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    for (uint32_t i = 0; i < SHM_STREAMS_MAX; i++)
        key_unref(channel->streams[i].key);
    quota_give(fair_queue_quota(channel->queue), fair_user_share(channel->user), QUOTA_MEMORY,
               locked_memory(channel));
    fair_queue_put_user(channel->queue, channel->user);
    shm_unmap(&channel->map);
    close(channel->bell);
    close(channel->memfd);
    pthread_mutex_destroy(&channel->mutex);
    free(channel);
}

uint32_t channel_number(const struct channel *channel)
{
    return channel->number;
}

uint32_t channel_uid(const struct channel *channel)
{
    return channel->uid;
}

uint32_t channel_pid(const struct channel *channel)
{
    return channel->pid;
}

int channel_bell(const struct channel *channel)
{
    return channel->bell;
}

void channel_kill(struct channel *channel)
{
    atomic_store(&channel->dead, true);
}

// ---------------------------------------------------------------- streams

int channel_take_key(struct channel *channel, uint32_t stream, uint8_t *ret_key, size_t n_key)
{
    volatile uint8_t *place;
    bool open;

    if (stream >= channel->map.n_streams)
        return -ERANGE;
    pthread_mutex_lock(&channel->mutex);
    open = channel->streams[stream].key != NULL;
    pthread_mutex_unlock(&channel->mutex);
    place = shm_stream(&channel->map, stream)->key;
    for (size_t i = 0; !open && i < n_key; i++)
        ret_key[i] = place[i];
    for (size_t i = 0; i < sizeof(shm_stream(&channel->map, stream)->key); i++)
        place[i] = 0;
    return open ? -EBUSY : 0;
}

void channel_set_stream(struct channel *channel, uint32_t stream, struct key *key)
{
    pthread_mutex_lock(&channel->mutex);
    channel->streams[stream] = (struct stream){.key = key, .was_open = true};
    channel->n_open++;
    pthread_mutex_unlock(&channel->mutex);
}

void channel_close_stream(struct channel *channel, uint32_t stream)
{
    struct key *key;

    if (stream >= channel->map.n_streams)
        return;
    pthread_mutex_lock(&channel->mutex);
    key = channel->streams[stream].key;
    channel->streams[stream].key = NULL;
    if (key)
        channel->n_open--;
    pthread_mutex_unlock(&channel->mutex);
    key_unref(key);
}

void channel_close_streams(struct channel *channel)
{
    for (uint32_t i = 0; i < channel->map.n_streams; i++)
        channel_close_stream(channel, i);
}

uint32_t channel_count_streams(struct channel *channel)
{
    uint32_t n;

    pthread_mutex_lock(&channel->mutex);
    n = channel->n_open;
    pthread_mutex_unlock(&channel->mutex);
    return n;
}

static uint32_t count_requests(struct channel *channel)
{
    uint32_t n = 0;

    for (uint32_t slot = 0; slot < channel->map.n_slots; slot++)
        n += atomic_load_explicit(&channel->requests[slot].busy, memory_order_relaxed);
    return n;
}

void channel_report(struct channel *channel, struct message_engine_channel *ret)
{
    struct shm_header *header = shm_header(&channel->map);

    *ret = (struct message_engine_channel){
        .channel = channel->number,
        .streams = channel_count_streams(channel),
        .operations = statistics_get(&channel->statistics.operations),
        .bytes = statistics_get(&channel->statistics.bytes),
        .software_bytes = statistics_get(&header->software_bytes),
        .fallbacks = statistics_get(&header->fallbacks),
        .lane_changes = statistics_get(&header->lane_changes),
        .locked_memory = locked_memory(channel),
        .requests = count_requests(channel),
    };
}
