// SPDX-License-Identifier: MIT
// Clients that break the ring's rules, misuse the bell, bring what is no memory, or write over
// everything: each costs its own channel and nothing else.
#include "channel.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ring_rig.h"

TestSuite(ring_hostile, .timeout = 120);

static struct ring_pool pool;

// ---------------------------------------------------------------- what breaks the rules

struct wrong {
    const char *fault;
    void (*make)(struct ring_client *client, struct shm_request *request);
};

static void wrong_sequence(struct ring_client *client, struct shm_request *request)
{
    (void)client;
    request->sequence += 1;
}

static void wrong_stream(struct ring_client *client, struct shm_request *request)
{
    request->stream = client->map.n_streams;
}

static void wrong_stream_far(struct ring_client *client, struct shm_request *request)
{
    (void)client;
    request->stream = UINT32_MAX;
}

static void wrong_unopened(struct ring_client *client, struct shm_request *request)
{
    (void)client;
    request->stream = 2;
}

static void wrong_operation(struct ring_client *client, struct shm_request *request)
{
    (void)client;
    request->operation = SHM_OP_KEYSTREAM + 1;
}

static void wrong_no_operation(struct ring_client *client, struct shm_request *request)
{
    (void)client;
    request->operation = 0;
}

static void wrong_empty(struct ring_client *client, struct shm_request *request)
{
    (void)client;
    request->n_bytes = 0;
}

static void wrong_long(struct ring_client *client, struct shm_request *request)
{
    (void)client;
    request->n_bytes = SHM_SLOT_SIZE + 16;
}

static void wrong_longest(struct ring_client *client, struct shm_request *request)
{
    (void)client;
    request->n_bytes = UINT32_MAX - 15;
}

static void wrong_block(struct ring_client *client, struct shm_request *request)
{
    (void)client;
    request->n_bytes = 65535;
}

static void wrong_reserved(struct ring_client *client, struct shm_request *request)
{
    (void)client;
    request->reserved[27] = 0x80;
}

static const struct wrong wrongs[] = {
    {"a request out of sequence", wrong_sequence},
    {"a request for a stream out of range", wrong_stream},
    {"a request for a stream out of range", wrong_stream_far},
    {"a request for a stream that was never opened", wrong_unopened},
    {"a request for an unknown operation", wrong_operation},
    {"a request for an unknown operation", wrong_no_operation},
    {"a request of a wrong length", wrong_empty},
    {"a request of a wrong length", wrong_long},
    {"a request of a wrong length", wrong_longest},
    {"a request that is not a multiple of the block", wrong_block},
    {"a request with reserved bytes set", wrong_reserved},
};
#define N_WRONGS (sizeof(wrongs) / sizeof(wrongs[0]))

// The client is told nothing, whatever it does, and its memory and bell are let go.
static void expect_dropped(struct ring_client *client, const char *fault)
{
    const char *found = channel_fault(client->channel);
    uint8_t byte;

    cr_assert_not_null(found);
    cr_expect_str_eq(found, fault);
    worker_pool_remove(client->seat);
    channel_unref(client->channel);
    while (read(client->bell, &byte, 1) > 0) // until end of file: the engine's end is closed
        continue;
    close(client->bell);
    shm_unmap(&client->map);
}

Test(ring_hostile, drops_the_channel_that_breaks_the_rules_and_no_other)
{
    struct ring_client good, bad;
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_pool_setup(&pool, 1, 0, NULL);
    ring_client_setup(&good, &pool, 1000, 4, 4);
    ring_client_open_two(&good, key);
    for (uint32_t i = 0; i < N_WRONGS; i++) {
        ring_client_setup(&bad, &pool, 1000, 4, 4);
        ring_client_open_two(&bad, key);
        ring_client_expect_works(&bad, key);
        struct shm_request request = ring_client_make(&bad, 0, true, 64);
        wrongs[i].make(&bad, &request);
        const uint32_t sequence = bad.sequence;
        ring_client_submit(&bad, &request);
        ring_pool_wait_faults(&pool, i + 1);
        cr_expect_not(ring_client_is_done(&bad, sequence));
        ring_client_expect_works(&good, key);
        expect_dropped(&bad, wrongs[i].fault);
    }
    ring_client_expect_works(&good, key);
    ring_client_teardown(&good);
    ring_pool_teardown(&pool);
}

