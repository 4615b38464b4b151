// SPDX-License-Identifier: MIT
// Bad days of the real daemon in mid-stream: killed, stopped, hanging, failing. The bytes are right
// and nothing waits long (the times here are generous guards against waiting for ever).
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client_flow.h"
#include "fixture.h"

static struct fixture fixture;

static void stop(void)
{
    fixture_stop(&fixture);
}

TestSuite(client_trouble, .timeout = 300, .fini = stop);

static void start(const char *extra_conf)
{
    fixture_start(&fixture, extra_conf);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// A signal that comes after a while, from a thread of its own.
struct blow {
    pthread_t thread;
    pid_t pids[3];
    int number;
    unsigned after_us;
};

static void *strike(void *argument)
{
    const struct blow *blow = argument;

    usleep(blow->after_us);
    for (size_t i = 0; i < sizeof blow->pids / sizeof *blow->pids; i++)
        if (blow->pids[i] > 0)
            kill(blow->pids[i], blow->number);
    return NULL;
}

static void blow_start(struct blow *blow)
{
    cr_assert_eq(pthread_create(&blow->thread, NULL, strike, blow), 0);
}

// Until the daemon is as good as new, and this process has a channel and the stream its lane again.
static void recover(struct client_flow *flow)
{
    fixture_wait_serving(&fixture, false);
    for (int i = 0; i < 1000 && cryptod_open(NULL, 5000) != 0; i++)
        usleep(10000);
    client_flow_restart(flow, true);
    client_flow_enter_lane(flow);
}

struct kill_case {
    char role[16];
    uint32_t algorithm;
    unsigned after_us;
};

ParameterizedTestParameters(client_trouble, killed)
{
    static struct kill_case cases[] = {
        {"engine", ALGORITHM_AES_128_CBC, 0},      {"engine", ALGORITHM_AES_256_CTR, 3000},
        {"engine", ALGORITHM_DES_EDE3_CBC, 20000}, {"front", ALGORITHM_AES_192_CTR, 1000},
        {"front", ALGORITHM_AES_256_CBC, 10000},
    };
    return cr_make_param_array(struct kill_case, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(struct kill_case *row, client_trouble, killed)
{
    struct client_flow flow;

    start(CLIENT_PATIENT);
    client_flow_init(&flow, row->algorithm, row->algorithm % 2 == 0);
    for (int round = 0; round < 2; round++) {
        client_flow_enter_lane(&flow);
        pid_t victim = fixture_role_pid(&fixture, row->role);
        struct blow blow = {
            .pids = {victim}, .number = SIGKILL, .after_us = row->after_us * (unsigned)(round + 1)};
        blow_start(&blow);
        uint64_t fallbacks = client_counters().fallbacks;
        for (int i = 0; i < 20000 && client_counters().fallbacks == fallbacks; i++)
            client_flow_step(&flow, 150000);
        cr_assert_eq(pthread_join(blow.thread, NULL), 0);
        cr_assert_eq(client_counters().fallbacks, fallbacks + 1);
        cr_assert_eq(cryptod_stream_lane(flow.stream), CRYPTOD_LANE_SOFTWARE);
        client_flow_run(&flow, 20);
        fixture_wait_role(&fixture, row->role, victim);
        recover(&flow);
    }
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);
}

Test(client_trouble, all_killed_at_once)
{
    struct client_flow flow;

    start(CLIENT_PATIENT);
    client_flow_init(&flow, ALGORITHM_AES_128_CBC, true);
    client_flow_enter_lane(&flow);
    struct blow blow = {.pids = {fixture.monitor, fixture_role_pid(&fixture, "front"),
                                 fixture_role_pid(&fixture, "engine")},
                        .number = SIGKILL,
                        .after_us = 5000};
    blow_start(&blow);
    for (int i = 0; i < 20000 && client_counters().fallbacks == 0; i++)
        client_flow_step(&flow, 150000);
    cr_assert_eq(pthread_join(blow.thread, NULL), 0);
    client_flow_run(&flow, 20);
    fixture_wait_end(&fixture);
    cr_assert_lt(cryptod_open(NULL, 200), 0);
    client_flow_run(&flow, 20);
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);
}

// Stopped in mid-stream: one deadline passes, the transfer goes on; after SIGCONT the lane is used
// again.
Test(client_trouble, stopped_and_continued)
{
    start("lanes.deadline_ms=500");
    for (uint32_t id = ALGORITHM_AES_128_CBC; id <= ALGORITHM_AES_128_CTR; id += 3) {
        struct client_flow flow;
        pid_t engine = fixture_role_pid(&fixture, "engine");
        client_flow_init(&flow, id, false);
        client_flow_enter_lane(&flow);
        uint64_t timeouts = client_counters().timeouts;
        struct blow blow = {.pids = {engine}, .number = SIGSTOP, .after_us = 5000};
        blow_start(&blow);
        double started = seconds();
        while (client_counters().timeouts == timeouts && seconds() - started < 60)
            client_flow_step(&flow, 200000);
        cr_assert_eq(pthread_join(blow.thread, NULL), 0);
        cr_assert_eq(client_counters().timeouts, timeouts + 1);
        started = seconds();
        client_flow_run(&flow, 100); // suspended: software alone
        cr_assert_eq(client_counters().timeouts, timeouts + 1);
        cr_assert_lt(seconds() - started, 60);
        kill(engine, SIGCONT);
        client_flow_enter_lane(&flow);
        uint64_t n_bytes = client_lane_bytes();
        client_flow_run(&flow, 8); // keystream begins with 2 of them in software
        cr_assert_geq(client_lane_bytes(), n_bytes + 5 * 32768);
        client_flow_fini(&flow);
    }
    cryptod_close();
    fixture_stop(&fixture);
}

// A stopped daemon also takes no key: the stream stays in software and waits for nothing.
Test(client_trouble, stopped_before_the_first_large_call)
{
    struct client_flow flow;

    start(CLIENT_PATIENT);
    pid_t engine = fixture_role_pid(&fixture, "engine"),
          front = fixture_role_pid(&fixture, "front");
    kill(front, SIGSTOP);
    kill(engine, SIGSTOP);
    for (int i = 0; i < 20; i++) { // more than there are numbers for
        client_flow_init(&flow, ALGORITHM_AES_256_CTR, true);
        client_flow_run(&flow, 3);
        client_flow_fini(&flow);
    }
    cr_assert_eq(client_lane_bytes(), 0);
    cr_assert_eq(client_counters().timeouts, 0);
    kill(engine, SIGCONT);
    kill(front, SIGCONT);
    client_flow_init(&flow, ALGORITHM_AES_256_CTR, true);
    client_flow_enter_lane(&flow);
    client_flow_run(&flow, 3);
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);
}

