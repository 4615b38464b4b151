// SPDX-License-Identifier: MIT
// The client library in a replica of sshd's sandbox, against the real daemon: not one system call
// that the sandbox forbids, and not one wrong byte. Bad days have a file of their own,
// test_client_in_sandbox_trouble.c.
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "confined.h"
#include "fixture.h"
#include "inmate.h"

static struct fixture daemon_fixture;

static void daemon_end(void)
{
    fixture_stop(&daemon_fixture);
}

TestSuite(client_in_sandbox, .fini = daemon_end, .timeout = 300);

// ---------------------------------------------------------------- software

// A copy goes on from the same place, and a stream that starts again says the same again.
static int copies_try(enum cryptod_algorithm algorithm)
{
    static const uint8_t input[256];
    uint8_t one[256], other[256], iv[16];
    cryptod_stream *stream, *copy = NULL;
    unsigned num;

    if (inmate_stream_new(algorithm, &stream) != 0)
        return 1;
    CONFINED_STEP(cryptod_stream_crypt(stream, one, input, sizeof(one)) == 0);
    CONFINED_STEP(cryptod_stream_dup(stream, &copy) == 0);
    CONFINED_STEP(cryptod_stream_iv(stream, iv, &num) == 0);
    CONFINED_STEP(cryptod_stream_crypt(stream, one, input, sizeof(one)) == 0);
    CONFINED_STEP(cryptod_stream_crypt(copy, other, input, sizeof(one)) == 0);
    CONFINED_STEP(memcmp(one, other, sizeof(one)) == 0);
    CONFINED_STEP(cryptod_stream_init(copy, NULL, iv, true) == 0);
    CONFINED_STEP(cryptod_stream_crypt(copy, other, input, sizeof(one)) == 0);
    CONFINED_STEP(memcmp(one, other, sizeof(one)) == 0);
    CONFINED_STEP(cryptod_stream_init(copy, NULL, iv, false) == 0);
    CONFINED_STEP(cryptod_stream_crypt(copy, one, one, sizeof(one)) == 0);
    CONFINED_STEP(memcmp(one, input, sizeof(one)) == 0);
    cryptod_stream_free(copy);
    cryptod_stream_free(stream);
    return 0;
}

static int software_body(struct inmate *inmate)
{
    for (int i = 0; i < CRYPTOD_ALGORITHM_COUNT; i++) {
        enum cryptod_algorithm algorithm = (enum cryptod_algorithm)i;
        cryptod_stream *stream;

        if (inmate_stream_new(algorithm, &stream) != 0 ||
            inmate_push_sizes(inmate, algorithm, stream) != 0)
            return 1;
        CONFINED_STEP(cryptod_stream_lane(stream) == CRYPTOD_LANE_SOFTWARE);
        CONFINED_STEP(cryptod_stream_init(stream, NULL, NULL, true) == 0);
        cryptod_stream_free(stream);
        if (copies_try(algorithm) != 0)
            return 1;
    }
    return 0;
}

static void software_check(const struct cryptod_counters *counters)
{
    cr_assert(counters->request_operations == 0 && counters->fallbacks == 0);
    cr_assert(counters->software_bytes > 0);
}

Test(client_in_sandbox, no_daemon)
{
    if (geteuid() != 0)
        cr_skip_test("needs root, for the sandbox's empty root");
    setenv("CRYPTOD_SOCKET", "/nonexistent/cryptod.sock", 1);
    inmate_run_versions(-ENOENT, software_body, NULL, software_check);
}

Test(client_in_sandbox, nothing_is_offered)
{
    fixture_start(&daemon_fixture, "lanes.offload=off\n");
    inmate_run_versions(0, software_body, NULL, software_check);
}

Test(client_in_sandbox, too_little_for_a_lane)
{
    fixture_start(&daemon_fixture, "lanes.bulk_threshold=64M\n");
    inmate_run_versions(0, software_body, NULL, software_check);
}

// ---------------------------------------------------------------- the request lane

static int request_body(struct inmate *inmate)
{
    for (int i = 0; i < CRYPTOD_ALGORITHM_COUNT; i++) {
        enum cryptod_algorithm algorithm = (enum cryptod_algorithm)i;
        cryptod_stream *stream;

        if (algorithm == CRYPTOD_CHACHA20) // has no request lane
            continue;
        CONFINED_STEP(cryptod_offers(algorithm));
        if (inmate_stream_new(algorithm, &stream) != 0 ||
            inmate_push_until_lane(inmate, algorithm, stream) != 0 ||
            inmate_push_sizes(inmate, algorithm, stream) != 0)
            return 1;
        CONFINED_STEP(cryptod_stream_lane(stream) == CRYPTOD_LANE_REQUEST);
        if (copies_try(algorithm) != 0)
            return 1;
        cryptod_stream_free(stream);
    }
    return 0;
}

