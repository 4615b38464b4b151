// SPDX-License-Identifier: MIT
// Shares of the workers between users: one with 50 busy streams leaves another's single stream at
// least 40 % of the requests served, in either lane. The backend lets one request end at a time, on
// the test's order, and the test publishes what comes next before it gives the next order; so it is
// requests that are counted, and no clock.
#include <criterion/criterion.h>
#include <pthread.h>
#include <time.h>

#include "ring_rig.h"

#define MANY     50u // streams of the busy user, each with a channel as a process has one
#define WARM_UP  40u
#define COUNTED  400u
#define GUARD_MS 20000
#define DEPTH    8u // at most, requests of one client

TestSuite(fairness, .timeout = 120);

// ---------------------------------------------------------------- the backend

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t n_begun; // first come, first served
    uint64_t n_ordered;
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void gate_pass(void)
{
    pthread_mutex_lock(&gate.mutex);
    const uint64_t number = gate.n_begun++;
    while (number >= gate.n_ordered)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    pthread_mutex_unlock(&gate.mutex);
}

static void gate_order(uint64_t n)
{
    pthread_mutex_lock(&gate.mutex);
    gate.n_ordered += n;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
}

static int gated_open(struct backend *backend, enum algorithm_id algorithm, const uint8_t *key,
                      struct backend_key **ret)
{
    static int opaque;

    (void)backend;
    (void)algorithm;
    (void)key;
    *ret = (struct backend_key *)(void *)&opaque;
    return 0;
}

static int gated_crypt(struct backend_key *key, bool encrypt, const uint8_t iv[16], uint8_t *out,
                       const uint8_t *in, size_t n_bytes)
{
    (void)key;
    (void)encrypt;
    (void)iv;
    (void)out;
    (void)in;
    (void)n_bytes;
    gate_pass();
    return 0;
}

static int gated_keystream(struct backend_key *key, const uint8_t iv[16], uint8_t *out,
                           size_t n_bytes)
{
    (void)key;
    (void)iv;
    (void)out;
    (void)n_bytes;
    gate_pass();
    return 0;
}

static void gated_close(struct backend_key *key)
{
    (void)key;
}

static const struct backend_ops gated_ops = {
    .name = "gated",
    .open = gated_open,
    .crypt = gated_crypt,
    .keystream = gated_keystream,
    .close = gated_close,
};

// ---------------------------------------------------------------- clients

struct session {
    struct ring_client client;
    uint32_t first_slot;
    uint32_t depth;
    uint32_t operation;
    uint32_t sequence[DEPTH]; // of the request in first_slot + i
};

static void publish(struct session *session, uint32_t i)
{
    const uint32_t slot = session->first_slot + i;
    struct shm_request request = ring_client_make(&session->client, 0, true, 4096);

    request.operation = session->operation;
    request.slot = slot;
    session->sequence[i] = request.sequence;
    atomic_store(&shm_done(&session->client.map, slot)->claim, SHM_CLAIM_NOBODY);
    ring_client_submit(&session->client, &request);
}

static void begin(struct session *session, struct ring_pool *pool, uint32_t uid, uint32_t operation,
                  uint32_t depth)
{
    static const uint8_t key[ALGORITHM_KEY_MAX] = {1};
    const bool keystream = operation == SHM_OP_KEYSTREAM;

    *session = (struct session){
        .first_slot = keystream ? SHM_SLOTS_REQUEST : 0, .depth = depth, .operation = operation};
    ring_client_setup(&session->client, pool, uid, keystream ? 16 : 4, 1);
    ring_client_open(&session->client, 0, keystream ? ALGORITHM_AES_128_CTR : ALGORITHM_AES_128_CBC,
                     key);
    for (uint32_t i = 0; i < depth; i++)
        publish(session, i);
}

// Publishes anew in the place of each request that is done. Returns how many were.
static uint32_t go_on(struct session *session)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < session->depth; i++) {
        const struct shm_done *done = shm_done(&session->client.map, session->first_slot + i);
        if (atomic_load_explicit(&done->sequence, memory_order_acquire) != session->sequence[i] + 1)
            continue;
        cr_assert_eq(done->result, 0);
        publish(session, i);
        n++;
    }
    return n;
}

// ---------------------------------------------------------------- the tests

static struct session many[MANY], one;

// Lets one request end; adds to the count of whose it was.
static void step(uint32_t *n_many, uint32_t *n_one)
{
    const struct timespec pause = {.tv_nsec = 50000};
    uint32_t n = 0;

    gate_order(1);
    for (int i = 0; n == 0; i++) {
        cr_assert_lt(i, GUARD_MS * 20, "nothing is done");
        for (uint32_t k = 0; k < MANY; k++)
            n += go_on(&many[k]);
        *n_many += n;
        if (n == 0) {
            n = go_on(&one);
            *n_one += n;
        }
        if (n == 0)
            nanosleep(&pause, NULL);
    }
}

static void expect_fair(uint32_t n_workers, uint32_t operation, uint32_t depth_of_one)
{
    struct ring_pool pool;
    uint32_t n_many = 0, n_one = 0;

    ring_pool_setup(&pool, n_workers, 0, NULL);
    const struct backend_ops *ops = pool.ops;
    pool.ops = &gated_ops;
    for (uint32_t i = 0; i < MANY; i++)
        begin(&many[i], &pool, 1, operation, 4);
    begin(&one, &pool, 2, operation, depth_of_one);
    for (uint32_t i = 0; i < WARM_UP; i++)
        step(&n_many, &n_one);
    n_many = n_one = 0;
    while (n_many + n_one < COUNTED)
        step(&n_many, &n_one);
    cr_expect_geq(n_one * 10, (n_many + n_one) * 4, "%u of %u requests served", n_one,
                  n_many + n_one);
    cr_expect_leq(n_one * 10, (n_many + n_one) * 6, "and no more than its share: %u of %u", n_one,
                  n_many + n_one);
    gate_order(UINT32_MAX);
    for (uint32_t i = 0; i < MANY; i++)
        ring_client_teardown(&many[i].client);
    ring_client_teardown(&one.client);
    pool.ops = ops;
    ring_pool_teardown(&pool);
}

Test(fairness, request_lane)
{
    expect_fair(1, SHM_OP_ENCRYPT, 4);
}

// CBC encrypts one piece after the other.
Test(fairness, request_lane_one_request_at_a_time)
{
    expect_fair(1, SHM_OP_ENCRYPT, 1);
}

Test(fairness, request_lane_two_workers)
{
    expect_fair(2, SHM_OP_ENCRYPT, 4);
}

Test(fairness, keystream_lane)
{
    expect_fair(1, SHM_OP_KEYSTREAM, 8);
}

Test(fairness, keystream_lane_two_workers)
{
    expect_fair(2, SHM_OP_KEYSTREAM, 8);
}
