// SPDX-License-Identifier: MIT
// client-lib/slot.c and lane.c: keys asked for, refused, answered late, given back.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cryptod.h"
#include "fake_daemon.h"
#include "reference.h"
#include "session.h"

#define N_DATA 4096u

TestSuite(slot, .timeout = 120);

static const uint8_t key[32] = {2, 7, 1, 8}, other_key[32] = {2, 8}, iv[16] = {1, 8, 2};
static struct fake_daemon fake;
static uint8_t data[N_DATA], expected[N_DATA];

static void start(uint32_t deadline_ms)
{
    fake_daemon_init(&fake, deadline_ms);
    fake_daemon_start(&fake);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
}

static void stop(void)
{
    cryptod_close();
    fake_daemon_stop(&fake);
}

// One call from the start of a stream on, compared with OpenSSL.
static void crypt_and_check(cryptod_stream *stream, const uint8_t *stream_key)
{
    memset(data, 7, sizeof data);
    reference_crypt(ALGORITHM_AES_256_CBC, stream_key, iv, true, expected, data, sizeof data);
    cr_assert_eq(cryptod_stream_init(stream, NULL, iv, true), 0);
    cr_assert_eq(cryptod_stream_crypt(stream, data, data, sizeof data), 0);
    cr_assert_arr_eq(data, expected, sizeof data);
}

static cryptod_stream *stream_new(void)
{
    cryptod_stream *stream;

    cr_assert_eq(cryptod_stream_new(CRYPTOD_AES_256_CBC, &stream), 0);
    cr_assert_eq(cryptod_stream_init(stream, key, iv, true), 0);
    return stream;
}

static void wait_for_lane(const cryptod_stream *stream)
{
    for (int i = 0; cryptod_stream_lane(stream) != CRYPTOD_LANE_REQUEST; i++) {
        cr_assert_lt(i, 5000, "the stream never got its lane");
        usleep(1000);
    }
}

static bool key_is_wiped(uint32_t index)
{
    static const uint8_t zeroes[64];
    struct session *session = session_acquire();

    cr_assert_not_null(session);
    bool wiped = memcmp(shm_stream(&session->map, index)->key, zeroes, sizeof zeroes) == 0;
    session_release(session);
    return wiped;
}

Test(slot, the_first_large_call_asks_and_goes_on)
{
    start(5000);
    atomic_store(&fake.on_open, FAKE_SILENT);
    cryptod_stream *stream = stream_new();
    cr_assert_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_SOFTWARE);
    for (int i = 0; i < 3; i++)
        crypt_and_check(stream, key);
    fake_daemon_wait(&fake.opens, 1);
    cr_assert_not(key_is_wiped(0));
    cr_assert_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_SOFTWARE);
    atomic_store(&fake.on_open, FAKE_ACCEPT);
    wait_for_lane(stream);
    cr_assert(key_is_wiped(0));
    crypt_and_check(stream, key);
    cr_assert_eq(atomic_load(&fake.requests), 1);

    // An IV alone keeps the key; a new key does not.
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(cryptod_stream_init(stream, NULL, iv, true), 0);
    crypt_and_check(stream, key);
    cr_assert_eq(atomic_load(&fake.opens), 1);
    cr_assert_eq(cryptod_stream_init(stream, other_key, NULL, true), 0);
    fake_daemon_wait(&fake.closes, 1);
    crypt_and_check(stream, other_key);
    wait_for_lane(stream);
    crypt_and_check(stream, other_key);
    cr_assert_eq(atomic_load(&fake.opens), 2);
    cr_assert_eq(atomic_load(&fake.requests), 3);
    cryptod_stream_free(stream);
    fake_daemon_wait(&fake.closes, 2);
    stop();
}

Test(slot, bulk_means_bytes_since_the_key)
{
    fake_daemon_init(&fake, 5000);
    fake.hello.bulk_threshold = 3 * N_DATA;
    fake.hello.offer[ALGORITHM_AES_256_CBC].request_min = 1024;
    fake_daemon_start(&fake);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    cryptod_stream *stream = stream_new();
    for (int i = 0; i < 3; i++) {
        fake_daemon_settle(&fake);
        cr_assert_eq(atomic_load(&fake.opens), 0, "after %d calls", i);
        crypt_and_check(stream, key);
    }
    crypt_and_check(stream, key);
    fake_daemon_wait(&fake.opens, 1);
    wait_for_lane(stream);
    // A small call stays in the process even so.
    uint8_t small[1008] = {0};
    cr_assert_eq(cryptod_stream_crypt(stream, small, small, sizeof small), 0);
    cr_assert_eq(atomic_load(&fake.requests), 0);
    // A copy, and a new key, count from the beginning.
    cryptod_stream *copy;
    cr_assert_eq(cryptod_stream_dup(stream, &copy), 0);
    crypt_and_check(copy, key);
    cr_assert_eq(cryptod_stream_init(stream, other_key, iv, true), 0);
    crypt_and_check(stream, other_key);
    fake_daemon_settle(&fake);
    cr_assert_eq(atomic_load(&fake.opens), 1);
    cryptod_stream_free(copy);
    cryptod_stream_free(stream);
    stop();
}

