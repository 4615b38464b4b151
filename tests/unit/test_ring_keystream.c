// SPDX-License-Identifier: MIT
// Keystream slots of a channel: what is filled, what is refused, and how idle memory goes back.
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "channel_impl.h"
#include "ecb_counter.h"
#include "ring_rig.h"

#define KEY_SLOT SHM_SLOTS_REQUEST // the first one for keystream

static struct ring_pool pool;

static struct fair_item *pop(void)
{
    uint32_t n_left;

    return fair_queue_pop(worker_pool_queue(pool.workers), &n_left);
}

static void setup(struct ring_client *client, enum algorithm_id algorithm)
{
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_fill(key, sizeof(key), 7);
    ring_pool_setup_idle(&pool);
    ring_client_setup(client, &pool, 1000, 16, 4);
    ring_client_open(client, 0, algorithm, key);
}

static void teardown(struct ring_client *client)
{
    ring_client_teardown(client);
    ring_pool_teardown(&pool);
}

// As a client does before it publishes.
static struct shm_request make(struct ring_client *client, uint32_t slot, uint32_t n_bytes)
{
    struct shm_request request = ring_client_make(client, 0, true, n_bytes);

    request.operation = SHM_OP_KEYSTREAM;
    request.slot = slot;
    ring_fill(request.iv, sizeof(request.iv), slot);
    atomic_store(&shm_done(&client->map, slot)->claim, SHM_CLAIM_NOBODY);
    return request;
}

static void run(struct ring_client *client, const struct shm_request *request, int result)
{
    ring_client_submit(client, request);
    cr_assert_eq(channel_collect(client->channel), 1);
    channel_run(pop(), NULL);
    cr_assert_eq(atomic_load(&shm_done(&client->map, request->slot)->sequence),
                 request->sequence + 1);
    cr_assert_eq(shm_done(&client->map, request->slot)->result, result);
}

Test(ring_keystream, is_needed_soon_if_the_client_waits)
{
    struct ring_client client;
    struct fair_item *item;

    setup(&client, ALGORITHM_AES_128_CTR);
    struct shm_request request = make(&client, KEY_SLOT, 4096);
    ring_client_submit(&client, &request);
    cr_assert_eq(channel_collect(client.channel), 1);
    item = pop();
    cr_expect_eq(channel_need(item), CHANNEL_NEED_LATER);
    shm_wait_begin_slot(&shm_header(&client.map)->client_waits, KEY_SLOT + 1);
    cr_expect_eq(channel_need(item), CHANNEL_NEED_SOON);
    shm_wait_end(&shm_header(&client.map)->client_waits);
    channel_run(item, NULL);

    request = ring_client_make(&client, 0, true, 4096);
    ring_client_submit(&client, &request);
    cr_assert_eq(channel_collect(client.channel), 1);
    item = pop();
    cr_expect_eq(channel_need(item), CHANNEL_NEED_NOW);
    channel_run(item, NULL);
    teardown(&client);
}

static void expect_keystream(const struct ring_client *client, enum algorithm_id algorithm,
                             const struct shm_request *request)
{
    static uint8_t want[SHM_SLOT_SIZE];
    const struct backend_settings settings = {.workers = 1};
    struct backend *backend = NULL;
    struct backend_key *handle = NULL;
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_fill(key, sizeof(key), 7);
    memset(want, 0, sizeof(want));
    cr_assert_eq(backend_cpu_ops.init(&settings, &backend), 0);
    cr_assert_eq(backend_cpu_ops.open(backend, algorithm, key, &handle), 0);
    cr_assert_eq(backend_cpu_ops.crypt(handle, true, request->iv, want, want, request->n_bytes), 0);
    cr_expect_eq(memcmp(want, shm_data(&client->map, request->slot), request->n_bytes), 0,
                 "slot %u: wrong keystream", request->slot);
    backend_cpu_ops.close(handle);
    backend_cpu_ops.fini(backend);
}

static blkcnt_t blocks_of(const struct ring_client *client)
{
    struct stat st;

    cr_assert_eq(fstat(client->channel->memfd, &st), 0);
    return st.st_blocks;
}

Test(ring_keystream, fills_slots_that_have_no_memory_before)
{
    static const enum algorithm_id algorithms[] = {ALGORITHM_AES_128_CTR, ALGORITHM_AES_256_CTR,
                                                   ALGORITHM_CHACHA20};

    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
        struct ring_client client;

        setup(&client, algorithms[i]);
        const blkcnt_t before = blocks_of(&client);
        cr_expect_not(channel_holds_keystream(client.channel));
        for (uint32_t slot = KEY_SLOT; slot < 16; slot++) {
            struct shm_request request = make(&client, slot, slot % 2 ? SHM_SLOT_SIZE : 192);

            run(&client, &request, 0);
            expect_keystream(&client, algorithms[i], &request);
        }
        cr_expect(channel_holds_keystream(client.channel));
        cr_expect_eq(blocks_of(&client), before + 12 * SHM_SLOT_SIZE / 512);
        teardown(&client);
    }
}

