// SPDX-License-Identifier: MIT
// The engine's side of the ring: requests are done right, or fail alone; slots, counts and keys.
#include "channel.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "channel_impl.h" // to set the count of requests
#include "ring_rig.h"

TestSuite(ring, .timeout = 120);

static struct ring_pool pool;

Test(ring, does_requests)
{
    struct ring_client client;
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_pool_setup(&pool, 2, 0, NULL);
    ring_client_setup(&client, &pool, 1000, 4, 4);
    ring_client_open_two(&client, key);
    for (int i = 0; i < 50; i++) {
        ring_client_expect_right(&client, 0, ALGORITHM_AES_128_CBC, key, true,
                                 16 * (1 + (uint32_t)i * 80));
        ring_client_expect_right(&client, 0, ALGORITHM_AES_128_CBC, key, false, 65536);
        ring_client_expect_right(&client, 1, ALGORITHM_AES_256_CTR, key, i % 2,
                                 1 + (uint32_t)i * 1000);
    }
    struct message_engine_channel report;
    channel_report(client.channel, &report);
    cr_expect_eq(report.operations, 150);
    cr_expect_eq(report.streams, 2);
    cr_expect_eq(statistics_get(&pool.statistics.operations), 150);
    cr_expect_eq(statistics_get(&pool.statistics.bytes), report.bytes);
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

Test(ring, does_requests_while_spinning)
{
    struct ring_client client;
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_pool_setup(&pool, 1, 1000, NULL);
    ring_client_setup(&client, &pool, 1000, 1, 4);
    ring_client_open_two(&client, key);
    for (int i = 0; i < 200; i++)
        ring_client_expect_works(&client, key);
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

Test(ring, does_all_slots_at_once)
{
    struct ring_client client;
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_pool_setup(&pool, 2, 0, NULL);
    ring_client_setup(&client, &pool, 1000, 4, 2);
    ring_client_open_two(&client, key);
    for (int round = 0; round < 100; round++) {
        const uint32_t first = client.sequence;

        for (uint32_t i = 0; i < 4; i++) {
            struct shm_request request = ring_client_make(&client, 1, true, 100);
            ring_client_submit(&client, &request);
        }
        for (uint32_t i = 0; i < 4; i++)
            cr_expect_eq(ring_client_wait(&client, first + i), 0);
    }
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

// ---------------------------------------------------------------- requests that fail alone

Test(ring, hands_the_error_of_a_backend_on)
{
    struct ring_client client;
    uint8_t key[ALGORITHM_KEY_MAX];
    struct message_engine_channel report;

    ring_pool_setup(&pool, 2, 0, "error_every=2");
    ring_client_setup(&client, &pool, 1000, 4, 4);
    ring_client_open_two(&client, key);
    for (int i = 0; i < 10; i++) {
        ring_client_expect_right(&client, 0, ALGORITHM_AES_128_CBC, key, true, 64);
        struct shm_request request = ring_client_make(&client, 0, true, 64);
        ring_client_submit(&client, &request);
        cr_expect_eq(ring_client_wait(&client, request.sequence), -EIO);
    }
    channel_report(client.channel, &report);
    cr_expect_eq(report.operations, 10);
    cr_expect_eq(statistics_get(&pool.statistics.errors), 10);
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

Test(ring, fails_a_request_for_a_closed_stream_alone)
{
    struct ring_client client;
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_pool_setup(&pool, 1, 0, NULL);
    ring_client_setup(&client, &pool, 1000, 4, 4);
    ring_client_open_two(&client, key);
    channel_close_stream(client.channel, 0);
    struct shm_request request = ring_client_make(&client, 0, true, 64);
    ring_client_submit(&client, &request);
    cr_expect_eq(ring_client_wait(&client, request.sequence), -ENOKEY);
    // The others go on, and the number can be opened again.
    ring_client_expect_right(&client, 1, ALGORITHM_AES_256_CTR, key, true, 64);
    ring_client_open(&client, 0, ALGORITHM_AES_128_CBC, key);
    ring_client_expect_works(&client, key);
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

Test(ring, lets_a_stream_be_closed_while_its_request_runs)
{
    struct ring_client client;
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_pool_setup(&pool, 1, 0, "delay_ms=100");
    ring_client_setup(&client, &pool, 1000, 4, 4);
    ring_client_open_two(&client, key);
    struct shm_request request = ring_client_make(&client, 0, true, 64);
    ring_client_submit(&client, &request);
    channel_close_stream(client.channel, 0);
    int r = ring_client_wait(&client, request.sequence);
    cr_expect(r == 0 || r == -ENOKEY);
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

// ---------------------------------------------------------------- step by step, without threads

// A channel whose worker never starts: the test collects and runs.
static void setup_idle_client(struct ring_client *client, uint32_t n_slots, uint32_t first)
{
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_pool_setup_idle(&pool);
    ring_client_setup(client, &pool, 1000, n_slots, 4);
    ring_client_open_two(client, key);
    client->channel->taken = first; // as after so many requests
    client->sequence = first;
    atomic_store(&shm_header(&client->map)->submitted, first);
}

static void submit(struct ring_client *client)
{
    struct shm_request request = ring_client_make(client, 0, true, 64);

    ring_client_submit(client, &request);
}

static struct fair_item *pop(void)
{
    uint32_t n_left;

    return fair_queue_pop(worker_pool_queue(pool.workers), &n_left);
}

// A client that does not wait for a slot to be done before it uses it again.
Test(ring, drops_a_channel_that_uses_a_busy_slot)
{
    struct ring_client client;

    setup_idle_client(&client, 2, 0);
    submit(&client);
    submit(&client);
    cr_expect_eq(channel_collect(client.channel), 2);
    channel_run(pop(), NULL);
    submit(&client);
    cr_expect_eq(channel_collect(client.channel), 1);
    submit(&client); // slot 1 waits
    cr_expect_eq(channel_collect(client.channel), -EBADMSG);
    cr_expect_str_eq(channel_fault(client.channel), "a request in a slot that is in use");
    // What waits is dropped without an answer.
    channel_run(pop(), NULL);
    channel_run(pop(), NULL);
    cr_expect_null(pop());
    cr_expect_not(ring_client_is_done(&client, 1));
    cr_expect_not(ring_client_is_done(&client, 2));
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

Test(ring, counts_past_the_end_of_numbers)
{
    struct ring_client client;

    setup_idle_client(&client, 4, UINT32_MAX - 5);
    for (uint32_t i = 0; i < 12; i++) {
        const uint32_t sequence = client.sequence;

        submit(&client);
        cr_expect_eq(channel_collect(client.channel), 1);
        channel_run(pop(), NULL);
        cr_expect(ring_client_is_done(&client, sequence), "%u", sequence);
        cr_expect_eq(shm_done(&client.map, sequence)->result, 0);
    }
    cr_expect_eq(client.sequence, 6);
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

Test(ring, announces_its_sleep_only_without_work)
{
    struct ring_client client;
    _Atomic uint32_t *waits;

    setup_idle_client(&client, 4, 0);
    waits = &shm_header(&client.map)->engine_waits;
    cr_expect_eq(atomic_load(waits), 1, "a new channel sleeps");
    submit(&client);
    cr_expect_eq(atomic_load(waits), 0);
    cr_expect_not(channel_begin_sleep(client.channel));
    cr_expect_eq(atomic_load(waits), 0);
    cr_expect_eq(channel_collect(client.channel), 1);
    cr_expect(channel_begin_sleep(client.channel));
    cr_expect_eq(atomic_load(waits), 1);
    channel_run(pop(), NULL);
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

// ---------------------------------------------------------------- keys

Test(ring, takes_keys_out_of_the_memory)
{
    struct ring_client client;
    uint8_t taken[ALGORITHM_KEY_MAX], nothing[64] = {0}, *place;

    ring_pool_setup(&pool, 1, 0, NULL);
    ring_client_setup(&client, &pool, 1000, 1, 2);
    place = shm_stream(&client.map, 1)->key;
    memset(place, 0xaa, 64);
    cr_expect_eq(channel_take_key(client.channel, 1, taken, 24), 0);
    for (int i = 0; i < 24; i++)
        cr_expect_eq(taken[i], 0xaa);
    cr_expect_arr_eq(place, nothing, 64);
    // For a stream that is open, or an algorithm that is not offered: wiped all the same.
    ring_client_open(&client, 1, ALGORITHM_AES_128_CBC, taken);
    memset(place, 0xbb, 64);
    cr_expect_eq(channel_take_key(client.channel, 1, taken, 16), -EBUSY);
    cr_expect_eq(taken[0], 0xaa);
    cr_expect_arr_eq(place, nothing, 64);
    memset(place, 0xcc, 64);
    cr_expect_eq(channel_take_key(client.channel, 1, taken, 0), -EBUSY);
    cr_expect_arr_eq(place, nothing, 64);
    cr_expect_eq(channel_take_key(client.channel, 2, taken, 16), -ERANGE);
    cr_expect_eq(channel_take_key(client.channel, UINT32_MAX, taken, 16), -ERANGE);
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}
