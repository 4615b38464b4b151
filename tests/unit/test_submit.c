// SPDX-License-Identifier: MIT
// client-lib/submit.c and lane.c: the ring, and what happens to the bytes when the engine fails,
// keeps silent or goes away, at every piece of a call, in place and not.
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "cryptod.h"
#include "fake_daemon.h"
#include "reference.h"

#define N_PIECE ((size_t)SHM_SLOT_SIZE)
#define N_MOST  (9 * N_PIECE + 64)

TestSuite(submit, .timeout = 300);

static struct fake_daemon fake;
static struct reference_random rng;
static uint8_t key[32], iv[16];
static uint8_t plain[N_MOST], expected[N_MOST], got[N_MOST];

static void start(uint32_t deadline_ms)
{
    reference_random_init(&rng);
    reference_random_fill(&rng, key, sizeof key);
    reference_random_fill(&rng, iv, sizeof iv);
    reference_random_fill(&rng, plain, N_MOST);
    fake_daemon_init(&fake, deadline_ms);
    fake_daemon_start(&fake);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
}

static void stop(void)
{
    cryptod_close();
    fake_daemon_stop(&fake);
}

// A stream at its beginning whose key the daemon has.
static cryptod_stream *stream_in_lane(uint32_t algorithm, bool encrypt)
{
    cryptod_stream *stream;
    uint8_t block[16] = {0};

    cr_assert_eq(cryptod_stream_new((enum cryptod_algorithm)algorithm, &stream), 0);
    cr_assert_eq(cryptod_stream_init(stream, key, iv, encrypt), 0);
    for (int i = 0; cryptod_stream_lane(stream) != CRYPTOD_LANE_REQUEST; i++) {
        cr_assert_lt(i, 20000, "the stream never got its lane");
        if (i % 1000 == 999) // a busy machine may answer past the deadline, which is a refusal
            cr_assert_eq(cryptod_stream_init(stream, key, iv, encrypt), 0);
        cr_assert_eq(cryptod_stream_crypt(stream, block, block, sizeof block), 0);
        usleep(1000);
    }
    cr_assert_eq(cryptod_stream_init(stream, NULL, iv, encrypt), 0);
    return stream;
}

static struct cryptod_counters counters(void)
{
    struct cryptod_counters now;

    cryptod_counters_get(&now);
    return now;
}

// n bytes from a stream's beginning, in place or not, then 64 bytes more to see that its place is
// right; all compared with OpenSSL.
static void crypt_and_check(cryptod_stream *stream, uint32_t algorithm, bool encrypt, size_t n,
                            bool in_place)
{
    const uint8_t *in = in_place ? got : plain;

    reference_crypt((enum algorithm_id)algorithm, key, iv, encrypt, expected, plain, n + 64);
    cr_assert_eq(cryptod_stream_init(stream, NULL, iv, encrypt), 0);
    memcpy(got, plain, n + 64);
    cr_assert_eq(cryptod_stream_crypt(stream, got, in, n), 0);
    cr_assert_eq(cryptod_stream_crypt(stream, got + n, in + n, 64), 0);
    cr_assert_eq(memcmp(got, expected, n + 64), 0, "%s %s, %zu bytes, in place %d",
                 algorithm_get(algorithm)->name, encrypt ? "encrypt" : "decrypt", n, in_place);
}

Test(submit, sizes_around_the_slot)
{
    start(10000);
    for (uint32_t id = 0; id < ALGORITHM_CHACHA20; id++) {
        uint32_t n_block = algorithm_get(id)->n_block;
        for (int encrypt = 0; encrypt <= 1; encrypt++) {
            cryptod_stream *stream = stream_in_lane(id, encrypt);
            for (size_t k = 1; k <= 8; k = k < 4 ? k + 1 : k * 2) {
                const size_t sizes[] = {k * N_PIECE - n_block, k * N_PIECE,
                                        k * N_PIECE + n_block, k * N_PIECE + 16,
                                        k * N_PIECE + 1,       k * N_PIECE - 1};
                size_t n_sizes = n_block == 1 ? 6 : 4;
                for (size_t i = 0; i < n_sizes; i++) {
                    uint64_t before = counters().request_operations;
                    crypt_and_check(stream, id, encrypt, sizes[i], i % 2 == 0);
                    size_t whole = sizes[i] / 16 * 16;
                    cr_assert_geq(counters().request_operations - before,
                                  (whole + N_PIECE - 1) / N_PIECE);
                }
            }
            cryptod_stream_free(stream);
        }
    }
    cr_assert_eq(counters().fallbacks, 0);
    stop();
}

