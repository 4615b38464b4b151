// SPDX-License-Identifier: MIT
// Case 30 from the field: sshd was killed now and then, by allocator calls or a thread made after
// the sandbox. In the replica of sshd's sandbox: moving data calls the allocator never, in no lane
// and not when a lane fails; making and freeing streams calls it as OpenSSL itself does, and
// survives a thousand times. A thread would be death there (clone is in no filter). The thousand
// logins are `make soak`.
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "allocations.h"
#include "confined.h"
#include "fixture.h"
#include "inmate.h"

#define N_STREAMS 1000

static struct fixture daemon_fixture;

static void daemon_end(void)
{
    fixture_stop(&daemon_fixture);
}

TestSuite(cases_allocations, .fini = daemon_end, .timeout = 300);

// The counter counts: else zero would say nothing.
Test(cases_allocations, case_30_calls_are_counted)
{
    void *volatile memory;

    allocations_begin();
    memory = malloc(100);
    free(memory);
    cr_assert_eq(allocations_end(), 2);
    memory = malloc(100);
    free(memory);
    allocations_begin();
    cr_assert_eq(allocations_end(), 0);
}

static int move_data(struct inmate *inmate, enum cryptod_algorithm algorithm,
                     cryptod_stream *stream)
{
    struct cryptod_counters counters;
    uint8_t iv[16];
    unsigned num;

    if (inmate_push_sizes(inmate, algorithm, stream) != 0)
        return 1;
    CONFINED_STEP(cryptod_stream_iv(stream, iv, &num) == 0);
    (void)cryptod_stream_lane(stream);
    (void)cryptod_offers(algorithm);
    cryptod_counters_get(&counters);
    return 0;
}

// In software first, then in the lane, then out of it again after what the test does at the
// meeting.
static int count_body(struct inmate *inmate)
{
    for (int i = 0; i < CRYPTOD_CHACHA20; i++) { // which has its lane for ssh's packets only
        enum cryptod_algorithm algorithm = (enum cryptod_algorithm)i;
        cryptod_stream *stream;

        if (inmate_stream_new(algorithm, &stream) != 0)
            return 1;
        allocations_begin();
        if (inmate_push_until_lane(inmate, algorithm, stream) != 0 ||
            move_data(inmate, algorithm, stream) != 0)
            return 1;
        CONFINED_STEP(allocations_end() == 0);
        cryptod_stream_free(stream);
    }
    return 0;
}

static void lanes_check(const struct cryptod_counters *counters)
{
    cr_assert(counters->request_bytes > 4ull * INMATE_SIZES_LAST);
    cr_assert(counters->keystream_bytes > 3ull * INMATE_SIZES_LAST);
}

Test(cases_allocations, case_30_none_in_any_lane)
{
    fixture_start(&daemon_fixture, NULL);
    inmate_run_versions(0, count_body, NULL, lanes_check);
}

static int trouble_body(struct inmate *inmate)
{
    static const enum cryptod_algorithm algorithms[] = {CRYPTOD_AES_128_CBC, CRYPTOD_AES_256_CTR};
    cryptod_stream *streams[2];

    for (size_t i = 0; i < 2; i++)
        if (inmate_stream_new(algorithms[i], &streams[i]) != 0 ||
            inmate_push_until_lane(inmate, algorithms[i], streams[i]) != 0)
            return 1;
    inmate_meet(inmate);
    for (size_t i = 0; i < 2; i++) {
        allocations_begin();
        if (move_data(inmate, algorithms[i], streams[i]) != 0)
            return 1;
        CONFINED_STEP(allocations_end() == 0);
        cryptod_stream_free(streams[i]);
    }
    return 0;
}

static void fallback_check(const struct cryptod_counters *counters)
{
    cr_assert_gt(counters->fallbacks, 0);
}

static void engine_dies(struct inmate *inmate)
{
    pid_t pid = fixture_role_pid(&daemon_fixture, "engine");

    inmate_wait(inmate);
    cr_assert(pid > 0 && kill(pid, SIGKILL) == 0);
    (void)fixture_wait_role(&daemon_fixture, "engine", pid);
    inmate_release(inmate);
    fixture_wait_serving(&daemon_fixture, false);
}

Test(cases_allocations, case_30_none_when_the_engine_dies)
{
    fixture_start(&daemon_fixture, NULL);
    inmate_run_versions(0, trouble_body, engine_dies, fallback_check);
}

static void engine_stops(struct inmate *inmate)
{
    pid_t pid = fixture_role_pid(&daemon_fixture, "engine");

    inmate_wait(inmate);
    cr_assert_eq(kill(pid, SIGSTOP), 0);
    confined_wait_state(pid, 'T');
    inmate_release(inmate);
    confined_wait_state(inmate->pid, 'Z');
    cr_assert_eq(kill(pid, SIGCONT), 0);
}

Test(cases_allocations, case_30_none_when_a_deadline_passes)
{
    fixture_start(&daemon_fixture, NULL);
    inmate_run_versions(0, trouble_body, engine_stops, fallback_check);
}

Test(cases_allocations, case_30_none_when_requests_fail)
{
    static const char conf[] = "engine.backends=fault\nengine.fault=error_every=3\n";

    fixture_start(&daemon_fixture, conf);
    inmate_run_versions(0, count_body, NULL, fallback_check);
}

// As a process that rekeys all its life.
static int streams_body(struct inmate *inmate)
{
    (void)inmate;
    for (int i = 0; i < N_STREAMS; i++) {
        cryptod_stream *stream, *copy;
        uint8_t data[64] = {0};

        if (inmate_stream_new((enum cryptod_algorithm)(i % CRYPTOD_ALGORITHM_COUNT), &stream) != 0)
            return 1;
        CONFINED_STEP(cryptod_stream_crypt(stream, data, data, sizeof(data)) == 0);
        CONFINED_STEP(cryptod_stream_dup(stream, &copy) == 0);
        CONFINED_STEP(cryptod_stream_crypt(copy, data, data, sizeof(data)) == 0);
        cryptod_stream_free(stream);
        cryptod_stream_free(copy);
    }
    return 0;
}

static void streams_check(const struct cryptod_counters *counters)
{
    cr_assert_gt(counters->software_bytes + counters->request_bytes, N_STREAMS * 64);
}

Test(cases_allocations, case_30_a_thousand_streams)
{
    fixture_start(&daemon_fixture, NULL);
    inmate_run_versions(0, streams_body, NULL, streams_check);
}
