// SPDX-License-Identifier: MIT
// client-lib/keystream.c and keystream_window.c against a daemon that fails on order: right bytes
// whatever happens to the window, keystream used once, no bell while it is filled.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "cryptod.h"
#include "fake_daemon.h"
#include "reference.h"

#define N_SLOT    65536u
#define N_MOST    (4u << 20)
#define N_WINDOW  8u
#define ALGORITHM ALGORITHM_AES_128_CTR

TestSuite(keystream, .timeout = 300);

static struct fake_daemon fake;
static struct reference_random rng;
static uint8_t key[ALGORITHM_KEY_MAX], iv[16];
static uint8_t *plain, *expected, *got;
static cryptod_stream *stream;
static size_t at; // the stream's place

static void start_with(uint32_t deadline_ms, uint32_t n_window)
{
    reference_random_init(&rng);
    reference_random_fill(&rng, key, sizeof key);
    reference_random_fill(&rng, iv, sizeof iv);
    memset(iv + 9, 0xff, 7); // carries are near
    plain = malloc(N_MOST);
    expected = malloc(N_MOST);
    got = malloc(N_MOST);
    cr_assert(plain && expected && got);
    reference_random_fill(&rng, plain, N_MOST);
    reference_crypt(ALGORITHM, key, iv, true, expected, plain, N_MOST);
    fake_daemon_init(&fake, deadline_ms);
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++)
        fake.hello.offer[id].lanes |= MESSAGE_LANE_KEYSTREAM;
    fake.hello.keystream_slots = n_window;
    fake_daemon_start(&fake);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
}

static struct cryptod_counters counters(void)
{
    struct cryptod_counters now;

    cryptod_counters_get(&now);
    return now;
}

static void restart(void)
{
    cr_assert_eq(cryptod_stream_init(stream, NULL, iv, true), 0);
    at = 0;
}

// The next n bytes, in place or not, at any alignment.
static void step(size_t n)
{
    uint8_t *out = got + reference_random_below(&rng, 64);
    const uint8_t *in = plain + at;

    cr_assert_leq(at + n, N_MOST);
    if (reference_random_below(&rng, 2) == 0)
        in = memcpy(out, in, n);
    cr_assert_eq(cryptod_stream_crypt(stream, out, in, n), 0);
    cr_assert_eq(memcmp(out, expected + at, n), 0, "%zu bytes at %zu", n, at);
    at += n;
}

static void wait_lane(void)
{
    for (int i = 0; cryptod_stream_lane(stream) != CRYPTOD_LANE_KEYSTREAM; i++) {
        cr_assert_lt(i, 5000, "the stream never got its lane");
        step(16);
        usleep(1000);
    }
}

static void start(uint32_t deadline_ms)
{
    start_with(deadline_ms, N_WINDOW);
    cr_assert_eq(cryptod_stream_new((enum cryptod_algorithm)ALGORITHM, &stream), 0);
    cr_assert_eq(cryptod_stream_init(stream, key, iv, true), 0);
    at = 0;
    wait_lane();
}

// Steps until the window has its full size and is filled.
static void fill(void)
{
    while (atomic_load(&fake.keystreams) < 3 * N_WINDOW)
        step(N_SLOT);
    fake_daemon_settle(&fake);
}

static void stop(void)
{
    cryptod_stream_free(stream);
    cryptod_close();
    fake_daemon_stop(&fake);
    free(plain);
    free(expected);
    free(got);
}

// As another process would look, through a mapping of its own.
static size_t count_slots_with_data(void)
{
    static const uint8_t zeroes[N_SLOT];
    static struct shm_map map;
    size_t n = 0;

    if (!map.base) {
        map = fake_daemon_map(&fake);
        map.base = mremap(map.base, 0, map.size, MREMAP_MAYMOVE);
        cr_assert_neq(map.base, MAP_FAILED);
    }
    for (uint32_t slot = SHM_SLOTS_REQUEST; slot < map.n_slots; slot++)
        n += memcmp(shm_data(&map, slot), zeroes, N_SLOT) != 0;
    return n;
}

