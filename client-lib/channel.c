// SPDX-License-Identifier: MIT
// The process's one channel. See channel.h. Must not know what streams are.
#include "channel.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "counters.h"
#include "cryptod.h"
#include "fork.h"
#include "packet.h"
#include "relax.h"
#include "secret.h"
#include "software.h"

// A forked child of a program whose last try failed does not try again so soon: a daemon that hangs
// must not cost every fork the whole timeout.
#define CHANNEL_RETRY_MS 5000u

// Everything below is the holder's, but for `holder` and `held`, which only a fork handler reads.
static struct channel channel = {.control = -1, .bell = -1};
static pthread_mutex_t channel_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_t channel_holder;
static bool channel_held;

static bool channel_wanted; // children open one of their own
static char channel_path[WIRE_PATH_SIZE];
static unsigned channel_timeout_ms;
static bool channel_failed;
static uint64_t channel_failed_ms;

static void channel_hold(void)
{
    channel_holder = pthread_self();
    channel_held = true;
}

static void channel_unlock(void)
{
    channel_held = false;
    pthread_mutex_unlock(&channel_mutex);
}

// From here on nobody finds a channel.
static void channel_withdraw(void)
{
    atomic_store_explicit(&channel.live, false, memory_order_release);
    for (uint32_t i = 0; i < ALGORITHM_COUNT; i++)
        atomic_store_explicit(&channel.lanes[i], 0, memory_order_relaxed);
    slot_table_reset(&channel.slots, 0);
    channel.outstanding = 0;
}

// The mapping stays until the channel is released: the holder may still have pointers into it.
static void channel_drop(bool close_descriptors)
{
    channel_withdraw();
    if (close_descriptors && channel.control >= 0)
        close(channel.control);
    if (close_descriptors && channel.bell >= 0)
        close(channel.bell);
    channel.control = channel.bell = -1;
}

void channel_fail(struct channel *c, int error)
{
    if (c->control < 0)
        return;
    switch (error) {
    case -ENODATA:
    case -ECONNRESET:
    case -EPIPE:
    case -EBADMSG:
    case -ETIMEDOUT:
        channel_drop(true);
        break;
    default: // -EBADF and whatever else a stranger's file may say
        channel_drop(false);
    }
}

static void channel_publish_offers(const struct message_hello_reply *reply)
{
    channel_wanted = false;
    for (uint32_t i = 0; i < ALGORITHM_COUNT; i++) {
        uint32_t lanes = reply->offer[i].lanes;
        if (lanes & ~MESSAGE_LANE_SOFTWARE)
            channel_wanted = true; // otherwise a child has nothing to gain from one
        atomic_store_explicit(&channel.lanes[i], lanes, memory_order_relaxed);
        atomic_store_explicit(&channel.request_min[i], reply->offer[i].request_min,
                              memory_order_relaxed);
    }
    atomic_store_explicit(&channel.bulk_threshold, reply->bulk_threshold, memory_order_relaxed);
    atomic_store_explicit(&channel.live, true, memory_order_release);
}

static int channel_connect(void)
{
    struct handshake made;
    int r = handshake_run(channel_path, channel_timeout_ms, &made);

    channel_failed = r < 0;
    if (r < 0) {
        channel_failed_ms = clock_now_ms();
        return r;
    }
    channel.control = made.control;
    channel.bell = made.bell;
    channel.map = made.map;
    channel.deadline_ms = made.reply.deadline_ms;
    channel.spins = relax_count(made.reply.spin_us);
    channel.sequence = channel.outstanding = channel.deadlines = 0;
    slot_table_reset(&channel.slots, made.map.n_streams);
    channel_publish_offers(&made.reply);
    return 0;
}