static void expect_fault_of_index(uint32_t ahead)
{
    struct ring_client client;
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_pool_setup(&pool, 1, 0, NULL);
    ring_client_setup(&client, &pool, 1000, 4, 4);
    ring_client_open_two(&client, key);
    ring_client_publish(&client, client.sequence + ahead);
    ring_pool_wait_faults(&pool, 1);
    expect_dropped(&client, "more requests than slots");
    ring_pool_teardown(&pool);
}

Test(ring_hostile, drops_a_channel_with_more_requests_than_slots)
{
    expect_fault_of_index(5);
}

Test(ring_hostile, drops_a_channel_whose_index_goes_back)
{
    expect_fault_of_index(UINT32_MAX);
}

// ---------------------------------------------------------------- bells

Test(ring_hostile, forgets_a_client_whose_bell_ends_without_using_the_processor)
{
    struct ring_client gone, stays;
    uint8_t key[ALGORITHM_KEY_MAX];
    struct timespec before, after;
    const struct timespec pause = {.tv_nsec = 200000000};
    clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;

    ring_pool_setup(&pool, 1, 0, NULL);
    ring_client_setup(&gone, &pool, 1000, 4, 4);
    ring_client_setup(&stays, &pool, 1000, 4, 4);
    ring_client_open_two(&gone, key);
    ring_client_open_two(&stays, key);
    ring_client_expect_works(&gone, key);
    close(gone.bell);
    gone.bell = -1;
    ring_client_expect_works(&stays, key);
    clock_gettime(clock, &before);
    nanosleep(&pause, NULL);
    clock_gettime(clock, &after);
    // A loop on the end of file would use all of the 200 ms.
    cr_expect_lt((after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec,
                 100000000L);
    ring_client_expect_works(&stays, key);
    ring_client_teardown(&gone);
    ring_client_teardown(&stays);
    ring_pool_teardown(&pool);
}

// A client with a copy of the engine's end takes packets away and makes the descriptor blocking.
Test(ring_hostile, is_not_held_up_by_a_copy_of_its_own_end_of_the_bell)
{
    const struct message_channel_add add = {
        .channel = 1, .uid = 1, .pid = 1, .n_slots = 1, .n_streams = 1};
    struct shm_map map;
    struct ring_client good;
    uint8_t key[ALGORITHM_KEY_MAX];
    struct channel *channel = NULL;
    struct worker_seat *seat = NULL;
    int memfd = -1, bells[2], copy, size = 1;

    ring_pool_setup(&pool, 1, 0, NULL);
    ring_client_setup(&good, &pool, 1000, 4, 4);
    ring_client_open_two(&good, key);
    cr_assert_eq(shm_create(1, 1, &map, &memfd), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, bells), 0);
    copy = dup(bells[1]);
    cr_assert_eq(channel_new(&add, memfd, bells[1], worker_pool_queue(pool.workers), &channel), 0);
    cr_assert_eq(worker_pool_add(pool.workers, channel, &seat), 0);
    // The engine's end can hold next to nothing, and nobody reads the other.
    setsockopt(copy, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    for (int i = 0; i < 2000; i++) {
        uint8_t byte = 1;

        cr_assert_eq(fcntl(copy, F_SETFL, 0), 0);
        cr_assert_eq(write(bells[0], &byte, 1), 1);
        (void)recv(copy, &byte, 1, MSG_DONTWAIT);
        (void)send(copy, &byte, 1, MSG_DONTWAIT);
        if (i % 100 == 0)
            ring_client_expect_works(&good, key);
    }
    close(copy);
    close(bells[0]);
    shm_unmap(&map);
    worker_pool_remove(seat);
    channel_unref(channel);
    ring_client_teardown(&good);
    ring_pool_teardown(&pool);
}

// ---------------------------------------------------------------- what is no channel

static int try_channel(int memfd, int bell, uint32_t n_slots, uint32_t n_streams)
{
    const struct message_channel_add add = {
        .channel = 1, .n_slots = n_slots, .n_streams = n_streams};
    struct channel *channel = NULL;
    int r = channel_new(&add, memfd, bell, worker_pool_queue(pool.workers), &channel);

    cr_expect_null(channel);
    return r;
}

Test(ring_hostile, refuses_wrong_memory_and_wrong_bells)
{
    int memfd = -1, other, bells[2], streams[2], null = open("/dev/null", O_RDWR);
    struct shm_map map;

    ring_pool_setup(&pool, 1, 0, NULL);
    cr_assert_eq(shm_create(2, 2, &map, &memfd), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, bells), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, streams), 0);
    other = memfd_create("unsealed", 0);
    cr_assert_eq(ftruncate(other, (off_t)shm_size(2)), 0);
    cr_expect_eq(try_channel(memfd, streams[0], 2, 2), -EPROTOTYPE);
    cr_expect_eq(try_channel(memfd, null, 2, 2), -EPROTOTYPE);
    cr_expect_eq(try_channel(memfd, -1, 2, 2), -EPROTOTYPE);
    cr_expect_eq(try_channel(other, bells[0], 2, 2), -EMEDIUMTYPE);
    cr_expect_eq(try_channel(null, bells[0], 2, 2), -EMEDIUMTYPE);
    cr_expect_eq(try_channel(memfd, bells[0], 4, 2), -ERANGE);
    cr_expect_eq(try_channel(memfd, bells[0], 0, 2), -ERANGE);
    cr_expect_eq(try_channel(memfd, bells[0], UINT32_MAX, 2), -ERANGE);
    cr_expect_eq(try_channel(memfd, bells[0], 2, 0), -ERANGE);
    cr_expect_eq(try_channel(memfd, bells[0], 2, SHM_STREAMS_MAX + 1), -ERANGE);
    close(memfd);
    close(other);
    close(null);
    for (int i = 0; i < 2; i++) {
        close(bells[i]);
        close(streams[i]);
    }
    shm_unmap(&map);
    ring_pool_teardown(&pool);
}

