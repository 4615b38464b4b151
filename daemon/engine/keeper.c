// SPDX-License-Identifier: MIT
// Guarantees: jobs run one after another, in order; nobody waits longer than told. Must not know
// what jobs do.
#include "keeper.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "thread.h"

struct keeper {
    pthread_mutex_t mutex; // of all below but the thread
    pthread_cond_t work;
    pthread_cond_t told;
    struct keeper_job *first;
    struct keeper_job *last;
    uint64_t n_begun; // jobs
    bool runs;        // one
    bool is_late;     // it
    bool stop;
    uint64_t seen; // n_begun at the last look
    uint32_t n_seen;
    bool has_thread;
    pthread_t thread;
};

static void *keeper_main(void *arg)
{
    struct keeper *keeper = arg;

    pthread_setname_np(pthread_self(), "keeper");
    pthread_mutex_lock(&keeper->mutex);
    for (;;) {
        struct keeper_job *job = keeper->first;

        if (!job && keeper->stop)
            break;
        if (!job) {
            pthread_cond_wait(&keeper->work, &keeper->mutex);
            continue;
        }
        keeper->first = job->next;
        keeper->runs = true;
        keeper->n_begun++;
        pthread_mutex_unlock(&keeper->mutex);
        job->run(job);
        pthread_mutex_lock(&keeper->mutex);
        keeper->runs = keeper->is_late = false;
    }
    pthread_mutex_unlock(&keeper->mutex);
    return NULL;
}

static int init_conditions(struct keeper *keeper)
{
    pthread_condattr_t attr;
    int r = -pthread_condattr_init(&attr);

    if (r < 0)
        return r;
    r = -pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (r == 0)
        r = -pthread_cond_init(&keeper->told, &attr);
    pthread_condattr_destroy(&attr);
    if (r < 0)
        return r;
    r = -pthread_cond_init(&keeper->work, NULL);
    if (r < 0)
        pthread_cond_destroy(&keeper->told);
    return r;
}

int keeper_new(struct keeper **ret)
{
    struct keeper *keeper = calloc(1, sizeof(*keeper));
    int r;

    if (!keeper)
        return -ENOMEM;
    r = init_conditions(keeper);
    if (r < 0) {
        free(keeper);
        return r;
    }
    r = -pthread_mutex_init(&keeper->mutex, NULL);
    if (r < 0) {
        pthread_cond_destroy(&keeper->told);
        pthread_cond_destroy(&keeper->work);
        free(keeper);
        return r;
    }
    *ret = keeper;
    return 0;
}

void keeper_push(struct keeper *keeper, struct keeper_job *job)
{
    bool has_thread;

    job->next = NULL;
    pthread_mutex_lock(&keeper->mutex);
    if (!keeper->has_thread)
        keeper->has_thread = thread_start(keeper_main, keeper, &keeper->thread) == 0;
    has_thread = keeper->has_thread;
    if (has_thread) {
        if (keeper->first)
            keeper->last->next = job;
        else
            keeper->first = job;
        keeper->last = job;
        pthread_cond_signal(&keeper->work);
    }
    pthread_mutex_unlock(&keeper->mutex);
    if (!has_thread)
        job->run(job);
}

bool keeper_wait(struct keeper *keeper, const bool *done, uint32_t timeout_ms)
{
    const struct timespec until = thread_deadline(CLOCK_MONOTONIC, timeout_ms);
    bool is_done;

    pthread_mutex_lock(&keeper->mutex);
    while (!*done && !keeper->is_late)
        if (pthread_cond_timedwait(&keeper->told, &keeper->mutex, &until) == ETIMEDOUT) {
            keeper->is_late = !*done && keeper->runs;
            break;
        }
    is_done = *done;
    pthread_mutex_unlock(&keeper->mutex);
    return is_done;
}

void keeper_tell(struct keeper *keeper, bool *done)
{
    pthread_mutex_lock(&keeper->mutex);
    *done = true;
    pthread_cond_broadcast(&keeper->told);
    pthread_mutex_unlock(&keeper->mutex);
}

uint32_t keeper_look(struct keeper *keeper)
{
    uint32_t n_seen;

    pthread_mutex_lock(&keeper->mutex);
    keeper->n_seen = !keeper->runs ? 0 : keeper->n_begun == keeper->seen ? keeper->n_seen + 1 : 1;
    keeper->seen = keeper->n_begun;
    n_seen = keeper->n_seen;
    pthread_mutex_unlock(&keeper->mutex);
    return n_seen;
}

bool keeper_free(struct keeper *keeper, uint32_t timeout_ms)
{
    struct timespec until;

    if (!keeper)
        return true;
    pthread_mutex_lock(&keeper->mutex);
    keeper->stop = true;
    pthread_cond_signal(&keeper->work);
    pthread_mutex_unlock(&keeper->mutex);
    until = thread_deadline(CLOCK_REALTIME, timeout_ms);
    if (keeper->has_thread && pthread_timedjoin_np(keeper->thread, NULL, &until) != 0)
        return false;
    pthread_cond_destroy(&keeper->told);
    pthread_cond_destroy(&keeper->work);
    pthread_mutex_destroy(&keeper->mutex);
    free(keeper);
    return true;
}
