// SPDX-License-Identifier: MIT
// What the two sides do with shared memory: where things lie, and that no wake-up is lost.
#include "shm.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static struct shm_map make_map(uint32_t n_slots, uint32_t n_streams)
{
    struct shm_map map = {0};
    int fd = -1;

    cr_assert_eq(shm_create(n_slots, n_streams, &map, &fd), 0);
    close(fd);
    return map;
}

static size_t offset(const struct shm_map *map, const void *p)
{
    return (size_t)((const uint8_t *)p - map->base);
}

Test(shm_ring, parts_lie_where_the_layout_says)
{
    for (uint32_t n = 1; n <= SHM_SLOTS_MAX; n *= 2) {
        struct shm_map map = make_map(n, SHM_STREAMS_MAX);
        for (uint32_t i = 0; i < n; i++) {
            cr_expect_eq(offset(&map, shm_request(&map, i)), 4096 + 64 * i);
            cr_expect_eq(offset(&map, shm_done(&map, i)), 8192 + 64 * i);
            cr_expect_eq(offset(&map, shm_data(&map, i)), 16384 + 65536 * i);
        }
        for (uint32_t i = 0; i < SHM_STREAMS_MAX; i++)
            cr_expect_eq(offset(&map, shm_stream(&map, i)), 12288 + 128 * i);
        shm_unmap(&map);
    }
}

// Requests that are in flight together never share a slot, also where the sequence passes 2^32.
Test(shm_ring, neighbours_never_share_a_slot)
{
    for (uint32_t n = 1; n <= SHM_SLOTS_MAX; n *= 2) {
        struct shm_map map = make_map(n, 1);
        for (uint32_t sequence = UINT32_MAX - 2 * n; sequence != 2 * n; sequence++) {
            for (uint32_t ahead = 1; ahead < n; ahead++) {
                cr_assert_neq(shm_request(&map, sequence), shm_request(&map, sequence + ahead));
                cr_assert_neq(shm_data(&map, sequence), shm_data(&map, sequence + ahead));
            }
            cr_assert_eq(shm_request(&map, sequence), shm_request(&map, sequence + n));
        }
        shm_unmap(&map);
    }
}

// Any number, however hostile, stays inside.
Test(shm_ring, no_index_leaves_the_memory)
{
    static const uint32_t any[] = {0, 1, 31, 32, 63, 64, 0x7fffffff, 0x80000000, UINT32_MAX};
    struct shm_map map = make_map(2, 1);

    for (size_t i = 0; i < sizeof any / sizeof any[0]; i++) {
        cr_expect_leq(offset(&map, shm_request(&map, any[i])) + sizeof(struct shm_request), 8192);
        cr_expect_leq(offset(&map, shm_done(&map, any[i])) + sizeof(struct shm_done), 12288);
        cr_expect_leq(offset(&map, shm_stream(&map, any[i])) + sizeof(struct shm_stream), 16384);
        cr_expect_leq(offset(&map, shm_data(&map, any[i])) + SHM_SLOT_SIZE, map.size);
    }
    shm_unmap(&map);
}

Test(shm_ring, one_ring_for_one_sleep)
{
    _Atomic uint32_t waits = 0;

    cr_expect_not(shm_must_ring(&waits));
    shm_wait_begin(&waits);
    cr_expect(shm_must_ring(&waits));
    cr_expect_not(shm_must_ring(&waits), "rung once already");
    shm_wait_begin(&waits);
    shm_wait_end(&waits);
    cr_expect_not(shm_must_ring(&waits));
    waits = 0xdeadbeef; // a hostile value counts as asleep, once
    cr_expect(shm_must_ring(&waits));
    cr_expect_eq(waits, 0);
}

// Two sides that sleep whenever they can, with a bell between them. A lost wake-up leaves a side in
// read(), whose timeout then fails the test.
#define ROUNDS 20000u

struct side {
    struct shm_map map;
    int bell;
};