// Gives this process a copy of the parent's shared memory in the same place.
static void channel_make_map_private(void)
{
    if (!channel.map.base)
        return;
    void *copy =
        mmap(NULL, channel.map.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return;
    memcpy(copy, channel.map.base, channel.map.size);
    if (mremap(copy, channel.map.size, channel.map.size, MREMAP_MAYMOVE | MREMAP_FIXED,
               channel.map.base) == MAP_FAILED)
        (void)munmap(copy, channel.map.size);
}

static void channel_child(void)
{
    // A signal handler may fork in the middle of a request: this very thread holds the channel and
    // will go on with it. It finds the channel lost, and memory that is its own.
    bool inside = channel_held && pthread_equal(channel_holder, pthread_self());

    channel_drop(true);
    counters_reset();
    if (inside) {
        channel_make_map_private();
    } else {
        // Another thread that held it is not in this process: nobody would ever unlock it.
        channel_mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        channel_held = false;
        shm_unmap(&channel.map);
    }
    fork_claim();
    if (inside || !channel_wanted)
        return;
    if (channel_failed && clock_now_ms() - channel_failed_ms < CHANNEL_RETRY_MS)
        return;
    secret_prepare();
    (void)channel_connect();
}

static int channel_open(const char *path, unsigned timeout_ms)
{
    if (channel.control >= 0)
        return 0;
    secret_prepare();
    int r = fork_prepare(channel_child);
    if (r == 0)
        r = wire_find_path(path, channel_path);
    if (r < 0)
        return r;
    channel_timeout_ms = timeout_ms;
    return channel_connect();
}

int cryptod_open(const char *path, unsigned timeout_ms)
{
    int r = software_prepare();

    if (r < 0)
        return r;
    if (fork_is_foreign())
        return -ECHILD; // nobody has cleared away what this process inherited
    pthread_mutex_lock(&channel_mutex);
    channel_hold();
    r = channel_open(path, timeout_ms);
    channel_unlock();
    return r;
}

void cryptod_close(void)
{
    if (!fork_is_ours())
        return;
    pthread_mutex_lock(&channel_mutex);
    channel_hold();
    channel_wanted = false;
    channel_drop(true);
    shm_unmap(&channel.map);
    channel_unlock();
}

struct channel *channel_acquire(void)
{
    if (!atomic_load_explicit(&channel.live, memory_order_acquire) || !fork_is_ours() ||
        pthread_mutex_trylock(&channel_mutex) != 0)
        return NULL;
    channel_hold();
    if (atomic_load_explicit(&channel.slots.any_let_go, memory_order_relaxed))
        slot_sweep(&channel);
    if (channel.control < 0) {
        channel_release(&channel);
        return NULL;
    }
    return &channel;
}

void channel_release(struct channel *c)
{
    if (atomic_load_explicit(&c->slots.any_let_go, memory_order_relaxed))
        slot_sweep(c);
    if (c->control >= 0) {
        struct shm_header *header = shm_header(&c->map);
        atomic_store_explicit(&header->software_bytes,
                              counters_read(&counters_process.software_bytes),
                              memory_order_relaxed);
        atomic_store_explicit(&header->fallbacks, counters_read(&counters_process.fallbacks),
                              memory_order_relaxed);
    } else {
        shm_unmap(&c->map);
    }
    channel_unlock();
}

void channel_report(void)
{
    struct channel *c = channel_acquire();

    if (c)
        channel_release(c);
}

struct slot_table *channel_slots(void)
{
    return &channel.slots;
}

bool channel_offers_lane(enum algorithm_id algorithm, uint32_t lane, uint32_t *ret_min,
                         uint32_t *ret_threshold)
{
    if (!(atomic_load_explicit(&channel.lanes[algorithm], memory_order_relaxed) & lane) ||
        !fork_is_ours())
        return false;
    *ret_min = atomic_load_explicit(&channel.request_min[algorithm], memory_order_relaxed);
    *ret_threshold = atomic_load_explicit(&channel.bulk_threshold, memory_order_relaxed);
    return true;
}

bool cryptod_offers(enum cryptod_algorithm algorithm)
{
    uint32_t request_min, threshold;

    return algorithm_get(algorithm) &&
           channel_offers_lane((enum algorithm_id)algorithm, UINT32_MAX, &request_min, &threshold);
}