Test(client_trouble, requests_that_never_come_back)
{
    struct client_flow flow;

    start("engine.backends=fault\nengine.fault=hang_after=40\nlanes.deadline_ms=500");
    client_flow_init(&flow, ALGORITHM_AES_128_CTR, true);
    client_flow_enter_lane(&flow);
    double started = seconds();
    client_flow_run(&flow, 200);
    cr_assert_lt(seconds() - started, 60);
    cr_assert_eq(client_counters().timeouts, 1, "one deadline, then software");
    cr_assert_eq(client_counters().fallbacks, 1);
    cr_assert_eq(cryptod_stream_lane(flow.stream), CRYPTOD_LANE_SOFTWARE);
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);
}

Test(client_trouble, requests_that_take_longer_than_the_deadline)
{
    struct client_flow flow;

    start("engine.backends=fault\nengine.fault=delay_ms=800\nlanes.deadline_ms=400");
    client_flow_init(&flow, ALGORITHM_AES_128_CBC, true);
    double started = seconds();
    for (int i = 0; i < 10000 && cryptod_offers(CRYPTOD_AES_128_CBC); i++) {
        client_flow_step(&flow, 4096);
        usleep(1000);
        if (i % 3000 == 2999) // a busy machine may answer past the deadline, which is a refusal
            client_flow_restart(&flow, true);
    }
    cr_assert_eq(client_counters().timeouts, 3, "given up after the third");
    cr_assert_not(cryptod_offers(CRYPTOD_AES_128_CBC));
    client_flow_run(&flow, 100);
    cr_assert_lt(seconds() - started, 60);
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);
}

