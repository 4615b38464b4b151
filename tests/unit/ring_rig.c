// SPDX-License-Identifier: MIT
// See ring_rig.h. The client here keeps the sleep protocol as the client library does.
#include "ring_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <event2/thread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "reference.h"

#define GUARD_S 20

void ring_fill(uint8_t *data, size_t n_bytes, uint64_t seed)
{
    struct reference_random random = {.state = seed};

    reference_random_fill(&random, data, n_bytes);
}

static void on_fault(void *user)
{
    struct ring_pool *pool = user;

    atomic_fetch_add(&pool->n_faults, 1);
}

static void on_distrust(void *user)
{
    struct ring_pool *pool = user;

    atomic_fetch_add(&pool->n_distrusts, 1);
}

static void on_busy(void *user)
{
    struct ring_pool *pool = user;

    atomic_fetch_add(&pool->n_busy, 1);
}

static void make_pool(struct ring_pool *pool, uint32_t n_workers, uint32_t spin_us,
                      const char *fault, uint32_t verify)
{
    const struct backend_settings backend = {.workers = n_workers, .fault = fault};
    const struct worker_settings workers = {.n_workers = n_workers,
                                            .spin_us = spin_us,
                                            .on_fault = on_fault,
                                            .user = pool,
                                            .verify = verify,
                                            .on_distrust = on_distrust,
                                            .on_busy = on_busy};

    *pool = (struct ring_pool){.ops = fault ? &backend_fault_ops : &backend_cpu_ops};
    cr_assert_eq(evthread_use_pthreads(), 0);
    cr_assert_eq(pool->ops->init(&backend, &pool->backend), 0);
    cr_assert_eq(backend_cpu_ops.init(&backend, &pool->reference), 0);
    cr_assert_eq(worker_pool_new(&workers, &pool->workers), 0);
}

void ring_pool_setup(struct ring_pool *pool, uint32_t n_workers, uint32_t spin_us,
                     const char *fault)
{
    make_pool(pool, n_workers, spin_us, fault, VERIFY_OFF);
    cr_assert_eq(worker_pool_start(pool->workers), 0);
}

void ring_pool_setup_verify(struct ring_pool *pool, uint32_t n_workers, const char *fault,
                            uint32_t verify)
{
    make_pool(pool, n_workers, 0, fault, verify);
    cr_assert_eq(worker_pool_start(pool->workers), 0);
}

void ring_pool_setup_idle(struct ring_pool *pool)
{
    make_pool(pool, 1, 0, NULL, VERIFY_OFF);
}

void ring_pool_teardown(struct ring_pool *pool)
{
    cr_assert(worker_pool_stop(pool->workers, GUARD_S * 1000));
    worker_pool_free(pool->workers);
    pool->ops->fini(pool->backend);
    backend_cpu_ops.fini(pool->reference);
}

void ring_client_setup(struct ring_client *client, struct ring_pool *pool, uint32_t uid,
                       uint32_t n_slots, uint32_t n_streams)
{
    const struct message_channel_add add = {
        .channel = 1, .uid = uid, .pid = 1, .n_slots = n_slots, .n_streams = n_streams};
    const struct timeval guard = {.tv_sec = GUARD_S};
    int memfd = -1, bells[2];

    *client = (struct ring_client){.pool = pool};
    cr_assert_eq(shm_create(n_slots, n_streams, &client->map, &memfd), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, bells), 0);
    cr_assert_eq(
        channel_new(&add, memfd, bells[1], worker_pool_queue(pool->workers), &client->channel), 0);
    cr_assert_eq(worker_pool_add(pool->workers, client->channel, &client->seat), 0);
    client->bell = bells[0];
    cr_assert_eq(setsockopt(client->bell, SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof(guard)), 0);
}

void ring_client_teardown(struct ring_client *client)
{
    worker_pool_remove(client->seat);
    channel_unref(client->channel);
    if (client->bell >= 0)
        close(client->bell);
    shm_unmap(&client->map);
}

