// SPDX-License-Identifier: MIT
// Guarantees: both sides are measured in turn, on the same data, so that a change of clock speed
// meets both. Must not know what is decided by it.
#include "measure.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS_MIN  4
#define ROUNDS_MAX  32
#define TIME_MAX_NS UINT64_C(40000000)
#define ALIGN       4096u

struct bench {
    const struct backend_ops *ops;
    const struct backend_ops *software_ops;
    struct backend_key *key;
    struct backend_key *software_key;
    uint8_t *user; // what the session has
    uint8_t *slot; // what lies in the shared memory
};

static const uint8_t bench_iv[ALGORITHM_IV_LEN_MAX] = {1};

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// ---------------------------------------------------------------- what is measured

static int run_software(struct bench *bench)
{
    return bench->software_ops->crypt(bench->software_key, true, bench_iv, bench->user, bench->user,
                                      MEASURE_SIZE);
}

static int run_request(struct bench *bench)
{
    int r;

    memcpy(bench->slot, bench->user, MEASURE_SIZE);
    r = bench->ops->crypt(bench->key, true, bench_iv, bench->slot, bench->slot, MEASURE_SIZE);
    memcpy(bench->user, bench->slot, MEASURE_SIZE);
    return r;
}

static int run_keystream(struct bench *bench)
{
    return bench->ops->keystream(bench->key, bench_iv, bench->slot, MEASURE_SIZE);
}

static void *write_slot(void *arg)
{
    const struct bench *bench = arg;

    memset(bench->slot, 0x5a, MEASURE_SIZE);
    return NULL;
}

// As the client library takes keystream: one pass, which wipes it.
static int run_take(struct bench *bench)
{
    uint64_t *user = (uint64_t *)(void *)bench->user, *slot = (uint64_t *)(void *)bench->slot;

    for (size_t i = 0; i < MEASURE_SIZE / sizeof(*user); i++) {
        user[i] ^= slot[i];
        slot[i] = 0;
    }
    __asm__ volatile("" ::: "memory");
    return 0;
}

// ---------------------------------------------------------------- rounds

static int take_time(struct bench *bench, clockid_t clock, int (*body)(struct bench *bench),
                     uint64_t *best_ns)
{
    const uint64_t start = clock_ns(clock);
    int r = body(bench);
    const uint64_t took = clock_ns(clock) - start;

    if (r == 0 && took < *best_ns)
        *best_ns = took;
    return r;
}

// The memory must come from another CPU's cache, as it will.
static int take_time_of_taking(struct bench *bench, uint64_t *best_ns)
{
    pthread_t writer;

    if (pthread_create(&writer, NULL, write_slot, bench) != 0)
        return -EAGAIN;
    pthread_join(writer, NULL);
    return take_time(bench, CLOCK_MONOTONIC, run_take, best_ns);
}

static int run_round(struct bench *bench, uint32_t makes, struct measure *best)
{
    int r = take_time(bench, CLOCK_MONOTONIC, run_software, &best->software_ns);

    if (r == 0 && makes & BACKEND_MAKES_REQUESTS)
        r = take_time(bench, CLOCK_MONOTONIC, run_request, &best->request_ns);
    if (r < 0 || !(makes & BACKEND_MAKES_KEYSTREAM))
        return r;
    r = take_time(bench, CLOCK_MONOTONIC, run_keystream, &best->keystream_ns);
    if (r == 0)
        r = take_time(bench, CLOCK_THREAD_CPUTIME_ID, run_keystream, &best->keystream_cpu_ns);
    return r == 0 ? take_time_of_taking(bench, &best->take_ns) : r;
}

static int run_rounds(struct bench *bench, uint32_t makes, struct measure *ret)
{
    struct measure best = {MEASURE_NONE, MEASURE_NONE, MEASURE_NONE, MEASURE_NONE, MEASURE_NONE};
    const uint64_t start = clock_ns(CLOCK_MONOTONIC);
    int r = 0;

    for (int i = 0; r == 0 && i < ROUNDS_MAX; i++) {
        if (i >= ROUNDS_MIN && clock_ns(CLOCK_MONOTONIC) - start > TIME_MAX_NS)
            break;
        r = run_round(bench, makes, &best);
    }
    if (r == 0)
        *ret = best;
    return r;
}

int measure_run(const struct backend_ops *ops, struct backend *backend,
                const struct backend_ops *software_ops, struct backend *software,
                enum algorithm_id algorithm, uint32_t makes, struct measure *ret)
{
    struct bench bench = {.ops = ops, .software_ops = software_ops};
    uint8_t key[ALGORITHM_KEY_MAX];
    int r;

    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t)(i * 37 + 1);
    bench.user = aligned_alloc(ALIGN, MEASURE_SIZE);
    bench.slot = aligned_alloc(ALIGN, MEASURE_SIZE);
    r = bench.user && bench.slot ? 0 : -ENOMEM;
    if (r == 0) {
        memset(bench.user, 0, MEASURE_SIZE);
        r = ops->open(backend, algorithm, key, &bench.key);
    }
    if (r == 0)
        r = software_ops->open(software, algorithm, key, &bench.software_key);
    if (r == 0)
        r = run_rounds(&bench, makes, ret);
    ops->close(bench.key);
    software_ops->close(bench.software_key);
    free(bench.user);
    free(bench.slot);
    return r;
}

// ---------------------------------------------------------------- what follows

bool measure_request_gains(const struct measure *measure)
{
    return measure->request_ns != MEASURE_NONE &&
           measure->request_ns < measure->software_ns - measure->software_ns / 10;
}

bool measure_keystream_gains(const struct measure *measure, uint32_t n_cpus, bool hardware)
{
    const uint64_t software = measure->software_ns;

    if (measure->keystream_ns == MEASURE_NONE)
        return false;
    if (hardware)
        return measure->take_ns + (n_cpus > 1 ? 0 : measure->keystream_cpu_ns) <
                   software - software / 10 &&
               measure->keystream_ns < software * 2;
    return n_cpus > 1 && measure->take_ns <= software / 2 &&
           measure->keystream_ns <= software + software / 10;
}
