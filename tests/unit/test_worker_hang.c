// SPDX-License-Identifier: MIT
// Workers that hang in a driver: found by looks alone, replaced, and what they had is theirs until
// they come back, if ever.
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "ring_rig.h"
#include "worker.h"

TestSuite(worker_hang, .timeout = 120);

static struct ring_pool pool;
static const uint8_t key[ALGORITHM_KEY_MAX] = {7};

static void pause_ms(long ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

// Looks until the worker has been seen n times in one request.
static struct worker_look look_until(uint32_t worker, uint32_t n_looks)
{
    struct worker_look look;

    for (int i = 0; i < 2000; i++) {
        worker_pool_look(pool.workers, worker, &look);
        if (look.n_looks >= n_looks)
            return look;
        pause_ms(10);
    }
    cr_assert_fail("no worker hangs");
    return look;
}

static void submit(struct ring_client *client, uint32_t stream)
{
    struct shm_request request = ring_client_make(client, stream, true, 4096);

    ring_client_submit(client, &request);
}

// Two streams: the driver hangs with the first one's.
static void setup_client(struct ring_client *client)
{
    ring_client_setup(client, &pool, 1, 4, 2);
    ring_client_open(client, 0, ALGORITHM_AES_256_CBC, key);
    ring_client_open(client, 1, ALGORITHM_AES_128_CBC, key);
}

// One worker for all: its channels, and what they have waiting, go over to the new thread.
Test(worker_hang, another_thread_takes_over)
{
    struct ring_client hangs, other;

    ring_pool_setup(&pool, 1, 0, "hang_after=0,algorithm=aes-256-cbc");
    setup_client(&hangs);
    setup_client(&other);
    submit(&hangs, 0);
    submit(&hangs, 1);
    const struct worker_look look = look_until(0, 3);
    cr_expect(look.again);
    cr_expect_eq(look.trust, &pool.trust);
    cr_expect_not(ring_client_is_done(&hangs, 1), "it has the only worker");
    cr_assert_eq(worker_pool_replace(pool.workers, 0), 0);
    cr_expect_eq(ring_client_wait(&hangs, 0), SHM_RESULT_LOST);
    cr_expect_eq(ring_client_wait(&hangs, 1), 0);
    ring_client_expect_right(&hangs, 1, ALGORITHM_AES_128_CBC, key, true, 4096);
    ring_client_expect_right(&other, 1, ALGORITHM_AES_128_CBC, key, false, 64);
    cr_expect_eq(worker_pool_replace(pool.workers, 0), -EALREADY, "nobody hangs now");
    // The memory of the request stays mapped, and the pool knows that a thread is in it.
    ring_client_teardown(&hangs);
    ring_client_teardown(&other);
    cr_expect_not(worker_pool_stop(pool.workers, 200));
}

// It comes back after all: what it had is given back, once, and the client is told nothing more.
Test(worker_hang, a_lost_thread_comes_back)
{
    struct ring_client client;

    ring_pool_setup(&pool, 1, 0, "hang_after=0,hang_ms=700,algorithm=aes-256-cbc");
    setup_client(&client);
    submit(&client, 0);
    look_until(0, 3);
    cr_assert_eq(worker_pool_replace(pool.workers, 0), 0);
    cr_expect_eq(ring_client_wait(&client, 0), SHM_RESULT_LOST);
    memset(shm_data(&client.map, 0), 0x55, 16);
    ring_client_expect_right(&client, 1, ALGORITHM_AES_128_CBC, key, true, 4096);
    pause_ms(800);
    ring_client_expect_right(&client, 1, ALGORITHM_AES_128_CBC, key, true, 4096);
    cr_expect_eq(ring_client_wait(&client, 0), SHM_RESULT_LOST);
    ring_client_teardown(&client);
    ring_pool_teardown(&pool); // all have ended, and all is given back
}

// The channel goes first, the thread comes back to its memory and lets go of it.
Test(worker_hang, a_lost_thread_outlives_its_channel)
{
    struct ring_client client;

    ring_pool_setup(&pool, 2, 0, "hang_after=0,hang_ms=500");
    setup_client(&client);
    submit(&client, 0);
    look_until(0, 2);
    cr_assert_eq(worker_pool_replace(pool.workers, 0), 0);
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

// Each thread of the pool, one after another.
Test(worker_hang, all_workers_can_be_replaced)
{
    struct ring_client clients[3];

    ring_pool_setup(&pool, 3, 0, "hang_after=0,algorithm=aes-256-cbc");
    for (uint32_t i = 0; i < 3; i++)
        setup_client(&clients[i]);
    for (uint32_t i = 0; i < 3; i++)
        submit(&clients[i], 0);
    for (uint32_t i = 0; i < 3; i++)
        look_until(i, 2);
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_eq(worker_pool_replace(pool.workers, i), 0);
    for (uint32_t i = 0; i < 3; i++) {
        cr_expect_eq(ring_client_wait(&clients[i], 0), SHM_RESULT_LOST);
        ring_client_expect_right(&clients[i], 1, ALGORITHM_AES_128_CBC, key, true, 512);
        ring_client_teardown(&clients[i]);
    }
    cr_expect_not(worker_pool_stop(pool.workers, 200));
}

Test(worker_hang, the_number_of_lost_threads_is_bounded)
{
    struct ring_client client;

    ring_pool_setup(&pool, 1, 0, "hang_after=0,algorithm=aes-256-cbc");
    for (uint32_t i = 0; i < WORKER_LOST_MAX; i++) {
        setup_client(&client);
        submit(&client, 0);
        look_until(0, 1);
        cr_assert_eq(worker_pool_replace(pool.workers, 0), 0);
        ring_client_teardown(&client);
    }
    setup_client(&client);
    submit(&client, 0);
    look_until(0, 1);
    cr_expect_eq(worker_pool_replace(pool.workers, 0), -EUSERS);
    ring_client_teardown(&client);
    cr_expect_not(worker_pool_stop(pool.workers, 100));
}

// Who looks is called once, and can rest when nothing has moved since the last look.
Test(worker_hang, looks_end_with_the_work)
{
    struct ring_client client;
    struct worker_look look;

    ring_pool_setup(&pool, 1, 0, NULL);
    setup_client(&client);
    cr_expect_eq(pool.n_busy, 0);
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < 20; i++)
            ring_client_expect_right(&client, 1, ALGORITHM_AES_128_CBC, key, true, 64);
        cr_expect_eq(pool.n_busy, round, "%u", pool.n_busy);
        do {
            worker_pool_look(pool.workers, 0, &look);
            pause_ms(1);
        } while (look.again);
        cr_expect_eq(look.n_looks, 0);
        cr_expect(worker_pool_rest(pool.workers));
    }
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

// Work that begins between the last look and the rest is not overlooked.
Test(worker_hang, no_rest_while_something_has_moved)
{
    struct ring_client client;
    struct worker_look look;

    ring_pool_setup(&pool, 1, 0, "hang_after=1");
    setup_client(&client);
    ring_client_expect_right(&client, 1, ALGORITHM_AES_128_CBC, key, true, 64);
    do {
        worker_pool_look(pool.workers, 0, &look);
        pause_ms(1);
    } while (look.again);
    submit(&client, 1);
    pause_ms(200); // if the worker has not begun by then, it will call
    if (worker_pool_rest(pool.workers))
        for (int i = 0; i < 2000 && pool.n_busy < 2; i++)
            pause_ms(10);
    else
        cr_expect_eq(pool.n_busy, 1);
    look_until(0, 1);
    ring_client_teardown(&client);
    cr_expect_not(worker_pool_stop(pool.workers, 100));
}