Test(keystream, a_filled_window_needs_no_bell)
{
    start(10000);
    fill();
    struct cryptod_counters before = counters();
    uint32_t bells = atomic_load(&fake.bells), requests = atomic_load(&fake.requests);
    // A quarter of the window is certain to be there.
    for (int i = 0; i < 60; i++)
        step(1 + reference_random_below(&rng, 1023));
    fake_daemon_settle(&fake);
    cr_assert_eq(atomic_load(&fake.bells), bells);
    cr_assert_eq(atomic_load(&fake.requests), requests);
    struct cryptod_counters after = counters();
    cr_assert_eq(after.software_bytes, before.software_bytes);
    cr_assert_gt(after.keystream_bytes, before.keystream_bytes);
    stop();
}

Test(keystream, bells_are_rare)
{
    start(10000);
    fill();
    uint32_t bells = atomic_load(&fake.bells), requests = atomic_load(&fake.requests);
    struct cryptod_counters before = counters();
    for (int i = 0; i < 16; i++) {
        step(N_SLOT);
        fake_daemon_settle(&fake);
    }
    cr_assert_leq(atomic_load(&fake.bells) - bells, 16 / (N_WINDOW / 4));
    cr_assert_eq(atomic_load(&fake.requests) - requests, 16);
    cr_assert_eq(counters().keystream_bytes - before.keystream_bytes, 16 * N_SLOT);
    stop();
}

Test(keystream, any_chunks)
{
    start(10000);
    for (int round = 0; round < 6; round++) {
        restart();
        while (at < N_MOST - 200000) {
            size_t most = reference_random_below(&rng, 4) == 0 ? 200000 : 3000;
            step(reference_random_below(&rng, most));
        }
    }
    struct cryptod_counters now = counters();
    cr_assert_eq(now.fallbacks, 0);
    cr_assert_gt(now.keystream_bytes, now.software_bytes * 4);
    cr_assert_eq(now.request_operations, 0);
    stop();
}

// A new IV anywhere, back to an old one too: what was ahead is not used.
Test(keystream, an_iv_change_drops_the_window)
{
    start(10000);
    for (int round = 0; round < 300; round++) {
        restart();
        for (size_t n = reference_random_below(&rng, 4); n > 0; n--)
            step(reference_random_below(&rng, 2 * N_SLOT));
        step(reference_random_below(&rng, 70));
    }
    cr_assert_eq(counters().fallbacks, 0);
    cr_assert_gt(counters().keystream_bytes, 0);
    stop();
}

// Each byte of keystream is wiped when it has been used, or will not be.
Test(keystream, is_wiped)
{
    start(10000);
    fill();
    size_t n_full = count_slots_with_data();
    cr_assert_leq(n_full, N_WINDOW);
    cr_assert_geq(n_full, N_WINDOW / 2);
    restart();
    step(16); // asks anew, so it looks after the old ones
    fake_daemon_settle(&fake);
    cr_assert_leq(count_slots_with_data(), 1);
    step(N_SLOT);
    fill();
    cryptod_stream_free(stream);
    cr_assert_eq(cryptod_stream_new((enum cryptod_algorithm)ALGORITHM, &stream), 0);
    cr_assert_eq(cryptod_stream_init(stream, key, iv, true), 0);
    at = 0;
    wait_lane();
    step(16);
    fake_daemon_settle(&fake);
    cr_assert_leq(count_slots_with_data(), 1);
    stop();
}

Test(keystream, an_error_costs_no_byte)
{
    start(10000);
    fill();
    for (uint32_t round = 0; round < 12; round++) {
        uint64_t fallbacks = counters().fallbacks;
        restart();
        step(N_SLOT);
        atomic_store(&fake.request_from, atomic_load(&fake.requests) + round);
        atomic_store(&fake.on_request, FAKE_REFUSE);
        while (counters().fallbacks == fallbacks)
            step(10000);
        atomic_store(&fake.on_request, FAKE_ACCEPT);
        fake_daemon_settle(&fake);
        wait_lane();
        step(3 * N_SLOT);
        step(3 * N_SLOT);
    }
    stop();
}

