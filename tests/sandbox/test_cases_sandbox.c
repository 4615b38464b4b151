// SPDX-License-Identifier: MIT
// Case 29 from the field: sshd was killed (signal 31) because a library started to use another
// system call. Every path of the library under the filters of OpenSSH 9.2, 9.9 and 10.1:
//
//   test_client_in_sandbox.c          without a daemon, each lane, closing, more streams than
//   numbers test_client_in_sandbox_trouble.c  the daemon fails, hangs, dies, stops; the session is
//   stopped test_cases_allocations.c          what the allocator is asked for here wrong calls;
//   ssh's ChaCha20; descriptors that are closed or
//                                     cut; a daemon that answers wrongly; memory taken back
//   test_cases_provider.c             all of that through the OpenSSL provider
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "confined.h"
#include "fake_daemon.h"
#include "fixture.h"
#include "inmate.h"
#include "reference.h"

#define DESCRIPTORS_END 65536 // above every number that the library uses

static struct fixture daemon_fixture;

static void daemon_end(void)
{
    fixture_stop(&daemon_fixture);
}

TestSuite(cases_sandbox, .fini = daemon_end, .timeout = 300);

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

// ---------------------------------------------------------------- wrong calls

static int refusals_try(cryptod_stream *stream, bool has_blocks)
{
    uint8_t data[64] = {0};

    if (has_blocks)
        for (size_t n = 1; n < 8; n++)
            CONFINED_STEP(cryptod_stream_crypt(stream, data, data, n) == -EINVAL);
    CONFINED_STEP(cryptod_stream_crypt(stream, data, data, 0) == 0);
    return 0;
}

static int errors_body(struct inmate *inmate)
{
    cryptod_stream *stream, *copy;
    uint8_t data[64] = {0}, iv[16];
    unsigned num;

    CONFINED_STEP(cryptod_stream_new((enum cryptod_algorithm)99, &stream) == -EINVAL);
    CONFINED_STEP(!cryptod_offers((enum cryptod_algorithm)99));
    CONFINED_STEP(!cryptod_algorithm_name((enum cryptod_algorithm)99));
    for (int i = 0; i < CRYPTOD_CHACHA20; i++) {
        enum cryptod_algorithm algorithm = (enum cryptod_algorithm)i;
        bool has_blocks = algorithm < CRYPTOD_AES_128_CTR || algorithm == CRYPTOD_DES_EDE3_CBC;

        CONFINED_STEP(cryptod_stream_new(algorithm, &stream) == 0);
        CONFINED_STEP(cryptod_stream_init(stream, NULL, data, true) == -ENOKEY);
        CONFINED_STEP(cryptod_stream_crypt(stream, data, data, 48) == -ENOKEY);
        CONFINED_STEP(cryptod_stream_iv(stream, iv, &num) == -ENOKEY);
        CONFINED_STEP(cryptod_stream_dup(stream, &copy) == 0);
        CONFINED_STEP(cryptod_stream_crypt(copy, data, data, 48) == -ENOKEY);
        cryptod_stream_free(copy);
        cryptod_stream_free(stream);
        if (inmate_stream_new(algorithm, &stream) != 0 || refusals_try(stream, has_blocks) != 0 ||
            inmate_push_until_lane(inmate, algorithm, stream) != 0 ||
            refusals_try(stream, has_blocks) != 0 || inmate_push(inmate, algorithm, stream, 65536))
            return 1;
        cryptod_stream_free(stream);
    }
    cryptod_stream_free(NULL);
    return 0;
}

static void lane_check(const struct cryptod_counters *counters)
{
    cr_assert_gt(counters->request_bytes + counters->keystream_bytes, 0);
}

Test(cases_sandbox, case_29_wrong_calls)
{
    fixture_start(&daemon_fixture, NULL);
    inmate_run_versions(0, errors_body, NULL, lane_check);
}

// ---------------------------------------------------------------- ssh's ChaCha20

#define CHACHA_KEPT   20u // packets at the end, whose bytes are compared
#define CHACHA_PACKET 32784u

// The IV of ssh: a counter, then the packet's number.
static void chacha_iv(uint8_t iv[16], uint8_t counter, uint32_t number)
{
    memset(iv, 0, 16);
    iv[0] = counter;
    for (int i = 0; i < 4; i++)
        iv[12 + i] = (uint8_t)(number >> (24 - 8 * i));
}

