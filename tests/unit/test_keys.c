// SPDX-License-Identifier: MIT
// Keys of a driver that takes few: counted, taken from who is idle, set again on demand; a lack of
// them is an error of nobody.
#include "keys.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "reference.h"
#include "ring_rig.h"

TestSuite(keys, .timeout = 120);

#define N_BYTES 512u

static struct {
    struct backend *fault, *cpu;
    struct statistics statistics;
    struct verify_trust trust;
    struct key_room *room;
    struct key_count count;
} rig;
static _Atomic uint32_t n_wrong; // results

static void setup(const char *fault)
{
    const struct backend_settings settings = {.workers = 4, .fault = fault};

    memset(&rig, 0, sizeof(rig));
    cr_assert_eq(backend_fault_ops.init(&settings, &rig.fault), 0);
    cr_assert_eq(backend_cpu_ops.init(&settings, &rig.cpu), 0);
    cr_assert_eq(key_room_new(&rig.room), 0);
}

static void teardown(void)
{
    key_room_free(rig.room); // after the keeper's last job
    cr_expect_eq(n_wrong, 0);
    cr_expect_eq(rig.count.n_set, 0);
    backend_fault_ops.fini(rig.fault);
    backend_cpu_ops.fini(rig.cpu);
}

static int open_key(uint32_t seed, struct key **ret)
{
    const struct key_source source = {
        .info = algorithm_get(ALGORITHM_AES_128_CBC),
        .ops = &backend_fault_ops,
        .backend = rig.fault,
        .reference_ops = &backend_cpu_ops,
        .reference = rig.cpu,
        .statistics = &rig.statistics,
        .trust = &rig.trust,
        .room = rig.room,
        .count = &rig.count,
    };
    uint8_t bytes[ALGORITHM_KEY_MAX];

    ring_fill(bytes, sizeof(bytes), seed);
    return key_open(&source, bytes, ret);
}

// By a thread that may not fail a test.
static int use(struct key *key, uint32_t seed)
{
    uint8_t bytes[ALGORITHM_KEY_MAX], iv[ALGORITHM_IV_LEN_MAX] = {9};
    uint8_t data[N_BYTES], want[N_BYTES];

    ring_fill(bytes, sizeof(bytes), seed);
    ring_fill(data, sizeof(data), seed + 1);
    reference_crypt(ALGORITHM_AES_128_CBC, bytes, iv, true, want, data, N_BYTES);
    int r = key_crypt(key, NULL, true, iv, data, N_BYTES);
    if (r == 0 && memcmp(data, want, N_BYTES) != 0)
        atomic_fetch_add(&n_wrong, 1);
    return r;
}

static void become_idle(void)
{
    const struct timespec pause = {.tv_sec = KEY_ROOM_IDLE_MS / 1000, .tv_nsec = 100000000};

    nanosleep(&pause, NULL);
}

Test(keys, a_busy_stream_keeps_its_own)
{
    struct key *keys[3], *more = NULL;

    setup("keys=3");
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_eq(open_key(i, &keys[i]), 0);
    cr_expect_eq(rig.count.n_set, 3);
    cr_expect_eq(open_key(3, &more), -EUSERS);
    cr_expect_null(more);
    cr_expect_eq(rig.count.n_lacks, 1);
    for (uint32_t i = 0; i < 3; i++)
        cr_expect_eq(use(keys[i], i), 0);
    key_unref(keys[1]);
    cr_assert_eq(open_key(3, &more), 0, "one has gone: the keeper does that first");
    cr_expect_eq(use(more, 3), 0);
    key_unref(more);
    key_unref(keys[0]);
    key_unref(keys[2]);
    cr_expect_eq(rig.statistics.errors, 0);
    cr_expect_not(verify_is_lost(&rig.trust));
    teardown();
}