// One call larger than the threshold finds its lane on the way. (DES, because software takes long
// enough for an answer to come meanwhile.)
Test(slot, a_huge_call_moves_in_the_middle)
{
    size_t n = (size_t)12 << 20;
    uint8_t *huge = malloc(n), *right = malloc(n);
    struct cryptod_counters counters;

    start(5000);
    cr_assert_not_null(huge);
    cr_assert_not_null(right);
    memset(huge, 1, n);
    reference_crypt(ALGORITHM_DES_EDE3_CBC, key, iv, true, right, huge, n);
    cryptod_stream *stream;
    cr_assert_eq(cryptod_stream_new(CRYPTOD_DES_EDE3_CBC, &stream), 0);
    cr_assert_eq(cryptod_stream_init(stream, key, iv, true), 0);
    cr_assert_eq(cryptod_stream_crypt(stream, huge, huge, n), 0);
    cr_assert_eq(memcmp(huge, right, n), 0);
    cryptod_counters_get(&counters);
    cr_assert_gt(counters.request_bytes, 0);
    cr_assert_gt(counters.software_bytes, 0);
    cr_assert_eq(counters.request_bytes + counters.software_bytes, n);
    cryptod_stream_free(stream);
    free(huge);
    free(right);
    stop();
}

Test(slot, a_refusal_holds_for_the_key)
{
    start(5000);
    atomic_store(&fake.on_open, FAKE_REFUSE);
    cryptod_stream *stream = stream_new();
    crypt_and_check(stream, key);
    fake_daemon_wait(&fake.answers, 1);
    for (int i = 0; i < 5; i++)
        crypt_and_check(stream, key);
    fake_daemon_settle(&fake);
    cr_assert_eq(atomic_load(&fake.opens), 1);
    cr_assert(key_is_wiped(0));
    cr_assert_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_SOFTWARE);
    atomic_store(&fake.on_open, FAKE_ACCEPT);
    cr_assert_eq(cryptod_stream_init(stream, other_key, iv, true), 0);
    crypt_and_check(stream, other_key);
    wait_for_lane(stream);
    cr_assert_eq(atomic_load(&fake.opens), 2);
    cr_assert_eq(atomic_load(&fake.closes), 0);
    cryptod_stream_free(stream);
    stop();
}

// Each refusal in a row doubles what a stream does alone before it asks again.
Test(slot, refusals_make_it_ask_less)
{
    fake_daemon_init(&fake, 5000);
    fake.hello.bulk_threshold = N_DATA;
    fake_daemon_start(&fake);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    atomic_store(&fake.on_open, FAKE_REFUSE);
    cryptod_stream *stream = stream_new();
    for (uint32_t refusals = 0; refusals < 4; refusals++) {
        cr_assert_eq(cryptod_stream_init(stream, other_key, iv, true), 0);
        for (uint32_t calls = 0; calls < 1u << refusals; calls++)
            crypt_and_check(stream, other_key);
        fake_daemon_settle(&fake);
        cr_assert_eq(atomic_load(&fake.opens), refusals);
        crypt_and_check(stream, other_key);
        fake_daemon_wait(&fake.answers, refusals + 1);
        crypt_and_check(stream, other_key); // sees the refusal
    }
    cryptod_stream_free(stream);
    stop();
}

Test(slot, an_answer_past_the_deadline_is_a_refusal)
{
    start(500);
    atomic_store(&fake.on_open, FAKE_SILENT);
    cryptod_stream *stream = stream_new();
    crypt_and_check(stream, key);
    fake_daemon_wait(&fake.opens, 1);
    usleep(600000);
    crypt_and_check(stream, key);
    cr_assert(key_is_wiped(0));
    atomic_store(&fake.on_open, FAKE_ACCEPT);
    fake_daemon_wait(&fake.answers, 1);
    crypt_and_check(stream, key);
    cr_assert_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_SOFTWARE);
    cr_assert_eq(atomic_load(&fake.opens), 1);
    // The late yes is answered with a close when the channel is used next.
    cryptod_stream *second = stream_new();
    crypt_and_check(second, key);
    fake_daemon_wait(&fake.closes, 1);
    wait_for_lane(second);
    crypt_and_check(second, key);
    cryptod_stream_free(stream);
    cryptod_stream_free(second);
    stop();
}

