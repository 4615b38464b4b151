// SPDX-License-Identifier: MIT
// The client library in a replica of sshd's sandbox while the daemon fails, dies or stops, or the
// session itself is stopped: not one system call that the sandbox forbids, and not one wrong byte.
#include <criterion/criterion.h>
#include <signal.h>
#include <time.h>

#include "confined.h"
#include "fixture.h"
#include "inmate.h"

static struct fixture daemon_fixture;

static void daemon_end(void)
{
    fixture_stop(&daemon_fixture);
}

TestSuite(client_in_trouble, .fini = daemon_end, .timeout = 300);

static int bulk_body(struct inmate *inmate)
{
    cryptod_stream *stream;

    if (inmate_stream_new(CRYPTOD_AES_128_CBC, &stream) != 0)
        return 1;
    for (int i = 0; i < 60; i++) {
        const struct timespec pause = {0, 2000000};

        if (inmate_push(inmate, CRYPTOD_AES_128_CBC, stream, 32784) != 0)
            return 1;
        nanosleep(&pause, NULL);
    }
    cryptod_stream_free(stream);
    return 0;
}

static void fallback_check(const struct cryptod_counters *counters)
{
    cr_assert(counters->fallbacks > 0);
    cr_assert(counters->software_bytes > 0);
}

Test(client_in_trouble, some_requests_fail)
{
    fixture_start(&daemon_fixture, "engine.backends=fault\nengine.fault=error_every=3\n");
    inmate_run_versions(0, bulk_body, NULL, fallback_check);
}

Test(client_in_trouble, all_requests_fail)
{
    fixture_start(&daemon_fixture, "engine.backends=fault\nengine.fault=error_after=0\n");
    inmate_run_versions(0, bulk_body, NULL, fallback_check);
}

Test(client_in_trouble, requests_hang)
{
    fixture_start(&daemon_fixture,
                  "engine.backends=fault\nengine.fault=hang_after=2\nlanes.deadline_ms=50\n");
    inmate_run_versions(0, bulk_body, NULL, fallback_check);
}

static void refused_check(const struct cryptod_counters *counters)
{
    cr_assert(counters->request_operations == 0 && counters->software_bytes > 0);
}

Test(client_in_trouble, keys_are_refused)
{
    fixture_start(&daemon_fixture, "engine.backends=fault\nengine.fault=open_error\n");
    inmate_run_versions(0, bulk_body, NULL, refused_check);
}

// The test does something to the daemon at the meeting, in the middle of a stream in the request
// lane.
static int meeting_body(struct inmate *inmate)
{
    cryptod_stream *stream, *other;

    if (inmate_stream_new(CRYPTOD_AES_256_CTR, &stream) != 0 ||
        inmate_push_until_lane(inmate, CRYPTOD_AES_256_CTR, stream) != 0)
        return 1;
    inmate_meet(inmate);
    if (inmate_push_sizes(inmate, CRYPTOD_AES_256_CTR, stream) != 0)
        return 1;
    if (inmate_stream_new(CRYPTOD_AES_128_CBC, &other) != 0 ||
        inmate_push_sizes(inmate, CRYPTOD_AES_128_CBC, other) != 0)
        return 1;
    inmate_meet(inmate);
    cryptod_stream_free(other);
    cryptod_close();
    if (inmate_push(inmate, CRYPTOD_AES_256_CTR, stream, 65536) != 0)
        return 1;
    cryptod_stream_free(stream);
    return 0;
}

static void role_kill(const char *role)
{
    pid_t pid = fixture_role_pid(&daemon_fixture, role);

    cr_assert(pid > 0 && kill(pid, SIGKILL) == 0);
    (void)fixture_wait_role(&daemon_fixture, role, pid);
}

static void engine_dies(struct inmate *inmate)
{
    inmate_wait(inmate);
    role_kill("engine");
    inmate_release(inmate);
    inmate_wait(inmate);
    inmate_release(inmate);
    fixture_wait_serving(&daemon_fixture, false);
}

static void front_dies(struct inmate *inmate)
{
    inmate_wait(inmate);
    role_kill("front");
    inmate_release(inmate);
    inmate_wait(inmate);
    inmate_release(inmate);
    fixture_wait_serving(&daemon_fixture, false);
}

Test(client_in_trouble, engine_is_killed)
{
    fixture_start(&daemon_fixture, NULL);
    inmate_run_versions(0, meeting_body, engine_dies, fallback_check);
}

