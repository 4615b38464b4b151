// SPDX-License-Identifier: MIT
// The workers: nothing waits for ever, nobody waits for one that hangs, and users share the engine
// evenly.
#include "worker.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "ring_rig.h"

TestSuite(worker, .timeout = 120);

static struct ring_pool pool;

struct session {
    struct ring_client client;
    pthread_t thread;
    uint32_t n_requests;
    uint32_t depth; // requests at once
    uint32_t pause_ns;
    uint32_t seed;
    _Atomic uint32_t n_done;
    _Atomic bool stop;
    bool right;
};

static void pause_for(uint32_t ns)
{
    const struct timespec pause = {.tv_nsec = (long)ns};

    if (ns > 0)
        nanosleep(&pause, NULL);
}

// Encrypts and decrypts again, so that no reference is needed: what comes back must be what went
// in.
static void *run_session(void *arg)
{
    struct session *session = arg;
    struct ring_client *client = &session->client;
    uint8_t plain[1024];

    session->right = true;
    for (uint32_t n = 0; n < session->n_requests && !atomic_load(&session->stop);
         n += session->depth) {
        const uint32_t first = client->sequence;

        for (int pass = 0; pass < 2; pass++) {
            for (uint32_t i = 0; i < session->depth; i++) {
                struct shm_request request = ring_client_make(client, 0, pass == 0, sizeof(plain));
                uint8_t *slot = shm_data(&client->map, client->sequence);

                ring_fill(plain, sizeof(plain), session->seed + n + i);
                if (pass == 0)
                    memcpy(slot, plain, sizeof(plain));
                ring_client_submit(client, &request);
            }
            for (uint32_t i = 0; i < session->depth; i++) {
                const uint32_t sequence = first + (uint32_t)pass * session->depth + i;

                session->right = ring_client_wait(client, sequence) == 0 && session->right;
                ring_fill(plain, sizeof(plain), session->seed + n + i);
                if (pass == 1 &&
                    memcmp(shm_data(&client->map, sequence), plain, sizeof(plain)) != 0)
                    session->right = false;
            }
            pause_for(session->pause_ns);
        }
        atomic_fetch_add(&session->n_done, session->depth);
    }
    return NULL;
}

static void start(struct session *session, uint32_t uid, uint32_t n_requests, uint32_t depth,
                  uint32_t pause_ns)
{
    uint8_t key[ALGORITHM_KEY_MAX];

    *session = (struct session){
        .n_requests = n_requests, .depth = depth, .pause_ns = pause_ns, .seed = uid * 7919};
    ring_fill(key, sizeof(key), uid);
    ring_client_setup(&session->client, &pool, uid, depth, 1);
    ring_client_open(&session->client, 0, ALGORITHM_AES_128_CBC, key);
    cr_assert_eq(pthread_create(&session->thread, NULL, run_session, session), 0);
}

static void finish(struct session *session)
{
    pthread_join(session->thread, NULL);
    cr_expect(session->right);
    ring_client_teardown(&session->client);
}

static void run_many(uint32_t n_workers, uint32_t spin_us)
{
    static struct session sessions[8];

    ring_pool_setup(&pool, n_workers, spin_us, NULL);
    for (uint32_t i = 0; i < 8; i++)
        start(&sessions[i], 1000 + i / 2, 2000, 1u << i % 3, i % 3 == 0 ? 20000 : 0);
    for (uint32_t i = 0; i < 8; i++)
        finish(&sessions[i]);
    ring_pool_teardown(&pool);
}

Test(worker, loses_no_wake_up_alone)
{
    run_many(1, 0);
}

Test(worker, loses_no_wake_up_with_others)
{
    run_many(4, 0);
}

Test(worker, loses_no_wake_up_with_very_many)
{
    run_many(WORKER_COUNT_MAX, 0);
}

Test(worker, loses_no_wake_up_while_spinning)
{
    run_many(2, 20);
}