// ---------------------------------------------------------------- a client that goes mad

struct vandal {
    struct shm_map map;
    _Atomic bool stop;
};

static void *scribble(void *arg)
{
    struct vandal *vandal = arg;
    volatile uint32_t *words = (volatile uint32_t *)(void *)vandal->map.base;
    uint32_t state = 1;

    // Headers, requests, completions, keys and data, but for the index of requests and the flag of
    // the engine's sleep, which the test uses.
    while (!atomic_load(&vandal->stop)) {
        state = state * 1664525u + 1013904223u;
        uint32_t word = (state >> 8) % (uint32_t)(vandal->map.size / 4);
        if (word >= 48)
            words[word] = state;
    }
    return NULL;
}

Test(ring_hostile, survives_memory_that_changes_all_the_time)
{
    struct vandal vandal = {.stop = false};
    struct ring_client good;
    uint8_t key[ALGORITHM_KEY_MAX];
    pthread_t thread;

    ring_pool_setup(&pool, 2, 0, NULL);
    ring_client_setup(&good, &pool, 1000, 4, 4);
    ring_client_open_two(&good, key);
    for (int round = 0; round < 30; round++) {
        struct ring_client bad;

        ring_client_setup(&bad, &pool, 1000, 4, 4);
        ring_client_open_two(&bad, key);
        vandal.map = bad.map;
        atomic_store(&vandal.stop, false);
        cr_assert_eq(pthread_create(&thread, NULL, scribble, &vandal), 0);
        for (int i = 0; i < 200; i++) {
            struct shm_request request = ring_client_make(&bad, 0, true, 4096);
            ring_client_submit(&bad, &request);
        }
        ring_client_expect_works(&good, key);
        atomic_store(&vandal.stop, true);
        pthread_join(thread, NULL);
        ring_client_teardown(&bad);
    }
    ring_client_teardown(&good);
    ring_pool_teardown(&pool);
}