static void request_check(const struct cryptod_counters *counters)
{
    cr_assert(counters->request_operations > 7ull * INMATE_N_SIZES, "%llu",
              (unsigned long long)counters->request_operations);
    cr_assert(counters->request_bytes > 7ull * INMATE_SIZES_LAST);
}

Test(client_in_sandbox, request_lane)
{
    fixture_start(&daemon_fixture, "limits.slots_per_channel=4\n"); // no memory for keystream
    inmate_run_versions(0, request_body, NULL, request_check);
}

// ---------------------------------------------------------------- the keystream lane

static int keystream_body(struct inmate *inmate)
{
    for (int i = CRYPTOD_AES_128_CTR; i <= CRYPTOD_AES_256_CTR; i++) {
        enum cryptod_algorithm algorithm = (enum cryptod_algorithm)i;
        cryptod_stream *stream;

        if (inmate_stream_new(algorithm, &stream) != 0 ||
            inmate_push_until_lane(inmate, algorithm, stream) != 0 ||
            inmate_push_sizes(inmate, algorithm, stream) != 0)
            return 1;
        CONFINED_STEP(cryptod_stream_lane(stream) == CRYPTOD_LANE_KEYSTREAM);
        if (copies_try(algorithm) != 0)
            return 1;
        cryptod_stream_free(stream);
    }
    return 0;
}

static void keystream_check(const struct cryptod_counters *counters)
{
    cr_assert(counters->request_operations == 0 && counters->fallbacks == 0);
    cr_assert(counters->keystream_bytes > 3ull * INMATE_SIZES_LAST);
}

Test(client_in_sandbox, keystream_lane)
{
    fixture_start(&daemon_fixture, NULL);
    inmate_run_versions(0, keystream_body, NULL, keystream_check);
}

// Closing after the sandbox, in the middle of a stream and with streams that the daemon has keys
// of.
static int close_body(struct inmate *inmate)
{
    cryptod_stream *cbc, *ctr;

    if (inmate_stream_new(CRYPTOD_AES_128_CBC, &cbc) != 0 ||
        inmate_stream_new(CRYPTOD_AES_256_CTR, &ctr) != 0 ||
        inmate_push_until_lane(inmate, CRYPTOD_AES_128_CBC, cbc) != 0 ||
        inmate_push_until_lane(inmate, CRYPTOD_AES_256_CTR, ctr) != 0)
        return 1;
    cryptod_close();
    CONFINED_STEP(!cryptod_offers(CRYPTOD_AES_128_CBC));
    if (inmate_push_sizes(inmate, CRYPTOD_AES_128_CBC, cbc) != 0)
        return 1;
    cryptod_stream_free(cbc);
    cryptod_close();
    if (inmate_push_sizes(inmate, CRYPTOD_AES_256_CTR, ctr) != 0)
        return 1;
    cryptod_stream_free(ctr);
    return 0;
}

static void close_check(const struct cryptod_counters *counters)
{
    cr_assert(counters->request_operations >= 1 && counters->timeouts == 0);
    cr_assert(counters->keystream_bytes > 0);
}

Test(client_in_sandbox, closing_the_channel)
{
    fixture_start(&daemon_fixture, NULL);
    inmate_run_versions(0, close_body, NULL, close_check);
}

// More streams than a channel has numbers for, and numbers that come back.
static int numbers_body(struct inmate *inmate)
{
    cryptod_stream *first, *second;

    if (inmate_stream_new(CRYPTOD_AES_128_CBC, &first) != 0 ||
        inmate_push_until_lane(inmate, CRYPTOD_AES_128_CBC, first) != 0 ||
        inmate_stream_new(CRYPTOD_AES_192_CBC, &second) != 0)
        return 1;
    for (int i = 0; i < 20; i++)
        if (inmate_push(inmate, CRYPTOD_AES_192_CBC, second, 4096) != 0)
            return 1;
    CONFINED_STEP(cryptod_stream_lane(second) == CRYPTOD_LANE_SOFTWARE);
    cryptod_stream_free(first);
    if (inmate_push(inmate, CRYPTOD_AES_192_CBC, second, 4096) != 0)
        return 1;
    cryptod_stream_free(second);
    if (inmate_stream_new(CRYPTOD_AES_256_CBC, &second) != 0 ||
        inmate_push_until_lane(inmate, CRYPTOD_AES_256_CBC, second) != 0)
        return 1;
    cryptod_stream_free(second);
    return 0;
}

static void numbers_check(const struct cryptod_counters *counters)
{
    cr_assert(counters->request_operations >= 2 && counters->timeouts == 0);
}

Test(client_in_sandbox, more_streams_than_numbers)
{
    fixture_start(&daemon_fixture, "limits.streams_per_channel=1\n");
    inmate_run_versions(0, numbers_body, NULL, numbers_check);
}