// Channels come and go while others work.
Test(worker, lets_channels_come_and_go)
{
    static struct session steady, brief;

    ring_pool_setup(&pool, 2, 0, NULL);
    start(&steady, 1, 20000, 2, 0);
    for (uint32_t i = 0; i < 200; i++) {
        start(&brief, 2 + i, 4, 4, 0);
        finish(&brief);
    }
    finish(&steady);
    ring_pool_teardown(&pool);
}

// Removed with requests waiting and running: dropped, and everything is given back in the end.
Test(worker, drops_what_a_removed_channel_has_waiting)
{
    uint8_t key[ALGORITHM_KEY_MAX] = {1};
    struct ring_client client;

    ring_pool_setup(&pool, 1, 0, "delay_ms=20");
    for (int round = 0; round < 5; round++) {
        ring_client_setup(&client, &pool, 1, 16, 1);
        ring_client_open(&client, 0, ALGORITHM_AES_128_CBC, key);
        for (int i = 0; i < 16; i++) {
            struct shm_request request = ring_client_make(&client, 0, true, 16);
            ring_client_submit(&client, &request);
        }
        pause_for(10000000);
        ring_client_teardown(&client);
    }
    ring_pool_teardown(&pool);
}

// One worker hangs in a driver for good: channels of the other one are served, new ones too.
Test(worker, serves_others_while_one_hangs)
{
    static struct session session;
    uint8_t key[ALGORITHM_KEY_MAX] = {1};
    struct ring_client hangs;

    ring_pool_setup(&pool, 2, 0, "hang_after=0,algorithm=aes-256-cbc");
    ring_client_setup(&hangs, &pool, 1, 1, 1);
    ring_client_open(&hangs, 0, ALGORITHM_AES_256_CBC, key);
    struct shm_request request = ring_client_make(&hangs, 0, true, 16);
    ring_client_submit(&hangs, &request);
    pause_for(50000000);
    // The seat with the fewest channels is the other worker's, then.
    start(&session, 2, 1000, 4, 0);
    finish(&session);
    cr_expect_not(ring_client_is_done(&hangs, 0));
    // The one that hangs can be removed without waiting, but the pool knows that it cannot end.
    ring_client_teardown(&hangs);
    cr_expect_not(worker_pool_stop(pool.workers, 100));
}

// A user with many busy channels against one with a single request at a time: turns, not shares by
// channels.
Test(worker, shares_evenly_between_users)
{
    static struct session many[6], one;
    uint32_t n_of_many = 0;

    ring_pool_setup(&pool, 1, 0, "delay_ms=1");
    for (uint32_t i = 0; i < 6; i++)
        start(&many[i], 1, 160, 4, 0);
    start(&one, 2, 60, 1, 0);
    pthread_join(one.thread, NULL);
    for (uint32_t i = 0; i < 6; i++)
        n_of_many += atomic_load(&many[i].n_done);
    // By turns the others do one request for each of these, or two where it has not come back in
    // time. By channels it would be 48.
    cr_expect_lt(n_of_many, 60 * 8, "%u requests of others for 60 of this one", n_of_many);
    cr_expect(one.right);
    ring_client_teardown(&one.client);
    for (uint32_t i = 0; i < 6; i++)
        finish(&many[i]);
    ring_pool_teardown(&pool);
}

// A client that comes back at once, for ever, keeps its worker from sleeping: another one's bell
// must be heard.
Test(worker, hears_others_beside_a_client_that_never_rests)
{
    static struct session restless, other;

    ring_pool_setup(&pool, 1, 1000000, NULL);
    start(&restless, 1, UINT32_MAX, 1, 0);
    start(&other, 2, 50, 1, 0);
    finish(&other);
    atomic_store(&restless.stop, true);
    finish(&restless);
    ring_pool_teardown(&pool);
}

Test(worker, refuses_senseless_settings)
{
    struct worker_settings settings = {.n_workers = 0};
    struct worker_pool *made = NULL;

    cr_expect_eq(worker_pool_new(&settings, &made), -EINVAL);
    settings.n_workers = WORKER_COUNT_MAX + 1;
    cr_expect_eq(worker_pool_new(&settings, &made), -EINVAL);
    cr_expect_null(made);
}