Test(client_in_trouble, front_is_killed)
{
    fixture_start(&daemon_fixture, NULL);
    inmate_run_versions(0, meeting_body, front_dies, fallback_check);
}

static void daemon_stops(struct inmate *inmate)
{
    pid_t engine = fixture_role_pid(&daemon_fixture, "engine");
    pid_t front = fixture_role_pid(&daemon_fixture, "front");

    inmate_wait(inmate);
    cr_assert(kill(engine, SIGSTOP) == 0 && kill(front, SIGSTOP) == 0);
    confined_wait_state(engine, 'T');
    confined_wait_state(front, 'T');
    inmate_release(inmate);
    inmate_wait(inmate);
    cr_assert(kill(engine, SIGCONT) == 0 && kill(front, SIGCONT) == 0);
    inmate_release(inmate);
}

static void deadline_check(const struct cryptod_counters *counters)
{
    cr_assert(counters->timeouts > 0 && counters->fallbacks > 0);
}

Test(client_in_trouble, daemon_is_stopped)
{
    fixture_start(&daemon_fixture, NULL);
    inmate_run_versions(0, meeting_body, daemon_stops, deadline_check);
}

// After a short stop the lane is used again.
static int comeback_body(struct inmate *inmate)
{
    cryptod_stream *stream;

    if (inmate_stream_new(CRYPTOD_AES_128_CBC, &stream) != 0 ||
        inmate_push_until_lane(inmate, CRYPTOD_AES_128_CBC, stream) != 0)
        return 1;
    inmate_meet(inmate);
    if (inmate_push(inmate, CRYPTOD_AES_128_CBC, stream, 65536) != 0)
        return 1;
    inmate_meet(inmate);
    if (inmate_push_until_lane(inmate, CRYPTOD_AES_128_CBC, stream) != 0)
        return 1;
    cryptod_stream_free(stream);
    return 0;
}

Test(client_in_trouble, daemon_comes_back)
{
    fixture_start(&daemon_fixture, "lanes.deadline_ms=100\n");
    inmate_run_versions(0, comeback_body, daemon_stops, deadline_check);
}

// ---------------------------------------------------------------- the session itself is stopped

static int waiting_body(struct inmate *inmate)
{
    cryptod_stream *stream;

    if (inmate_stream_new(CRYPTOD_AES_128_CBC, &stream) != 0 ||
        inmate_push_until_lane(inmate, CRYPTOD_AES_128_CBC, stream) != 0)
        return 1;
    inmate_meet(inmate);
    inmate_signal(inmate);
    if (inmate_push_sizes(inmate, CRYPTOD_AES_128_CBC, stream) != 0)
        return 1;
    cryptod_stream_free(stream);
    return 0;
}

// Stopped and continued while it waits for an engine that does not move; with_engine: which moves
// again then.
static void session_stops(struct inmate *inmate, bool with_engine)
{
    pid_t engine = fixture_role_pid(&daemon_fixture, "engine");

    inmate_wait(inmate);
    cr_assert(kill(engine, SIGSTOP) == 0);
    confined_wait_state(engine, 'T');
    inmate_release(inmate);
    inmate_wait(inmate);
    confined_wait_state(inmate->pid, 'S');
    cr_assert(kill(inmate->pid, SIGSTOP) == 0);
    confined_wait_state(inmate->pid, 'T');
    if (with_engine)
        cr_assert(kill(engine, SIGCONT) == 0);
    cr_assert(kill(inmate->pid, SIGCONT) == 0);
    if (!with_engine) {
        confined_wait_state(inmate->pid, 'Z');
        cr_assert(kill(engine, SIGCONT) == 0);
    }
}

static void session_stops_with_engine(struct inmate *inmate)
{
    session_stops(inmate, true);
}

static void session_stops_without_engine(struct inmate *inmate)
{
    session_stops(inmate, false);
}

static void waiting_check(const struct cryptod_counters *counters)
{
    cr_assert(counters->request_operations > 0);
}

Test(client_in_trouble, session_is_stopped_and_engine_answers)
{
    fixture_start(&daemon_fixture, "lanes.deadline_ms=2000\n");
    inmate_run_versions(0, waiting_body, session_stops_with_engine, waiting_check);
}

Test(client_in_trouble, session_is_stopped_and_engine_does_not_answer)
{
    fixture_start(&daemon_fixture, "lanes.deadline_ms=1000\n");
    inmate_run_versions(0, waiting_body, session_stops_without_engine, deadline_check);
}