Test(keystream, three_errors_end_the_lane_of_a_key)
{
    start(10000);
    atomic_store(&fake.on_request, FAKE_REFUSE);
    for (int i = 0; counters().fallbacks < 3; i++) {
        cr_assert_lt(i, 1000);
        step(1000);
    }
    cr_assert_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_SOFTWARE);
    fake_daemon_wait(&fake.closes, 1);
    atomic_store(&fake.on_request, FAKE_ACCEPT);
    step(N_SLOT);
    cr_assert_eq(counters().fallbacks, 3);
    stop();
}

// Silent from any request on: one deadline, software at the exact byte; what comes late is wiped,
// not used, and the lane comes back.
Test(keystream, a_deadline_at_every_piece)
{
    for (uint32_t piece = 0; piece < 12; piece += 3) {
        start(400);
        step(N_SLOT);
        uint64_t timeouts = counters().timeouts;
        atomic_store(&fake.request_from, atomic_load(&fake.requests) + piece);
        atomic_store(&fake.on_request, FAKE_SILENT);
        while (counters().timeouts == timeouts)
            step(30000);
        uint64_t used = counters().keystream_bytes;
        cr_assert_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_SOFTWARE);
        step(100001);
        cr_assert_eq(counters().keystream_bytes, used);
        cr_assert_eq(counters().timeouts, timeouts + 1);
        atomic_store(&fake.on_request, FAKE_ACCEPT);
        wait_lane();
        for (int i = 0; i < 6; i++)
            step(N_SLOT);
        cr_assert_gt(counters().keystream_bytes, used);
        cr_assert_eq(counters().timeouts, timeouts + 1);
        stop();
    }
}

// A completion of another sequence is none.
Test(keystream, a_wrong_sequence_is_not_done)
{
    start(400);
    step(N_SLOT);
    step(N_SLOT);
    uint64_t timeouts = counters().timeouts;
    atomic_store(&fake.on_request, FAKE_GARBAGE);
    while (counters().timeouts == timeouts)
        step(30000);
    step(100000);
    stop();
}

// The engine takes idle slots back: not an error, and not one byte of what it left is used.
Test(keystream, slots_taken_back)
{
    start(10000);
    for (int round = 0; round < 8; round++) {
        restart();
        while (at < (size_t)(round + 4) * N_SLOT)
            step(reference_random_below(&rng, 30000));
        fake_daemon_settle(&fake);
        uint32_t revoked = atomic_load(&fake.revoked);
        atomic_store(&fake.revoke, true);
        fake_daemon_wait(&fake.revoked, revoked + 1);
        fake_daemon_settle(&fake);
        for (int i = 0; i < 30; i++)
            step(reference_random_below(&rng, 40000));
    }
    cr_assert_eq(counters().fallbacks, 0);
    stop();
}

Test(keystream, the_engine_goes_away_at_every_request)
{
    for (uint32_t piece = 0; piece < 12; piece += 2) {
        start(10000);
        step(N_SLOT);
        atomic_store(&fake.request_from, atomic_load(&fake.requests) + piece);
        atomic_store(&fake.on_request, FAKE_HANG_UP);
        while (cryptod_offers((enum cryptod_algorithm)ALGORITHM))
            step(30000);
        step(100000);
        cr_assert_eq(counters().timeouts, 0);
        stop();
    }
}

// A daemon with small channels, or without keystream for a stream, has the request lane.
Test(keystream, no_slots_no_lane)
{
    start_with(10000, 0);
    cr_assert_eq(cryptod_stream_new((enum cryptod_algorithm)ALGORITHM, &stream), 0);
    cr_assert_eq(cryptod_stream_init(stream, key, iv, true), 0);
    at = 0;
    for (int i = 0; cryptod_stream_lane(stream) != CRYPTOD_LANE_REQUEST; i++) {
        cr_assert_lt(i, 5000);
        step(16);
        usleep(1000);
    }
    step(100000);
    cr_assert_eq(counters().keystream_bytes, 0);
    stop();
}