// CTR that changes lanes in the middle of blocks: small calls in software, large ones not.
Test(submit, lanes_change_at_any_byte)
{
    start(10000);
    for (uint32_t id = 0; id < ALGORITHM_CHACHA20; id++) {
        const struct algorithm_info *info = algorithm_get(id);
        bool encrypt = id % 2 == 0;
        cryptod_stream *stream = stream_in_lane(id, encrypt);
        reference_crypt(info->id, key, iv, encrypt, expected, plain, N_MOST);
        for (int round = 0; round < 20; round++) {
            size_t at = 0;
            EVP_CIPHER_CTX *ctx = reference_new(info->id, key, iv, encrypt);
            cr_assert_eq(cryptod_stream_init(stream, NULL, iv, encrypt), 0);
            while (at < 200000) {
                size_t most = reference_random_below(&rng, 3) == 0 ? 30000 : 40;
                size_t n = reference_random_below(&rng, most) / info->n_block * info->n_block;
                uint8_t ours[16], theirs[16];
                unsigned num;
                cr_assert_eq(cryptod_stream_crypt(stream, got + at, plain + at, n), 0);
                cr_assert_eq(memcmp(got + at, expected + at, n), 0, "%s at %zu", info->name, at);
                reference_update(ctx, got + at, plain + at, n);
                at += n;
                cr_assert_eq(cryptod_stream_iv(stream, ours, &num), 0);
                cr_assert_eq(EVP_CIPHER_CTX_get_updated_iv(ctx, theirs, sizeof theirs), 1);
                cr_assert_arr_eq(ours, theirs, info->n_iv, "%s at %zu", info->name, at);
                cr_assert_eq(num, (unsigned)EVP_CIPHER_CTX_get_num(ctx));
            }
            EVP_CIPHER_CTX_free(ctx);
        }
        cryptod_stream_free(stream);
    }
    cr_assert_gt(counters().request_operations, 1000);
    stop();
}

// The engine fails at any of the pieces of a call.
Test(submit, an_error_at_every_piece)
{
    start(10000);
    for (uint32_t id = 0; id < ALGORITHM_CHACHA20; id++) {
        for (uint32_t piece = 0; piece < 9; piece++) {
            bool encrypt = piece % 2 == 1, in_place = (id + piece) % 3 != 0;
            cryptod_stream *stream = stream_in_lane(id, encrypt);
            uint64_t before = counters().request_operations, fallbacks = counters().fallbacks;
            atomic_store(&fake.on_request, FAKE_REFUSE);
            atomic_store(&fake.request_from, atomic_load(&fake.requests) + piece);
            crypt_and_check(stream, id, encrypt, 9 * N_PIECE - 16, in_place);
            atomic_store(&fake.on_request, FAKE_ACCEPT);
            cr_assert_eq(counters().request_operations - before, piece);
            cr_assert_geq(counters().fallbacks - fallbacks, 1);
            cryptod_stream_free(stream);
        }
    }
    cr_assert_eq(counters().timeouts, 0);
    stop();
}

// One error costs one call; three in a row cost the lane, and a good result between them none.
Test(submit, three_errors_end_the_lane_of_a_key)
{
    const uint32_t id = ALGORITHM_AES_128_CBC;

    start(10000);
    cryptod_stream *stream = stream_in_lane(id, true);
    for (int round = 0; round < 5; round++) {
        // The call's 2nd part fails too: two errors a round.
        atomic_store(&fake.on_request, FAKE_REFUSE);
        crypt_and_check(stream, id, true, 4096, false);
        atomic_store(&fake.on_request, FAKE_ACCEPT);
        crypt_and_check(stream, id, true, 4096, false);
        cr_assert_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_REQUEST);
    }
    cr_assert_eq(counters().fallbacks, 10);
    atomic_store(&fake.on_request, FAKE_REFUSE);
    crypt_and_check(stream, id, true, 4096, false);
    crypt_and_check(stream, id, true, 4096, false);
    cr_assert_eq(counters().fallbacks, 13);
    cr_assert_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_SOFTWARE);
    fake_daemon_wait(&fake.closes, 1);
    atomic_store(&fake.on_request, FAKE_ACCEPT);
    crypt_and_check(stream, id, true, 4096, false);
    cr_assert_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_SOFTWARE);
    cryptod_stream_free(stream);
    stream = stream_in_lane(id, true);
    crypt_and_check(stream, id, true, 4096, false);
    cr_assert_eq(counters().fallbacks, 13);
    cryptod_stream_free(stream);
    stop();
}

