// SPDX-License-Identifier: MIT
// What a channel takes of the engine is counted and given back on every path, and what is over the
// limit is refused to its client alone.
#include <criterion/criterion.h>
#include <errno.h>

#include "channel_impl.h"
#include "ring_rig.h"
#include "worker_impl.h"

#define KEY_SLOT SHM_SLOTS_REQUEST // the first one for keystream

static struct ring_pool pool;
static struct ring_client a, b;
static uint8_t key[ALGORITHM_KEY_MAX] = {7};

static struct quota *quota(void)
{
    return fair_queue_quota(worker_pool_queue(pool.workers));
}

static uint64_t used(enum quota_kind kind)
{
    return atomic_load(&quota()->n[kind]);
}

static void setup(void)
{
    ring_pool_setup_idle(&pool);
    ring_client_setup(&a, &pool, 1, 16, 4);
    ring_client_setup(&b, &pool, 2, 16, 4);
    ring_client_open(&a, 0, ALGORITHM_AES_128_CTR, key);
    ring_client_open(&b, 0, ALGORITHM_AES_128_CTR, key);
}

// A channel that is gone has left nothing.
static void teardown(void)
{
    ring_client_teardown(&a);
    ring_client_teardown(&b);
    ring_pool_teardown(&pool);
}

TestSuite(ring_quota, .init = setup, .fini = teardown);

static struct fair_item *pop(void)
{
    uint32_t n_left;

    return fair_queue_pop(worker_pool_queue(pool.workers), &n_left);
}

static uint32_t submit(struct ring_client *client, uint32_t slot)
{
    struct shm_request request = ring_client_make(client, 0, true, 4096);

    request.slot = slot;
    if (slot >= KEY_SLOT) {
        request.operation = SHM_OP_KEYSTREAM;
        atomic_store(&shm_done(&client->map, slot)->claim, SHM_CLAIM_NOBODY);
    }
    ring_client_submit(client, &request);
    return request.sequence;
}

static void expect_result(const struct ring_client *client, uint32_t slot, uint32_t sequence,
                          int result)
{
    cr_assert_eq(atomic_load(&shm_done(&client->map, slot)->sequence), sequence + 1, "slot %u",
                 slot);
    cr_expect_eq(shm_done(&client->map, slot)->result, result, "slot %u: %d", slot,
                 shm_done(&client->map, slot)->result);
}

Test(ring_quota, requests_in_flight)
{
    struct message_engine_channel report;

    quota_set_limit(quota(), QUOTA_REQUESTS, 3, 2);
    for (uint32_t slot = 0; slot < 3; slot++)
        submit(&a, slot);
    cr_assert_eq(channel_collect(a.channel), 3);
    expect_result(&a, 2, 2, -EDQUOT);
    cr_expect_eq(used(QUOTA_REQUESTS), 2);
    channel_report(a.channel, &report);
    cr_expect_eq(report.requests, 2);

    submit(&b, 0); // another user, who has room of its own
    cr_assert_eq(channel_collect(b.channel), 1);
    cr_expect_eq(used(QUOTA_REQUESTS), 3);
    submit(&b, 1);
    cr_assert_eq(channel_collect(b.channel), 1);
    expect_result(&b, 1, 1, -EDQUOT);

    channel_run(pop(), NULL);
    expect_result(&a, 0, 0, 0);
    cr_expect_eq(used(QUOTA_REQUESTS), 2);
    uint32_t again = submit(&a, 2); // in the slot of the refused one
    cr_assert_eq(channel_collect(a.channel), 1);
    for (struct fair_item *item = pop(); item; item = pop())
        channel_run(item, NULL);
    expect_result(&a, 2, again, 0);
    expect_result(&b, 0, 0, 0);
    cr_expect_eq(used(QUOTA_REQUESTS), 0);
    cr_expect_eq(atomic_load(&quota()->n_refused[QUOTA_REQUESTS]), 2);
    cr_expect_null(channel_fault(a.channel));
}

// A client that is at its limit is told; who breaks the rules is still found out.
Test(ring_quota, faults_are_faults)
{
    submit(&a, 0);
    cr_assert_eq(channel_collect(a.channel), 1);
    quota_set_limit(quota(), QUOTA_REQUESTS, 1, 1);
    submit(&a, 0); // the slot is in use
    cr_assert_eq(channel_collect(a.channel), -EBADMSG);
    cr_expect_not_null(channel_fault(a.channel));

    struct shm_request request = ring_client_make(&b, 1, true, 4096); // never opened
    quota_set_limit(quota(), QUOTA_REQUESTS, 9, 9);
    ring_client_submit(&b, &request);
    cr_assert_eq(channel_collect(b.channel), -EBADMSG);
    channel_run(pop(), NULL); // of a dead channel: dropped
    cr_expect_eq(used(QUOTA_REQUESTS), 0);
}

static void run_keystream(struct ring_client *client, uint32_t slot, int result)
{
    uint32_t sequence = submit(client, slot);

    cr_assert_eq(channel_collect(client->channel), 1);
    channel_run(pop(), NULL);
    expect_result(client, slot, sequence, result);
}

Test(ring_quota, locked_memory)
{
    struct message_engine_channel report;

    quota_set_limit(quota(), QUOTA_MEMORY, 3 * SHM_SLOT_SIZE, 2 * SHM_SLOT_SIZE);
    run_keystream(&a, KEY_SLOT, 0);
    run_keystream(&a, KEY_SLOT + 1, 0);
    run_keystream(&a, KEY_SLOT + 2, -EDQUOT);
    run_keystream(&a, KEY_SLOT, 0); // it has that one
    run_keystream(&b, KEY_SLOT, 0);
    run_keystream(&b, KEY_SLOT + 1, -EUSERS);
    cr_expect_eq(used(QUOTA_MEMORY), 3 * SHM_SLOT_SIZE);
    channel_report(a.channel, &report);
    cr_expect_eq(report.locked_memory, 2 * SHM_SLOT_SIZE);

    channel_tend(a.channel); // sees what is there
    channel_tend(a.channel); // and that it has been idle
    cr_expect_eq(used(QUOTA_MEMORY), SHM_SLOT_SIZE);
    run_keystream(&b, KEY_SLOT + 1, 0);
    cr_expect_eq(used(QUOTA_REQUESTS), 0);
}

Test(ring_quota, a_channel_that_goes_gives_all_back)
{
    run_keystream(&a, KEY_SLOT, 0);
    run_keystream(&b, KEY_SLOT, 0);
    submit(&b, 0);
    submit(&b, 1);
    cr_assert_eq(channel_collect(b.channel), 2);
    ring_client_teardown(&b);
    cr_expect_eq(used(QUOTA_REQUESTS), 2, "until the workers come to them");
    for (struct fair_item *item = pop(); item; item = pop())
        channel_run(item, NULL);
    cr_expect_eq(used(QUOTA_REQUESTS), 0);
    event_base_loop(pool.workers->workers[0].base, EVLOOP_NONBLOCK); // its worker lets go
    cr_expect_eq(used(QUOTA_MEMORY), SHM_SLOT_SIZE);
    ring_client_setup(&b, &pool, 2, 16, 4);
}