Test(ring_keystream, refuses_what_is_against_the_rules)
{
    static const struct {
        uint32_t operation, slot, n_bytes;
        const char *fault;
    } cases[] = {
        {SHM_OP_KEYSTREAM, 0, 64, "a request in a slot of the other lane"},
        {SHM_OP_KEYSTREAM, SHM_SLOTS_REQUEST - 1, 64, "a request in a slot of the other lane"},
        {SHM_OP_ENCRYPT, KEY_SLOT, 64, "a request in a slot of the other lane"},
        {SHM_OP_DECRYPT, 15, 64, "a request in a slot of the other lane"},
        {SHM_OP_KEYSTREAM, 16, 64, "a request for a slot out of range"},
        {SHM_OP_KEYSTREAM, UINT32_MAX, 64, "a request for a slot out of range"},
        {SHM_OP_KEYSTREAM + 1, KEY_SLOT, 64, "a request for an unknown operation"},
        {SHM_OP_KEYSTREAM, KEY_SLOT, 0, "a request of a wrong length"},
        {SHM_OP_KEYSTREAM, KEY_SLOT, SHM_SLOT_SIZE + 16, "a request of a wrong length"},
        {SHM_OP_KEYSTREAM, KEY_SLOT, 24, "a request that is not a multiple of the block"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ring_client client;

        setup(&client, ALGORITHM_AES_128_CTR);
        struct shm_request request = make(&client, KEY_SLOT, cases[i].n_bytes);
        request.operation = cases[i].operation;
        request.slot = cases[i].slot;
        ring_client_submit(&client, &request);
        cr_expect_eq(channel_collect(client.channel), -EBADMSG);
        cr_assert_not_null(channel_fault(client.channel));
        cr_expect_str_eq(channel_fault(client.channel), cases[i].fault);
        teardown(&client);
    }
}

Test(ring_keystream, fails_alone_where_there_is_no_keystream)
{
    struct ring_client client;

    setup(&client, ALGORITHM_AES_128_CBC);
    struct shm_request request = make(&client, KEY_SLOT, 64);
    run(&client, &request, -EOPNOTSUPP);
    teardown(&client);
}

Test(ring_keystream, takes_idle_memory_back_but_not_what_is_used)
{
    struct ring_client client;

    setup(&client, ALGORITHM_AES_128_CTR);
    const blkcnt_t before = blocks_of(&client);
    for (uint32_t slot = KEY_SLOT; slot < KEY_SLOT + 3; slot++) {
        struct shm_request request = make(&client, slot, SHM_SLOT_SIZE);
        run(&client, &request, 0);
    }
    cr_assert(shm_claim(shm_done(&client.map, KEY_SLOT), SHM_CLAIM_CLIENT));
    channel_tend(client.channel); // it was busy since the last look
    cr_expect_eq(blocks_of(&client), before + 3 * SHM_SLOT_SIZE / 512);
    channel_tend(client.channel);
    cr_expect_eq(blocks_of(&client), before + SHM_SLOT_SIZE / 512);
    cr_expect(channel_holds_keystream(client.channel));
    cr_expect_not(shm_claim(shm_done(&client.map, KEY_SLOT + 1), SHM_CLAIM_CLIENT),
                  "zeroes must not be taken for keystream");
    // And it can be filled again.
    struct shm_request request = make(&client, KEY_SLOT + 1, SHM_SLOT_SIZE);
    run(&client, &request, 0);
    expect_keystream(&client, ALGORITHM_AES_128_CTR, &request);
    cr_expect(shm_claim(shm_done(&client.map, KEY_SLOT + 1), SHM_CLAIM_CLIENT));
    teardown(&client);
}

Test(ring_keystream, takes_memory_of_an_idle_stream_beside_a_busy_one)
{
    struct ring_client client;

    setup(&client, ALGORITHM_AES_128_CTR);
    struct shm_request idle = make(&client, KEY_SLOT, SHM_SLOT_SIZE);
    run(&client, &idle, 0);
    const blkcnt_t one = blocks_of(&client);
    for (int i = 0; i < 3; i++) {
        struct shm_request busy = make(&client, KEY_SLOT + 1, SHM_SLOT_SIZE);
        run(&client, &busy, 0);
        channel_tend(client.channel);
        cr_expect_eq(blocks_of(&client), i == 0 ? one + SHM_SLOT_SIZE / 512 : one);
        expect_keystream(&client, ALGORITHM_AES_128_CTR, &busy);
    }
    teardown(&client);
}

Test(ring_keystream, counts_in_blocks_of_128_bits)
{
    static const uint8_t all[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe};
    uint8_t out[16 * 300], iv[16];

    for (unsigned carry = 1; carry <= 16; carry++) {
        memset(iv, 0x11, sizeof(iv));
        memcpy(iv + 16 - carry, all + 16 - carry, carry);
        ecb_counter_fill(iv, out, sizeof(out));
        for (size_t i = 0; i < sizeof(out); i += 16) {
            cr_expect_eq(memcmp(out + i, iv, 16), 0, "carry over %u bytes, block %zu", carry,
                         i / 16);
            algorithm_ctr_add(iv, 1);
        }
    }
}
