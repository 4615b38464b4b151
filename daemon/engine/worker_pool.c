// SPDX-License-Identifier: MIT
// Making and ending the workers. Guarantees: every descriptor that a worker needs exists before its
// thread; threads take no signals; the end waits for no thread longer than it is told. Must not
// know what a worker does in its turn.
#include "worker.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "thread.h"
#include "worker_impl.h"

static void worker_on_wake(evutil_socket_t fd, short what, void *arg)
{
    // Being woken is all: worker_main() goes round.
    (void)fd;
    (void)what;
    (void)arg;
}

// Without the time cache a turn of the loop does not ask for the time.
static struct event_base *base_new(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base;

    if (!config)
        return NULL;
    event_config_set_flag(config, EVENT_BASE_FLAG_NO_CACHE_TIME | EVENT_BASE_FLAG_IGNORE_ENV);
    base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

static int worker_init(struct worker *worker, struct worker_pool *pool, uint32_t index)
{
    worker->pool = pool;
    worker->index = index;
    worker->base = base_new();
    if (!worker->base)
        return -ENOMEM;
    worker->wake = event_new(worker->base, -1, 0, worker_on_wake, NULL);
    if (!worker->wake)
        return -ENOMEM;
    return verifier_new(pool->settings.verify, pool->settings.on_distrust, pool->settings.user,
                        &worker->verifier);
}

int worker_pool_new(const struct worker_settings *settings, struct worker_pool **ret)
{
    struct worker_pool *pool;
    int r;

    if (settings->n_workers == 0 || settings->n_workers > WORKER_COUNT_MAX)
        return -EINVAL;
    pool = calloc(1, sizeof(*pool) + settings->n_workers * sizeof(struct worker));
    if (!pool)
        return -ENOMEM;
    r = -pthread_mutex_init(&pool->replacing, NULL);
    if (r < 0) {
        free(pool);
        return r;
    }
    pool->settings = *settings;
    pool->has_one_cpu = sysconf(_SC_NPROCESSORS_ONLN) == 1;
    r = fair_queue_new(&pool->queue);
    for (uint32_t i = 0; r == 0 && i < settings->n_workers; i++)
        r = worker_init(&pool->workers[i], pool, i);
    if (r < 0) {
        worker_pool_free(pool);
        return r;
    }
    *ret = pool;
    return 0;
}

static int worker_start(struct worker *worker)
{
    int r = thread_start(worker_main, worker, &worker->thread);

    worker->running = r == 0;
    return r;
}

int worker_pool_start(struct worker_pool *pool)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < pool->settings.n_workers; i++)
        r = worker_start(&pool->workers[i]);
    return r;
}

bool worker_pool_stop(struct worker_pool *pool, uint32_t timeout_ms)
{
    const struct timespec until = thread_deadline(CLOCK_REALTIME, timeout_ms);
    bool all = true;

    atomic_store(&pool->stop, true);
    for (uint32_t i = 0; i < pool->settings.n_workers; i++)
        if (pool->workers[i].running)
            event_active(pool->workers[i].wake, EV_READ, 0);
    for (uint32_t i = 0; i < pool->settings.n_workers; i++) {
        struct worker *worker = &pool->workers[i];

        if (worker->running && pthread_timedjoin_np(worker->thread, NULL, &until) == 0)
            worker->running = false;
        all = all && !worker->running;
    }
    while (pool->n_lost > 0 &&
           pthread_timedjoin_np(pool->lost[pool->n_lost - 1], NULL, &until) == 0)
        pool->n_lost--;
    return all && pool->n_lost == 0;
}

static void worker_fini(struct worker *worker)
{
    verifier_free(worker->verifier);
    if (worker->wake)
        event_free(worker->wake);
    if (worker->base)
        event_base_free(worker->base); // finalizes the seats that are on their way
}

void worker_pool_free(struct worker_pool *pool)
{
    struct fair_item *item;
    uint32_t n_left;

    if (!pool)
        return;
    while (pool->queue && (item = fair_queue_pop(pool->queue, &n_left)))
        channel_drop(item);
    for (uint32_t i = 0; i < pool->settings.n_workers; i++)
        worker_fini(&pool->workers[i]);
    fair_queue_free(pool->queue);
    pthread_mutex_destroy(&pool->replacing);
    free(pool);
}

// ---------------------------------------------------------------- workers that hang

static bool is_busy(uint64_t turn)
{
    return turn % 2 == 1;
}

void worker_pool_look(struct worker_pool *pool, uint32_t index, struct worker_look *ret)
{
    struct worker *worker = &pool->workers[index];
    struct verify_trust *trust = atomic_load(&worker->trust);
    const uint64_t turn = atomic_load(&worker->turn);
    const bool moved = turn != worker->seen_turn;

    // Who has not moved since the last look had that trust all the time.
    worker->n_seen = moved || !is_busy(turn) ? 0 : worker->n_seen + 1;
    worker->seen_turn = turn;
    *ret = (struct worker_look){.again = moved || is_busy(turn), .n_looks = worker->n_seen};
    if (worker->n_seen > 0)
        ret->trust = trust;
}

bool worker_pool_rest(struct worker_pool *pool)
{
    atomic_store(&pool->is_watched, false);
    for (uint32_t i = 0; i < pool->settings.n_workers; i++)
        if (atomic_load(&pool->workers[i].turn) != pool->workers[i].seen_turn)
            return atomic_exchange(&pool->is_watched, true);
    return true;
}

// false: its thread has come back.
static bool worker_take_over(struct worker_pool *pool, struct worker *worker)
{
    uint64_t turn = worker->seen_turn;
    bool taken;

    pthread_mutex_lock(&pool->replacing);
    taken = is_busy(turn) && atomic_compare_exchange_strong(&worker->turn, &turn, turn + 1);
    if (taken)
        channel_abandon(worker->item);
    pthread_mutex_unlock(&pool->replacing);
    return taken;
}

// What can fail comes first: after the exchange nobody else runs the worker.
int worker_pool_replace(struct worker_pool *pool, uint32_t index)
{
    struct worker *worker = &pool->workers[index];
    struct verifier *verifier;
    int r;

    if (pool->n_lost == WORKER_LOST_MAX)
        return -EUSERS;
    r = verifier_new(pool->settings.verify, pool->settings.on_distrust, pool->settings.user,
                     &verifier);
    if (r < 0)
        return r;
    if (!worker_take_over(pool, worker)) {
        verifier_free(verifier);
        return -EALREADY;
    }
    pool->lost[pool->n_lost++] = worker->thread;
    worker->verifier = verifier; // the lost thread frees its own
    return worker_start(worker);
}

struct fair_queue *worker_pool_queue(struct worker_pool *pool)
{
    return pool->queue;
}

uint32_t worker_pool_size(const struct worker_pool *pool)
{
    return pool->settings.n_workers;
}
