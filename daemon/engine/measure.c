// SPDX-License-Identifier: MIT
// Guarantees: both sides are measured in turn, on the same data, so that a change of clock speed
// meets both. Must not know what is decided by it.
#include "measure.h"

#include <errno.h>
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

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int run_lane(struct bench *bench)
{
    const uint8_t iv[ALGORITHM_IV_LEN_MAX] = {1};
    int r;

    memcpy(bench->slot, bench->user, MEASURE_SIZE);
    r = bench->ops->crypt(bench->key, true, iv, bench->slot, bench->slot, MEASURE_SIZE);
    memcpy(bench->user, bench->slot, MEASURE_SIZE);
    return r;
}

static int run_software(struct bench *bench)
{
    const uint8_t iv[ALGORITHM_IV_LEN_MAX] = {1};

    return bench->software_ops->crypt(bench->software_key, true, iv, bench->user, bench->user,
                                      MEASURE_SIZE);
}

static int take_time(struct bench *bench, int (*body)(struct bench *bench), uint64_t *best_ns)
{
    const uint64_t start = now_ns();
    int r = body(bench);
    const uint64_t took = now_ns() - start;

    if (r == 0 && took < *best_ns)
        *best_ns = took;
    return r;
}

static int run_rounds(struct bench *bench, struct measure *ret)
{
    struct measure best = {.lane_ns = UINT64_MAX, .software_ns = UINT64_MAX};
    const uint64_t start = now_ns();
    int r = 0;

    for (int i = 0; r == 0 && i < ROUNDS_MAX; i++) {
        if (i >= ROUNDS_MIN && now_ns() - start > TIME_MAX_NS)
            break;
        r = take_time(bench, run_lane, &best.lane_ns);
        if (r == 0)
            r = take_time(bench, run_software, &best.software_ns);
    }
    if (r == 0)
        *ret = best;
    return r;
}

int measure_request(const struct backend_ops *ops, struct backend *backend,
                    const struct backend_ops *software_ops, struct backend *software,
                    enum algorithm_id algorithm, struct measure *ret)
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
        r = run_rounds(&bench, ret);
    ops->close(bench.key);
    software_ops->close(bench.software_key);
    free(bench.user);
    free(bench.slot);
    return r;
}

bool measure_gains(const struct measure *measure)
{
    return measure->lane_ns < measure->software_ns - measure->software_ns / 10;
}