// A number whose question is open is not used again, whatever became of its stream.
Test(slot, numbers_are_not_reused_before_their_answer)
{
    cryptod_stream *streams[HANDSHAKE_STREAMS + 1];

    start(60000);
    atomic_store(&fake.on_open, FAKE_SILENT);
    for (uint32_t i = 0; i < HANDSHAKE_STREAMS; i++) {
        streams[i] = stream_new();
        crypt_and_check(streams[i], key);
        cryptod_stream_free(streams[i]);
        cr_assert(key_is_wiped(i));
    }
    fake_daemon_wait(&fake.opens, HANDSHAKE_STREAMS);
    streams[0] = stream_new();
    crypt_and_check(streams[0], key);
    crypt_and_check(streams[0], key);
    fake_daemon_settle(&fake);
    cr_assert_eq(atomic_load(&fake.opens), HANDSHAKE_STREAMS);
    atomic_store(&fake.on_open, FAKE_ACCEPT);
    fake_daemon_wait(&fake.answers, HANDSHAKE_STREAMS);
    crypt_and_check(streams[0], key);
    fake_daemon_wait(&fake.closes, HANDSHAKE_STREAMS);
    wait_for_lane(streams[0]);
    crypt_and_check(streams[0], key);
    cryptod_stream_free(streams[0]);
    stop();
}

Test(slot, one_stream_too_many_waits_in_software)
{
    cryptod_stream *streams[HANDSHAKE_STREAMS + 1];

    start(5000);
    for (uint32_t i = 0; i <= HANDSHAKE_STREAMS; i++) {
        streams[i] = stream_new();
        crypt_and_check(streams[i], key);
        if (i < HANDSHAKE_STREAMS)
            wait_for_lane(streams[i]);
    }
    cryptod_stream *last = streams[HANDSHAKE_STREAMS];
    cr_assert_eq(atomic_load(&fake.opens), HANDSHAKE_STREAMS);
    cryptod_stream_free(streams[3]);
    crypt_and_check(last, key);
    wait_for_lane(last);
    crypt_and_check(last, key);
    streams[3] = NULL;
    for (uint32_t i = 0; i <= HANDSHAKE_STREAMS; i++)
        cryptod_stream_free(streams[i]);
    fake_daemon_wait(&fake.closes, HANDSHAKE_STREAMS + 1);
    stop();
}

// Whoever frees a stream does not wait for the channel: the next holder sees to it.
Test(slot, freed_while_the_channel_is_in_use)
{
    start(5000);
    cryptod_stream *stream = stream_new(), *second = stream_new();
    crypt_and_check(stream, key);
    wait_for_lane(stream);
    struct session *session = session_acquire();
    cr_assert_not_null(session);
    cr_assert_null(session_acquire());
    crypt_and_check(stream, key); // in software
    cr_assert_eq(atomic_load(&fake.requests), 0);
    cryptod_stream_free(stream);
    fake_daemon_settle(&fake);
    cr_assert_eq(atomic_load(&fake.closes), 0);
    session_release(session);
    fake_daemon_wait(&fake.closes, 1);
    crypt_and_check(second, key);
    wait_for_lane(second);
    crypt_and_check(second, key);
    cryptod_stream_free(second);
    stop();
}

Test(slot, an_answer_to_nothing_ends_the_channel)
{
    start(5000);
    atomic_store(&fake.on_open, FAKE_GARBAGE);
    cryptod_stream *stream = stream_new();
    crypt_and_check(stream, key);
    fake_daemon_wait(&fake.answers, 1);
    crypt_and_check(stream, key);
    fake_daemon_wait(&fake.lost, 1);
    cr_assert_not(cryptod_offers(CRYPTOD_AES_256_CBC));
    // A new channel serves the same stream once it has a new key.
    atomic_store(&fake.on_open, FAKE_ACCEPT);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    cr_assert_eq(cryptod_stream_init(stream, other_key, iv, true), 0);
    crypt_and_check(stream, other_key);
    crypt_and_check(stream, other_key);
    wait_for_lane(stream);
    crypt_and_check(stream, other_key);
    cryptod_stream_free(stream);
    stop();
}

// A lease of a channel that is gone must not fit a number of the next one.
Test(slot, leases_do_not_outlive_their_channel)
{
    start(5000);
    cryptod_stream *stream = stream_new(), *second = stream_new();
    crypt_and_check(stream, key);
    wait_for_lane(stream);
    cryptod_close();
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    cr_assert_eq(cryptod_stream_init(second, other_key, iv, true), 0);
    crypt_and_check(second, other_key);
    wait_for_lane(second); // has the number that the first one had
    cr_assert_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_SOFTWARE);
    crypt_and_check(stream, key);
    wait_for_lane(stream);
    crypt_and_check(stream, key);
    crypt_and_check(second, other_key);
    cr_assert_eq(atomic_load(&fake.requests), 2);
    cryptod_stream_free(stream);
    cryptod_stream_free(second);
    stop();
}