static int chacha_packet(cryptod_stream *stream, uint32_t number, uint8_t *out)
{
    static const uint8_t zeroes[CHACHA_PACKET];
    uint8_t iv[16];

    chacha_iv(iv, 0, number);
    CONFINED_STEP(cryptod_stream_init(stream, NULL, iv, true) == 0);
    CONFINED_STEP(cryptod_stream_crypt(stream, out, zeroes, 32) == 0);
    chacha_iv(iv, 1, number);
    CONFINED_STEP(cryptod_stream_init(stream, NULL, iv, true) == 0);
    CONFINED_STEP(cryptod_stream_crypt(stream, out, zeroes, CHACHA_PACKET) == 0);
    return 0;
}

// The first four bytes of what is kept are the number of the first packet of it.
static int chacha_body(struct inmate *inmate)
{
    uint8_t key[ALGORITHM_KEY_MAX] = "ssh's main key of one direction", *out;
    struct cryptod_counters counters;
    cryptod_stream *stream;
    uint32_t number = 0;

    out = inmate->shared->out[CRYPTOD_CHACHA20];
    CONFINED_STEP(cryptod_stream_new(CRYPTOD_CHACHA20, &stream) == 0);
    CONFINED_STEP(cryptod_stream_init(stream, key, NULL, true) == 0);
    do {
        if (chacha_packet(stream, number++, out + 4) != 0)
            return 1;
        pause_ms(1);
        cryptod_counters_get(&counters);
    } while (counters.keystream_bytes == 0 && number < 5000);
    memcpy(out, &number, sizeof(number));
    for (uint32_t i = 0; i < CHACHA_KEPT; i++)
        if (chacha_packet(stream, number + i, out + 4 + i * CHACHA_PACKET) != 0)
            return 1;
    cryptod_stream_free(stream);
    return 0;
}

static void chacha_check(const struct inmate *inmate)
{
    const uint8_t key[ALGORITHM_KEY_MAX] = "ssh's main key of one direction";
    const uint8_t *out = inmate->shared->out[CRYPTOD_CHACHA20];
    static uint8_t zeroes[CHACHA_PACKET], expected[CHACHA_PACKET];
    uint32_t number;
    uint8_t iv[16];

    cr_assert_gt(inmate->shared->counters.keystream_bytes, 0);
    memcpy(&number, out, sizeof(number));
    for (uint32_t i = 0; i < CHACHA_KEPT; i++) {
        chacha_iv(iv, 1, number + i);
        reference_crypt(ALGORITHM_CHACHA20, key, iv, true, expected, zeroes, CHACHA_PACKET);
        cr_assert_eq(memcmp(out + 4 + i * CHACHA_PACKET, expected, CHACHA_PACKET), 0,
                     "sshd %s: packet %u", sshd_filter_name(inmate->version), number + i);
    }
}

Test(cases_sandbox, case_29_chacha20_as_ssh_uses_it)
{
    fixture_start(&daemon_fixture, NULL);
    for (int version = 0; version < SSHD_FILTER_COUNT; version++) {
        struct inmate inmate = {0};

        inmate_start(&inmate, (enum sshd_filter_version)version, chacha_body);
        inmate_end(&inmate);
        chacha_check(&inmate);
        inmate_fini(&inmate);
    }
}

// ---------------------------------------------------------------- descriptors

// Streams of both lanes, then something is done to every descriptor but the test's own.
static int descriptors_try(struct inmate *inmate, int (*what)(int fd))
{
    static const enum cryptod_algorithm algorithms[] = {CRYPTOD_AES_128_CBC, CRYPTOD_AES_256_CTR};
    cryptod_stream *streams[2], *late;

    for (size_t i = 0; i < 2; i++)
        if (inmate_stream_new(algorithms[i], &streams[i]) != 0 ||
            inmate_push_until_lane(inmate, algorithms[i], streams[i]) != 0)
            return 1;
    for (int fd = 3; fd < DESCRIPTORS_END; fd++)
        if (fd != inmate->its)
            (void)what(fd);
    for (size_t i = 0; i < 2; i++) {
        if (inmate_push_sizes(inmate, algorithms[i], streams[i]) != 0)
            return 1;
        CONFINED_STEP(cryptod_stream_lane(streams[i]) == CRYPTOD_LANE_SOFTWARE);
        cryptod_stream_free(streams[i]);
    }
    if (inmate_stream_new(CRYPTOD_AES_192_CTR, &late) != 0 ||
        inmate_push_sizes(inmate, CRYPTOD_AES_192_CTR, late) != 0)
        return 1;
    cryptod_stream_free(late);
    cryptod_close();
    return 0;
}

static int cut(int fd)
{
    return shutdown(fd, SHUT_RDWR);
}