static uint32_t done_sequence(const struct shm_map *map, uint32_t sequence)
{
    return atomic_load_explicit(&shm_done(map, sequence)->sequence, memory_order_acquire);
}

static int bell_wait(int fd)
{
    char byte;

    return read(fd, &byte, 1) == 1 ? 0 : -errno;
}

static void *engine_run(void *argument)
{
    const struct side *side = argument;
    struct shm_header *header = shm_header(&side->map);
    uint32_t taken = 0;

    while (taken != ROUNDS) {
        while (taken != atomic_load_explicit(&header->submitted, memory_order_acquire)) {
            uint32_t n = shm_request(&side->map, taken)->n_bytes;
            shm_done(&side->map, taken)->result = -(int32_t)n;
            atomic_store_explicit(&shm_done(&side->map, taken)->sequence, taken + 1,
                                  memory_order_release);
            taken++;
            if (shm_must_ring(&header->client_waits) && write(side->bell, "", 1) != 1)
                return "the engine cannot ring";
        }
        if (taken == ROUNDS)
            break;
        shm_wait_begin(&header->engine_waits);
        if (taken != atomic_load_explicit(&header->submitted, memory_order_acquire))
            continue; // an extra ring is harmless: the loop looks before it sleeps
        if (bell_wait(side->bell) < 0)
            return "the engine missed a ring";
    }
    return NULL;
}

static const char *client_wait(const struct side *side, uint32_t sequence)
{
    struct shm_header *header = shm_header(&side->map);

    while (done_sequence(&side->map, sequence) != sequence + 1) {
        shm_wait_begin(&header->client_waits);
        if (done_sequence(&side->map, sequence) == sequence + 1) {
            shm_wait_end(&header->client_waits);
            break;
        }
        if (bell_wait(side->bell) < 0)
            return "the client missed a ring";
    }
    return shm_done(&side->map, sequence)->result == -(int32_t)sequence ? NULL : "wrong result";
}

static const char *client_run(const struct side *side, uint32_t in_flight)
{
    struct shm_header *header = shm_header(&side->map);
    const char *error = NULL;

    for (uint32_t sequence = 0; sequence != ROUNDS && !error; sequence++) {
        if (sequence >= in_flight)
            error = client_wait(side, sequence - in_flight);
        shm_request(&side->map, sequence)->n_bytes = sequence;
        atomic_store_explicit(&header->submitted, sequence + 1, memory_order_release);
        if (shm_must_ring(&header->engine_waits) && write(side->bell, "", 1) != 1)
            error = "the client cannot ring";
    }
    for (uint32_t i = in_flight; i > 0 && !error; i--)
        error = client_wait(side, ROUNDS - i);
    return error;
}

static void run_both(uint32_t n_slots, uint32_t in_flight)
{
    const struct timeval hang = {.tv_sec = 20};
    struct side client = {.map = make_map(n_slots, 1)}, engine = {.map = client.map};
    int bell[2];
    pthread_t thread;
    void *engine_error = NULL;

    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, bell), 0);
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(setsockopt(bell[i], SOL_SOCKET, SO_RCVTIMEO, &hang, sizeof hang), 0);
    client.bell = bell[0];
    engine.bell = bell[1];
    cr_assert_eq(pthread_create(&thread, NULL, engine_run, &engine), 0);
    const char *error = client_run(&client, in_flight);
    cr_assert_eq(pthread_join(thread, &engine_error), 0);
    cr_expect_eq(error, NULL, "%s", error);
    cr_expect_eq(engine_error, NULL, "%s", (const char *)engine_error);
    close(bell[0]);
    close(bell[1]);
    shm_unmap(&client.map);
}

Test(shm_ring, no_wake_up_is_lost_one_by_one, .timeout = 120)
{
    run_both(1, 1);
    run_both(4, 1);
}

Test(shm_ring, no_wake_up_is_lost_with_several_in_flight, .timeout = 120)
{
    run_both(2, 2);
    run_both(4, 4);
    run_both(64, 7);
}
