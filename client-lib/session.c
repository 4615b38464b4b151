// SPDX-License-Identifier: MIT
// The process's one channel. See session.h. Must not know what streams are.
#include "session.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
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
#include "wire.h"

// A forked child of a program whose last try failed does not try again so soon: a daemon that hangs
// must not cost every fork the whole timeout.
#define SESSION_RETRY_MS 5000u

// Everything below is the holder's, but for `holder` and `held`, which only a fork handler reads.
static struct session session = {.control = -1, .bell = -1};
static pthread_mutex_t session_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_t session_holder;
static bool session_held;

static bool session_wanted; // children open one of their own
static char session_path[WIRE_PATH_SIZE];
static unsigned session_timeout_ms;
static bool session_failed;
static uint64_t session_failed_ms;

static void session_hold(void)
{
    session_holder = pthread_self();
    session_held = true;
}

static void session_unlock(void)
{
    session_held = false;
    pthread_mutex_unlock(&session_mutex);
}

// From here on nobody finds a channel.
static void session_withdraw(void)
{
    atomic_store_explicit(&session.live, false, memory_order_release);
    for (uint32_t i = 0; i < ALGORITHM_COUNT; i++)
        atomic_store_explicit(&session.lanes[i], 0, memory_order_relaxed);
    slot_table_reset(&session.slots, 0);
    session.late = session.lost = 0;
}

// The mapping stays until the channel is released: the holder may still have pointers into it.
static void session_drop(bool close_descriptors)
{
    session_withdraw();
    if (close_descriptors && session.control >= 0)
        close(session.control);
    if (close_descriptors && session.bell >= 0)
        close(session.bell);
    session.control = session.bell = -1;
}

void session_fail(struct session *c, int error)
{
    if (c->control < 0)
        return;
    if (fork_is_ours())
        keystream_table_wipe(c);
    switch (error) {
    case -ENODATA:
    case -ECONNRESET:
    case -EPIPE:
    case -EBADMSG:
    case -ETIMEDOUT:
        session_drop(true);
        break;
    default: // -EBADF and whatever else a stranger's file may say
        session_drop(false);
    }
}

static void session_publish_offers(const struct message_hello_reply *reply)
{
    session_wanted = false;
    for (uint32_t i = 0; i < ALGORITHM_COUNT; i++) {
        uint32_t lanes = reply->offer[i].lanes;
        if (session.keystream.n_most == 0)
            lanes &= ~MESSAGE_LANE_KEYSTREAM;
        if (lanes & ~MESSAGE_LANE_SOFTWARE)
            session_wanted = true; // otherwise a child has nothing to gain from one
        atomic_store_explicit(&session.lanes[i], lanes, memory_order_relaxed);
        atomic_store_explicit(&session.request_min[i], reply->offer[i].request_min,
                              memory_order_relaxed);
    }
    atomic_store_explicit(&session.bulk_threshold, reply->bulk_threshold, memory_order_relaxed);
    atomic_store_explicit(&session.live, true, memory_order_release);
}

static int session_connect(void)
{
    struct handshake made;
    int r = handshake_run(session_path, session_timeout_ms, &made);

    session_failed = r < 0;
    if (r < 0) {
        session_failed_ms = clock_now_ms();
        return r;
    }
    session.control = made.control;
    session.bell = made.bell;
    session.map = made.map;
    session.deadline_ms = made.reply.deadline_ms;
    session.spins = relax_count(made.reply.spin_us);
    session.sequence = session.deadlines = session.request_slot = 0;
    session.late = session.lost = 0;
    slot_table_reset(&session.slots, made.map.n_streams);
    keystream_table_reset(&session.keystream, made.map.n_slots, made.reply.keystream_slots);
    session_publish_offers(&made.reply);
    return 0;
}