static int closed_body(struct inmate *inmate)
{
    return descriptors_try(inmate, close);
}

static int cut_body(struct inmate *inmate)
{
    return descriptors_try(inmate, cut);
}

static void software_check(const struct cryptod_counters *counters)
{
    cr_assert_gt(counters->fallbacks, 0);
    cr_assert_gt(counters->software_bytes, 0);
    cr_assert_eq(counters->timeouts, 0);
}

Test(cases_sandbox, case_29_descriptors_are_closed)
{
    fixture_start(&daemon_fixture, "lanes.deadline_ms=10000\n");
    inmate_run_versions(0, closed_body, NULL, software_check);
}

Test(cases_sandbox, case_29_connections_are_cut)
{
    fixture_start(&daemon_fixture, "lanes.deadline_ms=10000\n");
    inmate_run_versions(0, cut_body, NULL, software_check);
}

// ---------------------------------------------------------------- memory taken back

// Keystream that is not used is taken back, while the stream lives; it comes again when it is.
static int idle_body(struct inmate *inmate)
{
    struct cryptod_counters before, after;
    cryptod_stream *stream;

    if (inmate_stream_new(CRYPTOD_AES_256_CTR, &stream) != 0 ||
        inmate_push_until_lane(inmate, CRYPTOD_AES_256_CTR, stream) != 0)
        return 1;
    cryptod_counters_get(&before);
    for (int i = 0; i < 4; i++) {
        nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
        if (inmate_push(inmate, CRYPTOD_AES_256_CTR, stream, 100001) != 0)
            return 1;
    }
    if (inmate_push_until_lane(inmate, CRYPTOD_AES_256_CTR, stream) != 0)
        return 1;
    cryptod_counters_get(&after);
    CONFINED_STEP(after.keystream_bytes > before.keystream_bytes);
    cryptod_stream_free(stream);
    return 0;
}

Test(cases_sandbox, case_29_keystream_is_taken_back)
{
    fixture_start(&daemon_fixture, "lanes.idle_s=1\n");
    inmate_run_versions(0, idle_body, NULL, lane_check);
}

// ---------------------------------------------------------------- a daemon that answers wrongly

struct answer_case {
    char name[24];
    enum fake_answer on_open, on_request;
    uint32_t false_rings;
};

ParameterizedTestParameters(cases_sandbox, case_29_wrong_answers)
{
    static struct answer_case cases[] = {
        {"open refused", FAKE_REFUSE, FAKE_ACCEPT, 0},
        {"open unanswered", FAKE_SILENT, FAKE_ACCEPT, 0},
        {"nonsense for open", FAKE_GARBAGE, FAKE_ACCEPT, 0},
        {"hung up at open", FAKE_HANG_UP, FAKE_ACCEPT, 0},
        {"request refused", FAKE_ACCEPT, FAKE_REFUSE, 0},
        {"request unanswered", FAKE_ACCEPT, FAKE_SILENT, 0},
        {"nonsense for request", FAKE_ACCEPT, FAKE_GARBAGE, 0},
        {"hung up at request", FAKE_ACCEPT, FAKE_HANG_UP, 0},
        {"false rings", FAKE_ACCEPT, FAKE_ACCEPT, 3},
    };
    return cr_make_param_array(struct answer_case, cases, sizeof cases / sizeof *cases);
}

static int bulk_body(struct inmate *inmate)
{
    cryptod_stream *stream;

    if (inmate_stream_new(CRYPTOD_AES_128_CBC, &stream) != 0)
        return 1;
    for (int i = 0; i < 60; i++) {
        if (inmate_push(inmate, CRYPTOD_AES_128_CBC, stream, 32784) != 0)
            return 1;
        pause_ms(2);
    }
    cryptod_stream_free(stream);
    cryptod_close();
    return 0;
}

static void any_check(const struct cryptod_counters *counters)
{
    cr_assert_eq(counters->software_bytes + counters->request_bytes, 60ull * 32784);
}

ParameterizedTest(struct answer_case *row, cases_sandbox, case_29_wrong_answers)
{
    struct fake_daemon fake;

    if (geteuid() != 0)
        cr_skip_test("needs root, for the sandbox's empty root");
    fake_daemon_init(&fake, 100);
    fake.on_open = row->on_open;
    fake.on_request = row->on_request;
    fake.request_from = 3;
    fake.false_rings = row->false_rings;
    fake_daemon_start(&fake);
    inmate_run_versions(0, bulk_body, NULL, any_check);
    fake_daemon_stop(&fake);
    cr_assert_gt(fake.opens, 0, "%s: nothing was asked", row->name);
}
