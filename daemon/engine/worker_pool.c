// SPDX-License-Identifier: MIT
// Making and ending the workers. Guarantees: every descriptor that a worker needs exists before its
// thread; threads take no signals; the end waits for no thread longer than it is told. Must not
// know what a worker does in its turn.
#include "worker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "worker_impl.h"

#define WORKER_STACK ((size_t)256 * 1024) // bytes; OpenSSL and libkcapi need a few KiB

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
    pthread_attr_t attr;
    int r = -pthread_attr_init(&attr);

    if (r < 0)
        return r;
    r = -pthread_attr_setstacksize(&attr, WORKER_STACK);
    if (r == 0)
        r = -pthread_create(&worker->thread, &attr, worker_main, worker);
    pthread_attr_destroy(&attr);
    worker->running = r == 0;
    return r;
}

// Signals are the main thread's: one that hit a worker would cut a driver's call short.
int worker_pool_start(struct worker_pool *pool)
{
    sigset_t all, before;
    int r = 0;

    sigfillset(&all);
    sigdelset(&all, SIGSYS); // SANDBOX_TRAP's handler names the call
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; r == 0 && i < pool->settings.n_workers; i++)
        r = worker_start(&pool->workers[i]);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

bool worker_pool_stop(struct worker_pool *pool, uint32_t timeout_ms)
{
    struct timespec until;
    bool all = true;

    atomic_store(&pool->stop, true);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(timeout_ms / 1000);
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    for (uint32_t i = 0; i < pool->settings.n_workers; i++)
        if (pool->workers[i].running)
            event_active(pool->workers[i].wake, EV_READ, 0);
    for (uint32_t i = 0; i < pool->settings.n_workers; i++) {
        struct worker *worker = &pool->workers[i];

        if (worker->running && pthread_timedjoin_np(worker->thread, NULL, &until) == 0)
            worker->running = false;
        all = all && !worker->running;
    }
    return all;
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
    free(pool);
}

struct fair_queue *worker_pool_queue(struct worker_pool *pool)
{
    return pool->queue;
}

uint32_t worker_pool_size(const struct worker_pool *pool)
{
    return pool->settings.n_workers;
}
