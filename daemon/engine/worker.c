// SPDX-License-Identifier: MIT
// The seats of channels, and what a worker does in its turn. Guarantees: no wake-up is lost (who
// sleeps has announced it before the last look, who publishes looks for sleepers after), and
// nothing here waits for another worker. Must not know messages, keys or backends.
#include "worker.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "worker_impl.h"

#define SPIN_LOOKS       32 // looks at the rings between two at the clock
#define SPIN_SKIP_MAX    63 // sleeps without spinning, after spinning has not helped for long
#define RUNS_UNHEARD_MAX 4
#define BACKLOG_FOR_TWO  12
#define LOOP_FOR_EVENT   (EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY)
#define LOOP_FOR_LOOK    (EVLOOP_NONBLOCK | EVLOOP_NO_EXIT_ON_EMPTY)

// ---------------------------------------------------------------- seats

static void seat_sit_up(struct worker_seat *seat)
{
    if (seat->awake)
        return;
    seat->awake = true;
    seat->next_awake = seat->worker->awake;
    seat->worker->awake = seat;
}

static void seat_lie_down(struct worker_seat *seat)
{
    struct worker_seat **link = &seat->worker->awake;

    if (!seat->awake)
        return;
    while (*link != seat)
        link = &(*link)->next_awake;
    *link = seat->next_awake;
    seat->awake = false;
}

// The client is gone, or its ring is not looked at any more: only the main thread's removal can
// follow.
static void seat_go_deaf(struct worker_seat *seat)
{
    event_del(seat->bell);
    seat_lie_down(seat);
}

static void seat_on_bell(evutil_socket_t fd, short what, void *arg)
{
    struct worker_seat *seat = arg;

    (void)fd;
    (void)what;
    if (channel_answer_bell(seat->channel) < 0) {
        channel_kill(seat->channel);
        seat_go_deaf(seat);
        return;
    }
    seat_sit_up(seat);
}

static void seat_on_tend(evutil_socket_t fd, short what, void *arg)
{
    struct worker_seat *seat = arg;

    (void)fd;
    (void)what;
    channel_tend(seat->channel);
}

// In the worker's thread (or when its base is freed), after which libevent does not know the seat
// any more.
static void seat_on_final(struct event *event, void *arg)
{
    struct worker_seat *seat = arg;

    (void)event;
    seat_lie_down(seat);
    event_free(seat->tend);
    atomic_fetch_sub(&seat->worker->n_seats, 1);
    channel_unref(seat->channel);
    free(seat);
}

static void seat_free_events(struct worker_seat *seat)
{
    if (seat->bell)
        event_free(seat->bell);
    if (seat->tend)
        event_free(seat->tend);
}

static struct worker *pool_choose_worker(struct worker_pool *pool)
{
    struct worker *best = &pool->workers[0];

    for (uint32_t i = 1; i < pool->settings.n_workers; i++)
        if (atomic_load(&pool->workers[i].n_seats) < atomic_load(&best->n_seats))
            best = &pool->workers[i];
    return best;
}

int worker_pool_add(struct worker_pool *pool, struct channel *channel, struct worker_seat **ret)
{
    struct worker *worker = pool_choose_worker(pool);
    struct worker_seat *seat = calloc(1, sizeof(*seat));

    if (!seat)
        return -ENOMEM;
    seat->worker = worker;
    seat->bell =
        event_new(worker->base, channel_bell(channel), EV_READ | EV_PERSIST, seat_on_bell, seat);
    seat->tend = event_new(worker->base, -1, 0, seat_on_tend, seat);
    if (!seat->bell || !seat->tend) {
        seat_free_events(seat);
        free(seat);
        return -ENOMEM;
    }
    seat->channel = channel_ref(channel);
    atomic_fetch_add(&worker->n_seats, 1);
    if (event_add(seat->bell, NULL) < 0) {
        // Not known to the loop yet: nobody else can be using it.
        event_free(seat->bell);
        seat_on_final(NULL, seat);
        return -EIO;
    }
    *ret = seat;
    return 0;
}

void worker_pool_tend(struct worker_seat *seat)
{
    event_active(seat->tend, EV_TIMEOUT, 0);
}

void worker_pool_remove(struct worker_seat *seat)
{
    channel_kill(seat->channel);
    event_free_finalize(0, seat->bell, seat_on_final);
}

// ---------------------------------------------------------------- a worker's turn

// Moves what the awake channels have published into the queue.
static void worker_collect(struct worker *worker)
{
    struct worker_seat *next;

    for (struct worker_seat *seat = worker->awake; seat; seat = next) {
        next = seat->next_awake;
        if (channel_collect(seat->channel) < 0) {
            seat_go_deaf(seat);
            worker->pool->settings.on_fault(worker->pool->settings.user);
        }
    }
}

static uint64_t bit_of(const struct worker *worker)
{
    return UINT64_C(1) << worker->index;
}

static void worker_wake_another(struct worker *worker)
{
    struct worker_pool *pool = worker->pool;
    uint64_t idle = atomic_load(&pool->idle) & ~bit_of(worker);

    while (idle != 0) {
        const uint64_t bit = idle & -idle;

        idle &= ~bit;
        if (atomic_fetch_and(&pool->idle, ~bit) & bit) {
            event_active(pool->workers[__builtin_ctzll(bit)].wake, EV_READ, 0);
            return;
        }
    }
}

// For requests always: one worker prepares while an engine has another one's. With keystream ahead
// of need a second worker takes a CPU from the session and its peer: only if somebody waits for it,
// or much is left to do, and never the only CPU.
static bool worker_needs_help(const struct worker *worker, enum channel_need need, uint32_t n_left)
{
    if (need == CHANNEL_NEED_NOW)
        return true;
    return !worker->pool->has_one_cpu && (need == CHANNEL_NEED_SOON || n_left >= BACKLOG_FOR_TWO);
}

