// SPDX-License-Identifier: MIT
// The engine's side of the ring: right requests are done right, and each wrong one costs its own
// channel and nothing else, whatever it is.
#include "channel.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "channel_impl.h" // to set the count of requests
#include "reference.h"
#include "ring_rig.h"

TestSuite(ring, .timeout = 120);

static struct ring_pool pool;

static void open_streams(struct ring_client *client, uint8_t key[ALGORITHM_KEY_MAX])
{
    ring_fill(key, ALGORITHM_KEY_MAX, 11);
    ring_client_open(client, 0, ALGORITHM_AES_128_CBC, key);
    ring_client_open(client, 1, ALGORITHM_AES_256_CTR, key);
}

// Sends one request and compares what comes back.
static void expect_right(struct ring_client *client, uint32_t stream, enum algorithm_id algorithm,
                         const uint8_t *key, bool encrypt, uint32_t n_bytes)
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

static void expect_works(struct ring_client *client, const uint8_t *key)
{
    expect_right(client, 0, ALGORITHM_AES_128_CBC, key, true, 4096);
    expect_right(client, 1, ALGORITHM_AES_256_CTR, key, true, 4095);
}

Test(ring, does_requests)
{
    struct ring_client client;
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_pool_setup(&pool, 2, 0, NULL);
    ring_client_setup(&client, &pool, 1000, 4, 4);
    open_streams(&client, key);
    for (int i = 0; i < 50; i++) {
        expect_right(&client, 0, ALGORITHM_AES_128_CBC, key, true, 16 * (1 + (uint32_t)i * 80));
        expect_right(&client, 0, ALGORITHM_AES_128_CBC, key, false, 65536);
        expect_right(&client, 1, ALGORITHM_AES_256_CTR, key, i % 2, 1 + (uint32_t)i * 1000);
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
    open_streams(&client, key);
    for (int i = 0; i < 200; i++)
        expect_works(&client, key);
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

Test(ring, does_all_slots_at_once)
{
    struct ring_client client;
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_pool_setup(&pool, 2, 0, NULL);
    ring_client_setup(&client, &pool, 1000, 4, 2);
    open_streams(&client, key);
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
    open_streams(&client, key);
    for (int i = 0; i < 10; i++) {
        expect_right(&client, 0, ALGORITHM_AES_128_CBC, key, true, 64);
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
    open_streams(&client, key);
    channel_close_stream(client.channel, 0);
    struct shm_request request = ring_client_make(&client, 0, true, 64);
    ring_client_submit(&client, &request);
    cr_expect_eq(ring_client_wait(&client, request.sequence), -ENOKEY);
    // The others go on, and the number can be opened again.
    expect_right(&client, 1, ALGORITHM_AES_256_CTR, key, true, 64);
    ring_client_open(&client, 0, ALGORITHM_AES_128_CBC, key);
    expect_works(&client, key);
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

Test(ring, lets_a_stream_be_closed_while_its_request_runs)
{
    struct ring_client client;
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_pool_setup(&pool, 1, 0, "delay_ms=100");
    ring_client_setup(&client, &pool, 1000, 4, 4);
    open_streams(&client, key);
    struct shm_request request = ring_client_make(&client, 0, true, 64);
    ring_client_submit(&client, &request);
    channel_close_stream(client.channel, 0);
    int r = ring_client_wait(&client, request.sequence);
    cr_expect(r == 0 || r == -ENOKEY);
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

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

Test(ring, drops_the_channel_that_breaks_the_rules_and_no_other)
{
    struct ring_client good, bad;
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_pool_setup(&pool, 1, 0, NULL);
    ring_client_setup(&good, &pool, 1000, 4, 4);
    open_streams(&good, key);
    for (uint32_t i = 0; i < N_WRONGS; i++) {
        ring_client_setup(&bad, &pool, 1000, 4, 4);
        open_streams(&bad, key);
        expect_works(&bad, key);
        struct shm_request request = ring_client_make(&bad, 0, true, 64);
        wrongs[i].make(&bad, &request);
        const uint32_t sequence = bad.sequence;
        ring_client_submit(&bad, &request);
        ring_pool_wait_faults(&pool, i + 1);
        cr_expect_not(ring_client_is_done(&bad, sequence));
        expect_works(&good, key);
        expect_dropped(&bad, wrongs[i].fault);
    }
    expect_works(&good, key);
    ring_client_teardown(&good);
    ring_pool_teardown(&pool);
}

static void expect_fault_of_index(uint32_t ahead)
{
    struct ring_client client;
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_pool_setup(&pool, 1, 0, NULL);
    ring_client_setup(&client, &pool, 1000, 4, 4);
    open_streams(&client, key);
    ring_client_publish(&client, client.sequence + ahead);
    ring_pool_wait_faults(&pool, 1);
    expect_dropped(&client, "more requests than slots");
    ring_pool_teardown(&pool);
}

Test(ring, drops_a_channel_with_more_requests_than_slots)
{
    expect_fault_of_index(5);
}

Test(ring, drops_a_channel_whose_index_goes_back)
{
    expect_fault_of_index(UINT32_MAX);
}

// ---------------------------------------------------------------- step by step, without threads

// A channel whose worker never starts: the test collects and runs.
static void setup_idle_client(struct ring_client *client, uint32_t n_slots, uint32_t first)
{
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_pool_setup_idle(&pool);
    ring_client_setup(client, &pool, 1000, n_slots, 4);
    open_streams(client, key);
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
    channel_run(pop());
    submit(&client);
    cr_expect_eq(channel_collect(client.channel), 1);
    submit(&client); // slot 1 waits
    cr_expect_eq(channel_collect(client.channel), -EBADMSG);
    cr_expect_str_eq(channel_fault(client.channel), "a request in a slot that is in use");
    // What waits is dropped without an answer.
    channel_run(pop());
    channel_run(pop());
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
        channel_run(pop());
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
    channel_run(pop());
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

// ---------------------------------------------------------------- bells

Test(ring, forgets_a_client_whose_bell_ends_without_using_the_processor)
{
    struct ring_client gone, stays;
    uint8_t key[ALGORITHM_KEY_MAX];
    struct timespec before, after;
    const struct timespec pause = {.tv_nsec = 200000000};
    clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;

    ring_pool_setup(&pool, 1, 0, NULL);
    ring_client_setup(&gone, &pool, 1000, 4, 4);
    ring_client_setup(&stays, &pool, 1000, 4, 4);
    open_streams(&gone, key);
    open_streams(&stays, key);
    expect_works(&gone, key);
    close(gone.bell);
    gone.bell = -1;
    expect_works(&stays, key);
    clock_gettime(clock, &before);
    nanosleep(&pause, NULL);
    clock_gettime(clock, &after);
    // A loop on the end of file would use all of the 200 ms.
    cr_expect_lt((after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec,
                 100000000L);
    expect_works(&stays, key);
    ring_client_teardown(&gone);
    ring_client_teardown(&stays);
    ring_pool_teardown(&pool);
}

// A client with a copy of the engine's end takes packets away and makes the descriptor blocking.
Test(ring, is_not_held_up_by_a_copy_of_its_own_end_of_the_bell)
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
    open_streams(&good, key);
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
            expect_works(&good, key);
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

Test(ring, refuses_wrong_memory_and_wrong_bells)
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

Test(ring, survives_memory_that_changes_all_the_time)
{
    struct vandal vandal = {.stop = false};
    struct ring_client good;
    uint8_t key[ALGORITHM_KEY_MAX];
    pthread_t thread;

    ring_pool_setup(&pool, 2, 0, NULL);
    ring_client_setup(&good, &pool, 1000, 4, 4);
    open_streams(&good, key);
    for (int round = 0; round < 30; round++) {
        struct ring_client bad;

        ring_client_setup(&bad, &pool, 1000, 4, 4);
        open_streams(&bad, key);
        vandal.map = bad.map;
        atomic_store(&vandal.stop, false);
        cr_assert_eq(pthread_create(&thread, NULL, scribble, &vandal), 0);
        for (int i = 0; i < 200; i++) {
            struct shm_request request = ring_client_make(&bad, 0, true, 4096);
            ring_client_submit(&bad, &request);
        }
        expect_works(&good, key);
        atomic_store(&vandal.stop, true);
        pthread_join(thread, NULL);
        ring_client_teardown(&bad);
    }
    ring_client_teardown(&good);
    ring_pool_teardown(&pool);
}
