// SPDX-License-Identifier: MIT
// Guarantees: the time is shared out anew before each job, and a driver that was too slow once
// comes last from then on, so it costs the others one share; what was measured so far can be had at
// any time. Must not know rows or clients.
#include "calibration.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "thread.h"

#define BULK 6u // index of 64 KiB
// The thread gives way to others; but not so much that a busy machine with one CPU learns nothing.
#define NICE      5
#define NS_PER_MS UINT64_C(1000000)

_Static_assert(CALIBRATION_JOBS_MAX == 32, "a bit a job");

struct result {
    int error;
    struct measure_table table;
};

struct calibration {
    void (*on_change)(void *user);
    void *user;
    int bell[2];
    pthread_t thread;
    bool has_thread;
    _Atomic bool cancelled;
    uint32_t n_jobs; // constant during a run, as the jobs
    struct measure_subject jobs[CALIBRATION_JOBS_MAX];
    pthread_mutex_t mutex; // of all below
    struct calibration_progress progress;
    struct result results[CALIBRATION_JOBS_MAX];
};

// ---------------------------------------------------------------- the thread

static void on_size(void *user)
{
    struct calibration *calibration = user;

    pthread_mutex_lock(&calibration->mutex);
    calibration->progress.done++;
    pthread_mutex_unlock(&calibration->mutex);
    calibration->on_change(calibration->user);
}

// Without the figures of 64 KiB there is nothing to be decided.
static bool is_telling(const struct measure_table *table)
{
    return table->costs[MESSAGE_COST_SOFTWARE].ns[BULK] != MEASURE_NONE &&
           (table->costs[MESSAGE_COST_REQUEST].ns[BULK] != MEASURE_NONE ||
            table->costs[MESSAGE_COST_TAKE].ns[BULK] != MEASURE_NONE);
}

// Of the jobs that are not done, those of drivers that have not been too slow come first. There is
// one.
static uint32_t pick_job(const struct calibration *calibration, uint32_t done, uint32_t slow)
{
    uint32_t first = CALIBRATION_JOBS_MAX;

    for (uint32_t i = 0; i < calibration->n_jobs; i++) {
        const struct measure_subject *job = &calibration->jobs[i];
        bool is_slow = false;

        if (done & 1u << i)
            continue;
        for (uint32_t k = 0; k < calibration->n_jobs; k++)
            is_slow = is_slow || ((slow & 1u << k) && calibration->jobs[k].ops == job->ops &&
                                  strcmp(calibration->jobs[k].driver, job->driver) == 0);
        if (!is_slow)
            return i;
        if (first == CALIBRATION_JOBS_MAX)
            first = i;
    }
    return first;
}

// Whether it was fast enough.
static bool run_job(struct calibration *calibration, struct measure_bench *bench, uint32_t job,
                    uint32_t n_left, uint64_t end_ns)
{
    const uint64_t now = measure_now_ns();
    const struct measure_limits limits = {
        .until_ns = now + (end_ns > now ? (end_ns - now) / n_left : 0),
        .cancelled = &calibration->cancelled,
        .on_size = on_size,
        .user = calibration,
    };
    struct result result;

    measure_table_clear(&result.table);
    result.error = measure_run(bench, &calibration->jobs[job], &limits, &result.table);
    if (result.error == 0 && !is_telling(&result.table))
        result.error = -ETIMEDOUT;
    pthread_mutex_lock(&calibration->mutex);
    calibration->results[job] = result;
    pthread_mutex_unlock(&calibration->mutex);
    return result.error != -ETIMEDOUT;
}

static void run_jobs(struct calibration *calibration, struct measure_bench *bench, uint64_t end_ns)
{
    uint32_t done = 0, slow = 0; // bits

    for (uint32_t n_left = calibration->n_jobs; n_left > 0 && !calibration->cancelled; n_left--) {
        const uint32_t job = pick_job(calibration, done, slow);

        pthread_mutex_lock(&calibration->mutex);
        calibration->progress.job = job;
        pthread_mutex_unlock(&calibration->mutex);
        if (!run_job(calibration, bench, job, n_left, end_ns))
            slow |= 1u << job;
        done |= 1u << job;
    }
}