// Ordered with worker_pool_rest(): either this sees that nobody looks, or that sees this request.
static uint64_t worker_begin_request(struct worker *worker, struct fair_item *item)
{
    struct worker_pool *pool = worker->pool;
    struct verify_trust *trust = channel_trust(item);
    const uint64_t turn = atomic_load_explicit(&worker->turn, memory_order_relaxed) + 1;

    worker->item = item;
    atomic_store_explicit(&worker->trust, trust, memory_order_relaxed);
    atomic_store(&worker->turn, turn);
    if (trust && pool->settings.on_busy && !atomic_load(&pool->is_watched) &&
        !atomic_exchange(&pool->is_watched, true))
        pool->settings.on_busy(pool->settings.user);
    return turn;
}

// false: the thread has been replaced meanwhile, and nothing of the worker is its own any more.
static bool worker_end_request(struct worker *worker, uint64_t turn)
{
    return atomic_compare_exchange_strong(&worker->turn, &turn, turn + 1);
}

// Whoever replaced this thread may still be at the item.
static void worker_finish_lost(struct worker_pool *pool, struct fair_item *item)
{
    pthread_mutex_lock(&pool->replacing);
    pthread_mutex_unlock(&pool->replacing);
    channel_finish_lost(item);
}

enum worker_ran { WORKER_RAN_NOTHING, WORKER_RAN_ONE, WORKER_IS_LOST };

static enum worker_ran worker_run_one(struct worker *worker, struct verifier *verifier)
{
    uint32_t n_left;
    struct fair_item *item = fair_queue_pop(worker->pool->queue, &n_left);

    if (!item)
        return WORKER_RAN_NOTHING;
    const enum channel_need need = channel_need(item);
    if (n_left > 0 && worker_needs_help(worker, need, n_left))
        worker_wake_another(worker);
    // A session or its peer may wait for this CPU: it goes first.
    if (need == CHANNEL_NEED_LATER && !worker->pool->has_one_cpu)
        sched_yield();
    const uint64_t turn = worker_begin_request(worker, item);
    const int result = channel_work(item, verifier);
    if (!worker_end_request(worker, turn)) {
        worker_finish_lost(worker->pool, item);
        return WORKER_IS_LOST;
    }
    channel_finish(item, result);
    return WORKER_RAN_ONE;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool worker_sees_work(const struct worker *worker)
{
    for (const struct worker_seat *seat = worker->awake; seat; seat = seat->next_awake)
        if (channel_has_work(seat->channel))
            return true;
    return fair_queue_count(worker->pool->queue) > 0;
}

static bool worker_spin(struct worker *worker)
{
    const uint64_t end = now_ns() + worker->pool->settings.spin_us * UINT64_C(1000);

    do {
        for (int i = 0; i < SPIN_LOOKS; i++) {
            if (worker_sees_work(worker))
                return true;
            relax();
        }
    } while (now_ns() < end);
    return false;
}

// Spinning pays only while clients come back within the time; each time in a row that they do not,
// the next try is put off for longer, so that a session with a slower rhythm costs no processor
// time.
static bool worker_spin_if_worthwhile(struct worker *worker)
{
    if (worker->pool->settings.spin_us == 0 || !worker->awake)
        return false;
    if (worker->spin_skip > 0) {
        worker->spin_skip--;
        return false;
    }
    if (worker_spin(worker)) {
        worker->spin_skip_next = 0;
        return true;
    }
    worker->spin_skip_next = worker->spin_skip_next * 2 + 1;
    if (worker->spin_skip_next > SPIN_SKIP_MAX)
        worker->spin_skip_next = SPIN_SKIP_MAX;
    worker->spin_skip = worker->spin_skip_next;
    return false;
}

// false if there is work after all.
static bool worker_begin_sleep(struct worker *worker)
{
    while (worker->awake) {
        if (!channel_begin_sleep(worker->awake->channel))
            return false;
        seat_lie_down(worker->awake);
    }
    return true;
}

static void worker_sleep(struct worker *worker)
{
    struct worker_pool *pool = worker->pool;
    const uint64_t bit = bit_of(worker);

    atomic_fetch_or(&pool->idle, bit);
    if (fair_queue_count(pool->queue) == 0 && !atomic_load(&pool->stop))
        event_base_loop(worker->base, LOOP_FOR_EVENT);
    atomic_fetch_and(&pool->idle, ~bit);
}

void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct worker_pool *pool = worker->pool;
    struct verifier *verifier = worker->verifier;
    unsigned n_unheard = 0; // requests run since the bells were last listened to
    char name[16];

    (void)snprintf(name, sizeof(name), "worker-%u", worker->index);
    pthread_setname_np(pthread_self(), name);
    while (!atomic_load(&pool->stop)) {
        worker_collect(worker);
        const enum worker_ran ran = worker_run_one(worker, verifier);
        if (ran == WORKER_IS_LOST) {
            verifier_free(verifier);
            break;
        }
        if (ran == WORKER_RAN_ONE) {
            // What waits may be of one uid alone, and a lone client that is always quick to come
            // back keeps the worker from ever sleeping: the bells of others must be heard.
            if (++n_unheard < RUNS_UNHEARD_MAX)
                continue;
            event_base_loop(worker->base, LOOP_FOR_LOOK);
            n_unheard = 0;
        } else if (!worker_spin_if_worthwhile(worker) && worker_begin_sleep(worker)) {
            worker_sleep(worker);
            n_unheard = 0;
        }
    }
    return NULL;
}