void ring_client_open(struct ring_client *client, uint32_t stream, enum algorithm_id algorithm,
                      const uint8_t key[ALGORITHM_KEY_MAX])
{
    const struct algorithm_info *info = algorithm_get(algorithm);
    const struct key_source source = {
        .info = info,
        .ops = client->pool->ops,
        .backend = client->pool->backend,
        .reference_ops = &backend_cpu_ops,
        .reference = client->pool->reference,
        .statistics = &client->pool->statistics,
        .trust = &client->pool->trust,
        .may_hang = true,
    };
    uint8_t taken[ALGORITHM_KEY_MAX];
    struct key *opened = NULL;

    memcpy(shm_stream(&client->map, stream)->key, key, info->n_key);
    cr_assert_eq(channel_take_key(client->channel, stream, taken, info->n_key), 0);
    cr_assert_eq(key_open(&source, taken, &opened), 0);
    channel_set_stream(client->channel, stream, opened);
}

uint32_t ring_client_slot(const struct ring_client *client, uint32_t sequence)
{
    const uint32_t n = client->map.n_slots;

    return sequence % (n < SHM_SLOTS_REQUEST ? n : SHM_SLOTS_REQUEST);
}

struct shm_request ring_client_make(const struct ring_client *client, uint32_t stream, bool encrypt,
                                    uint32_t n_bytes)
{
    return (struct shm_request){
        .sequence = client->sequence,
        .stream = stream,
        .operation = encrypt ? SHM_OP_ENCRYPT : SHM_OP_DECRYPT,
        .n_bytes = n_bytes,
        .slot = ring_client_slot(client, client->sequence),
    };
}

void ring_client_publish(struct ring_client *client, uint32_t submitted)
{
    struct shm_header *header = shm_header(&client->map);
    const uint8_t byte = 1;

    client->sequence = submitted;
    atomic_store_explicit(&header->submitted, submitted, memory_order_release);
    if (shm_must_ring(&header->engine_waits))
        cr_assert_eq(write(client->bell, &byte, 1), 1);
}

void ring_client_submit(struct ring_client *client, const struct shm_request *request)
{
    *shm_request(&client->map, client->sequence) = *request;
    ring_client_publish(client, client->sequence + 1);
}

bool ring_client_is_done(const struct ring_client *client, uint32_t sequence)
{
    return atomic_load_explicit(
               &shm_done(&client->map, ring_client_slot(client, sequence))->sequence,
               memory_order_acquire) == sequence + 1;
}

int ring_client_wait(struct ring_client *client, uint32_t sequence)
{
    _Atomic uint32_t *waits = &shm_header(&client->map)->client_waits;
    uint8_t byte;

    while (!ring_client_is_done(client, sequence)) {
        shm_wait_begin(waits);
        if (ring_client_is_done(client, sequence)) {
            shm_wait_end(waits);
            break;
        }
        cr_assert_eq(read(client->bell, &byte, 1), 1, "no bell for request %u: %s", sequence,
                     strerror(errno));
    }
    return shm_done(&client->map, ring_client_slot(client, sequence))->result;
}

void ring_pool_wait_faults(struct ring_pool *pool, uint32_t n)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    for (int i = 0; i < GUARD_S * 1000 && atomic_load(&pool->n_faults) < n; i++)
        nanosleep(&pause, NULL);
    cr_assert_eq(atomic_load(&pool->n_faults), n);
}

void ring_client_open_two(struct ring_client *client, uint8_t key[ALGORITHM_KEY_MAX])
{
    ring_fill(key, ALGORITHM_KEY_MAX, 11);
    ring_client_open(client, 0, ALGORITHM_AES_128_CBC, key);
    ring_client_open(client, 1, ALGORITHM_AES_256_CTR, key);
}

void ring_client_expect_right(struct ring_client *client, uint32_t stream,
                              enum algorithm_id algorithm, const uint8_t *key, bool encrypt,
                              uint32_t n_bytes)
{
    struct shm_request request = ring_client_make(client, stream, encrypt, n_bytes);
    uint8_t *slot = shm_data(&client->map, client->sequence);
    static uint8_t want[SHM_SLOT_SIZE];

    ring_fill(request.iv, sizeof(request.iv), client->sequence);
    ring_fill(slot, n_bytes, client->sequence + 1);
    reference_crypt(algorithm, key, request.iv, encrypt, want, slot, n_bytes);
    ring_client_submit(client, &request);
    cr_expect_eq(ring_client_wait(client, request.sequence), 0);
    cr_expect_eq(memcmp(slot, want, n_bytes), 0, "request %u: wrong bytes", request.sequence);
}

void ring_client_expect_works(struct ring_client *client, const uint8_t *key)
{
    ring_client_expect_right(client, 0, ALGORITHM_AES_128_CBC, key, true, 4096);
    ring_client_expect_right(client, 1, ALGORITHM_AES_256_CTR, key, true, 4095);
}