// Silent from any piece on: the deadline passes, the bytes are right; what comes late is ignored,
// and the lane is used again when it is all done.
Test(submit, a_deadline_at_every_piece)
{
    for (uint32_t piece = 0; piece < 9; piece += 4) {
        start(500);
        for (uint32_t id = ALGORITHM_AES_128_CBC; id <= ALGORITHM_AES_128_CTR; id += 3) {
            cryptod_stream *stream = stream_in_lane(id, false);
            uint64_t before = counters().request_operations, timeouts = counters().timeouts;
            atomic_store(&fake.on_request, FAKE_SILENT);
            atomic_store(&fake.request_from, atomic_load(&fake.requests) + piece);
            uint64_t started = clock_now_ms();
            crypt_and_check(stream, id, false, 9 * N_PIECE - 16, true);
            cr_assert_leq(counters().request_operations - before, piece);
            cr_assert_lt(clock_now_ms() - started, 20000, "far over the deadline");
            cr_assert_eq(counters().timeouts - timeouts, 1);
            // Suspended: not one request.
            uint32_t requests = atomic_load(&fake.requests);
            cr_assert_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_SOFTWARE);
            crypt_and_check(stream, id, false, 3 * N_PIECE, true);
            cr_assert_eq(counters().request_operations - before,
                         requests - (atomic_load(&fake.request_from) - piece));
            atomic_store(&fake.on_request, FAKE_ACCEPT);
            for (int i = 0; cryptod_stream_lane(stream) != CRYPTOD_LANE_REQUEST; i++) {
                cr_assert_lt(i, 5000, "the lane did not come back");
                usleep(1000);
            }
            before = counters().request_operations;
            crypt_and_check(stream, id, false, 3 * N_PIECE, true);
            cr_assert_geq(counters().request_operations - before, 3);
            cryptod_stream_free(stream);
        }
        stop();
    }
}

Test(submit, three_deadlines_end_the_channel)
{
    const uint32_t id = ALGORITHM_AES_192_CTR;

    start(300);
    cryptod_stream *stream = stream_in_lane(id, true);
    for (uint32_t deadline = 1; deadline <= 3; deadline++) {
        atomic_store(&fake.on_request, FAKE_SILENT);
        crypt_and_check(stream, id, true, 4096, true);
        cr_assert_eq(counters().timeouts, deadline);
        atomic_store(&fake.on_request, FAKE_ACCEPT);
        for (int i = 0; deadline < 3 && cryptod_stream_lane(stream) != CRYPTOD_LANE_REQUEST; i++) {
            cr_assert_lt(i, 5000, "the lane did not come back");
            usleep(1000);
        }
    }
    fake_daemon_wait(&fake.lost, 1);
    cr_assert_not(cryptod_offers(CRYPTOD_AES_192_CTR));
    crypt_and_check(stream, id, true, 4096, true);
    cr_assert_eq(counters().timeouts, 3);
    cryptod_stream_free(stream);
    stop();
}

Test(submit, the_engine_goes_away_at_every_piece)
{
    start(10000);
    for (uint32_t piece = 0; piece < 9; piece++) {
        uint32_t id = piece % ALGORITHM_CHACHA20;
        cr_assert_eq(cryptod_open(NULL, 5000), 0);
        cryptod_stream *stream = stream_in_lane(id, false);
        uint64_t before = counters().request_operations;
        atomic_store(&fake.on_request, FAKE_HANG_UP);
        atomic_store(&fake.request_from, atomic_load(&fake.requests) + piece);
        crypt_and_check(stream, id, false, 9 * N_PIECE - 16, piece % 3 != 0);
        cr_assert_leq(counters().request_operations - before, piece);
        cr_assert_not(cryptod_offers((enum cryptod_algorithm)id));
        cr_assert_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_SOFTWARE);
        atomic_store(&fake.on_request, FAKE_ACCEPT);
        cryptod_stream_free(stream);
    }
    cr_assert_eq(counters().timeouts, 0);
    cr_assert_eq(counters().fallbacks, 9);
    stop();
}