// The one that has not been used for longest, and it does not notice.
Test(keys, an_idle_stream_gives_its_own)
{
    struct key *keys[3], *more[2];

    setup("keys=3");
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_eq(open_key(i, &keys[i]), 0);
    cr_expect_eq(use(keys[0], 0), 0);
    become_idle();
    cr_expect_eq(use(keys[2], 2), 0);
    cr_assert_eq(open_key(3, &more[0]), 0, "that of 1");
    cr_assert_eq(open_key(4, &more[1]), 0, "that of 0");
    cr_expect_eq(rig.count.n_set, 3);
    cr_expect_eq(use(keys[2], 2), 0);
    cr_expect_eq(use(keys[1], 1), -EUSERS, "all others are busy");
    become_idle();
    for (int round = 0; round < 3; round++) {
        cr_expect_eq(use(keys[1], 1), 0, "set again");
        cr_expect_eq(use(keys[0], 0), 0);
    }
    cr_expect_eq(rig.count.n_set, 3);
    cr_expect_eq(rig.count.n_lacks, 1);
    cr_expect_eq(rig.statistics.errors, 0, "a lack is no error");
    for (uint32_t i = 0; i < 3; i++)
        key_unref(keys[i]);
    key_unref(more[0]);
    key_unref(more[1]);
    teardown();
}

// Who sets a key may never come back. One waits for it, a little; nobody does after that.
Test(keys, nobody_waits_for_a_driver_that_hangs)
{
    struct timespec before, after;
    struct key *key = NULL;

    setup("open_hangs");
    cr_expect_eq(open_key(0, &key), -ETIMEDOUT);
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (uint32_t i = 0; i < 1000; i++)
        cr_expect_eq(open_key(i, &key), -ETIMEDOUT);
    clock_gettime(CLOCK_MONOTONIC, &after);
    cr_expect_lt(after.tv_sec - before.tv_sec, 60, "1000 times a quarter of a second would be 250");
    cr_expect_null(key);
    for (uint32_t i = 1; i < 4; i++)
        cr_expect_eq(keeper_look(key_room_keeper(rig.room)), i);
    cr_expect_not(keeper_free(key_room_keeper(rig.room), 0));
}

// Other errors are errors, also where a key is set again.
Test(keys, an_error_is_no_lack)
{
    struct key *key = NULL;

    setup("open_error");
    cr_expect_eq(open_key(0, &key), -EIO);
    cr_expect_eq(rig.count.n_lacks, 0);
    teardown();
}

// A key of a driver that hangs is not closed, which could hang too. (Its memory is the process's to
// the end, on purpose.)
Test(keys, of_a_driver_that_hangs_are_left_to_the_kernel)
{
    struct key *key, *more = NULL;

    setup("keys=1");
    cr_assert_eq(open_key(0, &key), 0);
    verify_lose_hung(&rig.trust);
    cr_expect_eq(use(key, 0), -EKEYREVOKED);
    key_unref(key); // the keeper may have its own reference still
    for (int i = 0; i < 1000 && rig.count.n_set > 0; i++)
        usleep(10000);
    cr_expect_eq(rig.count.n_set, 0);
    cr_expect_eq(open_key(1, &more), -EUSERS, "the backend has it still");
}

// ---------------------------------------------------------------- several at once

static struct key *shared[8];
static _Atomic uint32_t n_served, n_lacked, n_else;
static _Atomic bool is_over;

static void *use_all(void *arg)
{
    const uint32_t from = *(const uint32_t *)arg;

    for (uint32_t i = 0; !atomic_load(&is_over); i++) {
        const uint32_t k = (from + i * (from + 1)) % 8;
        int r = use(shared[k], k);

        atomic_fetch_add(r == 0 ? &n_served : r == -EUSERS ? &n_lacked : &n_else, 1);
    }
    return NULL;
}

// Eight streams, room for two, three threads; each key is used by several, taken out and set again.
Test(keys, are_shared_by_threads)
{
    static const uint32_t from[] = {0, 1, 2};
    pthread_t threads[3];

    setup("keys=2,jitter_us=200");
    for (uint32_t i = 0; i < 8; i++) {
        cr_assert_eq(open_key(i, &shared[i]), 0);
        if (i % 2 == 1)
            become_idle();
    }
    for (int i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, use_all, (void *)&from[i]), 0);
    for (int i = 0; i < 3; i++)
        become_idle();
    atomic_store(&is_over, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    cr_expect_gt(n_served, 0);
    cr_expect_gt(n_lacked, 0);
    cr_expect_eq(n_else, 0);
    cr_expect_leq(rig.count.n_set, 2);
    for (uint32_t i = 0; i < 8; i++)
        key_unref(shared[i]);
    cr_expect_eq(rig.statistics.errors, 0);
    teardown();
}