static void *calibration_main(void *arg)
{
    struct calibration *calibration = arg;
    const uint64_t end_ns = measure_now_ns() + CALIBRATION_TIME_MS * NS_PER_MS;
    struct measure_bench *bench = NULL;
    int r;

    pthread_setname_np(pthread_self(), "calibration");
    r = measure_bench_new(calibration->bell, &bench);
    // Only now: a session that waits for a bell is no less important than others.
    (void)setpriority(PRIO_PROCESS, 0, NICE);
    if (r == 0)
        run_jobs(calibration, bench, end_ns);
    measure_bench_free(bench);
    pthread_mutex_lock(&calibration->mutex);
    for (uint32_t i = 0; r < 0 && i < calibration->n_jobs; i++)
        calibration->results[i].error = r;
    calibration->progress.ended = true;
    pthread_mutex_unlock(&calibration->mutex);
    calibration->on_change(calibration->user);
    return NULL;
}

// ---------------------------------------------------------------- the main thread

int calibration_start(struct calibration *calibration, const struct measure_subject *jobs,
                      uint32_t n_jobs)
{
    int r;

    if (calibration->has_thread)
        return -EBUSY;
    if (n_jobs == 0 || n_jobs > CALIBRATION_JOBS_MAX)
        return -EINVAL;
    memcpy(calibration->jobs, jobs, n_jobs * sizeof(jobs[0]));
    calibration->n_jobs = n_jobs;
    calibration->progress = (struct calibration_progress){.total = n_jobs * MESSAGE_SIZES};
    for (uint32_t i = 0; i < n_jobs; i++)
        calibration->results[i].error = -ETIMEDOUT;
    r = pthread_create(&calibration->thread, NULL, calibration_main, calibration);
    calibration->has_thread = r == 0;
    return -r;
}

void calibration_get_progress(struct calibration *calibration, struct calibration_progress *ret)
{
    pthread_mutex_lock(&calibration->mutex);
    *ret = calibration->progress;
    pthread_mutex_unlock(&calibration->mutex);
}

int calibration_get_result(struct calibration *calibration, uint32_t job, struct measure_table *ret)
{
    int r = -ETIMEDOUT;

    pthread_mutex_lock(&calibration->mutex);
    if (job < calibration->n_jobs) {
        r = calibration->results[job].error;
        if (r == 0)
            *ret = calibration->results[job].table;
    }
    pthread_mutex_unlock(&calibration->mutex);
    return r;
}

bool calibration_finish(struct calibration *calibration)
{
    struct calibration_progress progress;

    calibration_get_progress(calibration, &progress);
    if (!calibration->has_thread || !progress.ended)
        return !calibration->has_thread;
    pthread_join(calibration->thread, NULL);
    calibration->has_thread = false;
    return true;
}

bool calibration_stop(struct calibration *calibration, uint32_t timeout_ms)
{
    struct timespec end;

    if (!calibration->has_thread)
        return true;
    calibration->cancelled = true;
    end = thread_deadline(CLOCK_REALTIME, timeout_ms);
    if (pthread_timedjoin_np(calibration->thread, NULL, &end) != 0)
        return false;
    calibration->has_thread = false;
    calibration->cancelled = false;
    return true;
}

int calibration_new(void (*on_change)(void *user), void *user, struct calibration **ret)
{
    struct calibration *calibration = calloc(1, sizeof(*calibration));
    int r;

    if (!calibration)
        return -ENOMEM;
    calibration->on_change = on_change;
    calibration->user = user;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, calibration->bell) < 0) {
        r = -errno;
        free(calibration);
        return r;
    }
    r = -pthread_mutex_init(&calibration->mutex, NULL);
    if (r < 0) {
        close(calibration->bell[0]);
        close(calibration->bell[1]);
        free(calibration);
        return r;
    }
    *ret = calibration;
    return 0;
}

void calibration_free(struct calibration *calibration)
{
    if (!calibration)
        return;
    pthread_mutex_destroy(&calibration->mutex);
    close(calibration->bell[0]);
    close(calibration->bell[1]);
    free(calibration);
}