static void ignore_signal(int number)
{
    (void)number;
}

static void *send_signals(void *argument)
{
    const pthread_t *target = argument;

    for (int i = 0; i < 2000; i++) {
        pthread_kill(*target, SIGUSR1);
        usleep(100);
    }
    return NULL;
}

// Wake-ups for nothing: signals, and bells that ring too early.
Test(submit, false_alarms)
{
    const uint32_t id = ALGORITHM_AES_256_CTR;
    pthread_t self = pthread_self(), sender;

    start(10000);
    cryptod_stream *stream = stream_in_lane(id, true);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = ignore_signal}, NULL);
    cr_assert_eq(pthread_create(&sender, NULL, send_signals, &self), 0);
    for (int i = 0; i < 100; i++) {
        atomic_store(&fake.false_rings, 3);
        crypt_and_check(stream, id, true, 3 * N_PIECE, true);
    }
    cr_assert_eq(pthread_join(sender, NULL), 0);
    cr_assert_eq(counters().fallbacks, 0);
    cr_assert_geq(counters().request_operations, 300);
    cryptod_stream_free(stream);
    stop();
}

Test(submit, writes_nothing_past_the_output)
{
    struct reference_guard in, out;

    start(10000);
    for (uint32_t id = 0; id < ALGORITHM_CHACHA20; id++) {
        cryptod_stream *stream = stream_in_lane(id, true);
        for (size_t k = 1; k <= 6; k++) {
            size_t n = k * N_PIECE - 16 + 16 * (k % 3);
            reference_guard_new(&in, n);
            reference_guard_new(&out, n);
            memcpy(in.bytes, plain, n);
            reference_crypt((enum algorithm_id)id, key, iv, true, expected, plain, n);
            cr_assert_eq(cryptod_stream_init(stream, NULL, iv, true), 0);
            cr_assert_eq(cryptod_stream_crypt(stream, out.bytes, in.bytes, n), 0);
            cr_assert_eq(memcmp(out.bytes, expected, n), 0);
            cr_assert_eq(cryptod_stream_init(stream, NULL, iv, true), 0);
            cr_assert_eq(cryptod_stream_crypt(stream, in.bytes, in.bytes, n), 0);
            cr_assert_eq(memcmp(in.bytes, expected, n), 0);
            reference_guard_free(&in);
            reference_guard_free(&out);
        }
        cryptod_stream_free(stream);
    }
    cr_assert_eq(counters().fallbacks, 0);
    stop();
}

struct worker {
    pthread_t thread;
    uint32_t id;
    bool right;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    size_t n = 100000;
    uint8_t *mine = malloc(n), *right = malloc(n);
    cryptod_stream *stream;

    worker->right = cryptod_stream_new((enum cryptod_algorithm)worker->id, &stream) == 0;
    reference_crypt((enum algorithm_id)worker->id, key, iv, true, right, plain, n);
    cryptod_stream_init(stream, key, iv, true);
    for (int i = 0; i < 200 && worker->right; i++) {
        cryptod_stream_init(stream, i % 50 == 0 ? key : NULL, iv, true);
        worker->right =
            cryptod_stream_crypt(stream, mine, plain, n) == 0 && memcmp(mine, right, n) == 0;
    }
    cryptod_stream_free(stream);
    free(mine);
    free(right);
    return NULL;
}

// Several threads share the channel; whoever finds it in use goes on in software.
Test(submit, threads)
{
    struct worker workers[6];

    start(10000);
    for (uint32_t i = 0; i < 6; i++) {
        workers[i].id = i;
        cr_assert_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < 6; i++) {
        cr_assert_eq(pthread_join(workers[i].thread, NULL), 0);
        cr_assert(workers[i].right, "%s", algorithm_get(i)->name);
    }
    cr_assert_gt(counters().request_operations, 0);
    cr_assert_gt(counters().software_bytes, 0);
    cr_assert_eq(counters().fallbacks, 0);
    stop();
}