Test(client_trouble, every_third_request_fails)
{
    start(CLIENT_PATIENT "engine.backends=fault\nengine.fault=error_every=3");
    for (uint32_t id = 0; id < ALGORITHM_CHACHA20; id++) {
        struct client_flow flow;
        client_flow_init(&flow, id, id % 2 == 1);
        client_flow_enter_lane(&flow);
        uint64_t fallbacks = client_counters().fallbacks, n_bytes = client_lane_bytes();
        for (int i = 0; i < 60; i++)
            client_flow_step(&flow, CLIENT_FLOW_MOST - (size_t)i * 5000);
        // Two good ones between two bad ones: the lane is kept, each failure costs one call.
        cr_assert_gt(client_counters().fallbacks, fallbacks);
        cr_assert_gt(client_lane_bytes(), n_bytes);
        client_flow_fini(&flow);
    }
    cr_assert_eq(client_counters().timeouts, 0);
    cryptod_close();
    fixture_stop(&fixture);
}

Test(client_trouble, an_engine_that_only_fails_is_left_alone)
{
    struct client_flow flow;

    start(CLIENT_PATIENT "engine.backends=fault\nengine.fault=error_after=0,algorithm=aes-128-ctr");
    client_flow_init(&flow, ALGORITHM_AES_256_CTR, true); // not this one
    client_flow_enter_lane(&flow);
    client_flow_run(&flow, 10);
    client_flow_fini(&flow);
    cr_assert_eq(client_counters().fallbacks, 0);
    if (cryptod_offers(CRYPTOD_AES_128_CTR)) { // else the daemon has found out by itself
        client_flow_init(&flow, ALGORITHM_AES_128_CTR, true);
        for (int i = 0; i < 1000 && client_counters().fallbacks < 3; i++) {
            client_flow_step(&flow, 50000);
            usleep(1000);
        }
        cr_assert_eq(client_counters().fallbacks, 3);
        client_flow_run(&flow, 50);
        cr_assert_eq(client_counters().fallbacks, 3);
        client_flow_fini(&flow);
    }
    cryptod_close();
    fixture_stop(&fixture);
}

Test(client_trouble, keys_that_the_engine_does_not_take)
{
    struct client_flow flow;

    start(CLIENT_PATIENT "engine.backends=fault\nengine.fault=open_error,algorithm=aes-128-cbc");
    client_flow_init(&flow, ALGORITHM_AES_128_CBC, true);
    for (int i = 0; i < 100; i++) {
        client_flow_step(&flow, 20000);
        usleep(1000);
    }
    cr_assert_eq(client_counters().request_operations, 0);
    cr_assert_eq(client_counters().fallbacks, 0);
    client_flow_fini(&flow);
    client_flow_init(&flow, ALGORITHM_AES_128_CTR, true);
    client_flow_enter_lane(&flow);
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);
}

#define REORDERED CLIENT_PATIENT "engine.backends=fault\nengine.fault="

static void reorder(const char *conf)
{
    fixture_configure(&fixture, conf);
    cr_assert_eq(kill(fixture.monitor, SIGHUP), 0);
}

// A driver that goes bad in the middle of a stream and is good again later: no process is started
// anew, the channel and the stream go on.
Test(client_trouble, a_reload_changes_what_goes_wrong)
{
    struct client_flow flow;

    start(REORDERED "delay_ms=0");
    pid_t engine = fixture_role_pid(&fixture, "engine");
    client_flow_init(&flow, ALGORITHM_AES_128_CBC, true);
    client_flow_enter_lane(&flow);
    cr_assert_eq(client_counters().fallbacks, 0);

    reorder(REORDERED "error_every=2");
    for (int i = 0; i < 20000 && client_counters().fallbacks == 0; i++)
        client_flow_step(&flow, 30000);
    cr_assert_gt(client_counters().fallbacks, 0);

    reorder(REORDERED "nonsense");
    fixture_wait_log(&fixture, "'nonsense' is no order; the old one stays");
    reorder(REORDERED "delay_ms=1");
    client_flow_restart(&flow, true);
    client_flow_enter_lane(&flow);
    client_flow_run(&flow, 20);
    cr_assert_eq(fixture_role_pid(&fixture, "engine"), engine);
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);
}

// An orderly end of the daemon.
Test(client_trouble, the_daemon_ends_under_an_open_channel)
{
    struct client_flow flow;

    start(CLIENT_PATIENT);
    client_flow_init(&flow, ALGORITHM_AES_256_CBC, false);
    client_flow_enter_lane(&flow);
    fixture_stop(&fixture);
    client_flow_run(&flow, 50);
    cr_assert_eq(client_counters().fallbacks, 1);
    cr_assert_eq(client_counters().timeouts, 0);
    client_flow_fini(&flow);
    cryptod_close();
}