// Gives this process a copy of the parent's shared memory in the same place.
static void session_make_map_private(void)
{
    if (!session.map.base)
        return;
    void *copy =
        mmap(NULL, session.map.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return;
    memcpy(copy, session.map.base, session.map.size);
    if (mremap(copy, session.map.size, session.map.size, MREMAP_MAYMOVE | MREMAP_FIXED,
               session.map.base) == MAP_FAILED)
        (void)munmap(copy, session.map.size);
}

static void session_child(void)
{
    // A signal handler may fork in the middle of a request: this very thread holds the channel and
    // will go on with it. It finds the channel lost, and memory that is its own.
    bool inside = session_held && pthread_equal(session_holder, pthread_self());

    session_drop(true);
    counters_reset();
    if (inside) {
        session_make_map_private();
    } else {
        // Another thread that held it is not in this process: nobody would ever unlock it.
        session_mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        session_held = false;
        shm_unmap(&session.map);
    }
    fork_claim();
    if (inside || !session_wanted)
        return;
    if (session_failed && clock_now_ms() - session_failed_ms < SESSION_RETRY_MS)
        return;
    secret_prepare();
    (void)session_connect();
}

// Whether the other end of a descriptor is gone.
static bool session_is_hung_up(int fd)
{
    struct pollfd item = {.fd = fd};

    return ppoll(&item, 1, &(struct timespec){0}, NULL) > 0;
}

static int session_open(const char *path, unsigned timeout_ms)
{
    if (session.control >= 0 &&
        (session_is_hung_up(session.control) || session_is_hung_up(session.bell))) {
        session_drop(true);
        shm_unmap(&session.map);
    }
    if (session.control >= 0)
        return 0;
    secret_prepare();
    int r = fork_prepare(session_child);
    if (r == 0)
        r = wire_find_path(path, session_path);
    if (r < 0)
        return r;
    session_timeout_ms = timeout_ms;
    return session_connect();
}

int cryptod_open(const char *path, unsigned timeout_ms)
{
    int r = software_prepare();

    if (r < 0)
        return r;
    if (fork_is_foreign())
        return -ECHILD; // nobody has cleared away what this process inherited
    pthread_mutex_lock(&session_mutex);
    session_hold();
    r = session_open(path, timeout_ms);
    session_unlock();
    return r;
}

void cryptod_close(void)
{
    if (!fork_is_ours())
        return;
    pthread_mutex_lock(&session_mutex);
    session_hold();
    session_wanted = false;
    if (session.control >= 0)
        keystream_table_wipe(&session);
    session_drop(true);
    shm_unmap(&session.map);
    session_unlock();
}

struct session *session_acquire(void)
{
    if (!atomic_load_explicit(&session.live, memory_order_acquire) || !fork_is_ours() ||
        pthread_mutex_trylock(&session_mutex) != 0)
        return NULL;
    session_hold();
    if (atomic_load_explicit(&session.slots.any_let_go, memory_order_relaxed))
        slot_sweep(&session);
    if (session.control < 0) {
        session_release(&session);
        return NULL;
    }
    return &session;
}

void session_release(struct session *c)
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
        atomic_store_explicit(&header->lane_changes, counters_read(&counters_process.lane_changes),
                              memory_order_relaxed);
    } else {
        shm_unmap(&c->map);
    }
    session_unlock();
}

bool session_is_intact(const struct session *c)
{
    atomic_signal_fence(memory_order_seq_cst); // the handler is in this thread
    return c->control >= 0 && fork_is_ours();
}

void session_report(void)
{
    struct session *c = session_acquire();

    if (c)
        session_release(c);
}

struct slot_table *session_slots(void)
{
    return &session.slots;
}

bool session_offers_lane(enum algorithm_id algorithm, uint32_t lane, uint32_t *ret_min,
                         uint32_t *ret_threshold)
{
    if (!(atomic_load_explicit(&session.lanes[algorithm], memory_order_relaxed) & lane) ||
        !fork_is_ours())
        return false;
    *ret_min = atomic_load_explicit(&session.request_min[algorithm], memory_order_relaxed);
    *ret_threshold = atomic_load_explicit(&session.bulk_threshold, memory_order_relaxed);
    return true;
}

bool cryptod_offers(enum cryptod_algorithm algorithm)
{
    uint32_t request_min, threshold;

    return algorithm_get(algorithm) &&
           session_offers_lane((enum algorithm_id)algorithm, UINT32_MAX, &request_min, &threshold);
}
