// SPDX-License-Identifier: MIT
// A keystream lane that the daemon calls dear, in a stream whose program waits for its peer.
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "cryptod.h"
#include "fake_daemon.h"
#include "reference.h"

#define N_CALL  65536u
#define N_CALLS 64u // then it begins anew, with the same key

TestSuite(keystream_dear, .timeout = 300);

static struct fake_daemon fake;
static uint8_t key[ALGORITHM_KEY_MAX], iv[16];
static uint8_t plain[N_CALLS * N_CALL], expected[sizeof plain], got[N_CALL];
static cryptod_stream *stream;

static uint64_t count_changes(void)
{
    struct cryptod_counters now;

    cryptod_counters_get(&now);
    return now.lane_changes;
}

static void pass(uint32_t call)
{
    const size_t at = (size_t)(call % N_CALLS) * N_CALL;

    if (at == 0)
        cr_assert_eq(cryptod_stream_init(stream, call == 0 ? key : NULL, iv, true), 0);
    cr_assert_eq(cryptod_stream_crypt(stream, got, plain + at, N_CALL), 0);
    cr_assert_eq(memcmp(got, expected + at, N_CALL), 0, "call %u", call);
}

// The peer takes 5 ms for what software does in a fraction of that. The figures of the lane need
// not tell so: what decides is that there is time to spare.
Test(keystream_dear, is_left_by_a_stream_that_waits)
{
    struct reference_random rng;
    uint32_t call = 0;

    reference_random_init(&rng);
    reference_random_fill(&rng, key, sizeof key);
    reference_random_fill(&rng, iv, sizeof iv);
    reference_random_fill(&rng, plain, sizeof plain);
    reference_crypt(ALGORITHM_AES_128_CTR, key, iv, true, expected, plain, sizeof plain);
    fake_daemon_init(&fake, 10000);
    fake.hello.offer[ALGORITHM_AES_128_CTR].lanes =
        MESSAGE_LANE_KEYSTREAM | MESSAGE_OFFER_KEYSTREAM_DEAR;
    fake.hello.keystream_slots = 8;
    fake.hello.bulk_threshold = 4 * N_CALL;
    fake_daemon_start(&fake);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    cr_assert_eq(cryptod_stream_new(CRYPTOD_AES_128_CTR, &stream), 0);
    for (; count_changes() == 0; call++) {
        cr_assert_lt(call, 100 * (1u << 20) / N_CALL, "it keeps its dear lane");
        pass(call);
        usleep(5000);
    }
    cr_expect_gt(atomic_load(&fake.keystreams), 0, "it never had the lane");
    cr_expect_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_SOFTWARE);
    for (uint32_t n = 0; n < 8; n++)
        pass(call++);
    cr_expect_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_SOFTWARE);
    cryptod_stream_free(stream);
    cryptod_close();
    fake_daemon_stop(&fake);
}
