// SPDX-License-Identifier: MIT
// A driver that hangs, under the real daemon: the engine lives on without it, for the channels that
// there are as for new ones; nobody tries it again before the machine is started anew; and who
// hangs at the start is got rid of too.
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client_flow.h"
#include "fixture.h"
#include "monitor_rig.h"
#include "quarantine_store.h"
#include "trust_rows.h"

#define HANGS "a request did not come back; until the machine is restarted"

static struct fixture fixture, second;

static void stop(void)
{
    fixture_stop(&fixture);
    fixture_stop(&second);
}

TestSuite(hang, .timeout = 300, .fini = stop);

static void expect_hung(const char *algorithm)
{
    const struct trust_row row = trust_row_get(algorithm, "fault");

    cr_expect_eq(row.state, CRYPTOD_STATE_QUARANTINED, "%s", algorithm);
    cr_expect_str_eq(row.text, HANGS);
}

// Steps until a request has been waited for in vain.
static void run_into_hang(struct client_flow *flow)
{
    client_flow_enter_lane(flow);
    for (int i = 0; i < 100000 && client_counters().timeouts == 0; i++)
        client_flow_step(flow, 32768);
    cr_assert_eq(client_counters().timeouts, 1);
    cr_expect_eq(cryptod_stream_lane(flow->stream), CRYPTOD_LANE_SOFTWARE);
}

// A stream of the channel that there is, with a new key.
static void expect_served_by_cpu(struct client_flow *flow, const char *algorithm)
{
    const uint64_t n_before = client_lane_bytes();

    client_flow_restart(flow, true);
    client_flow_enter_lane(flow);
    client_flow_run(flow, 20);
    cr_expect_gt(client_lane_bytes(), n_before);
    cr_expect_gt(trust_row_get(algorithm, "cpu").operations, 0);
}

// Both lanes, one worker for all: whoever waits for it is served again, by the same engine.
static void expect_served_after_hang(uint32_t algorithm, const char *conf)
{
    const char *name = algorithm_get(algorithm)->name;
    struct client_flow flow, other;
    char all[512];

    snprintf(
        all, sizeof(all),
        "engine.workers=1\nengine.backends=fault cpu\nengine.fault=hang_after=20,algorithm=%s\n"
        "lanes.deadline_ms=1000\n%s",
        name, conf);
    client_start(&fixture, all);
    const pid_t engine = fixture_role_pid(&fixture, "engine");
    client_flow_init(&other, ALGORITHM_AES_256_CBC, true);
    client_flow_enter_lane(&other);
    client_flow_init(&flow, algorithm, true);
    run_into_hang(&flow);
    (void)trust_row_wait(name, "fault", CRYPTOD_STATE_QUARANTINED);
    expect_hung(name);
    expect_hung("aes-256-cbc"); // it is the driver that hangs
    client_flow_run(&flow, 20);
    expect_served_by_cpu(&flow, name);
    expect_served_by_cpu(&other, "aes-256-cbc");
    cr_expect_eq(client_counters().timeouts, 1, "nobody else waited in vain");
    cr_expect_eq(fixture_role_pid(&fixture, "engine"), engine, "the engine lives");
    fixture_wait_log(&fixture, "worker 0 hangs in a driver: another thread has its work");
    client_flow_fini(&flow);
    client_flow_fini(&other);
    client_finish(&fixture);
}

Test(hang, in_the_request_lane)
{
    expect_served_after_hang(ALGORITHM_AES_128_CBC, "");
}

Test(hang, in_the_request_lane_with_several_requests)
{
    expect_served_after_hang(ALGORITHM_AES_128_CTR, CLIENT_REQUESTS_ONLY);
}

Test(hang, in_the_keystream_lane)
{
    expect_served_after_hang(ALGORITHM_AES_256_CTR, "");
}

// A daemon that is started again, and an engine that is, do not try the driver; a machine that is
// started again would.
Test(hang, is_remembered_until_the_machine_restarts)
{
    struct client_flow flow;
    char conf[512], path[160];

    client_start(&fixture, "engine.backends=fault cpu\nengine.fault=selftest,hang_after=2500\n"
                           "lanes.deadline_ms=1000\nlanes.spin_us=0");
    client_flow_init(&flow, ALGORITHM_AES_128_CBC, true);
    client_flow_enter_lane(&flow);
    for (int i = 0; i < 100000 && client_counters().timeouts == 0; i++)
        client_flow_step(&flow, 16);
    (void)trust_row_wait("aes-128-cbc", "fault", CRYPTOD_STATE_QUARANTINED);
    client_flow_fini(&flow);
    cryptod_close();
    const pid_t engine = fixture_role_pid(&fixture, "engine");
    cr_assert_eq(kill(engine, SIGKILL), 0);
    fixture_wait_role(&fixture, "engine", engine);
    fixture_wait_serving(&fixture, false);
    expect_hung("aes-192-cbc");
    snprintf(
        conf, sizeof(conf),
        "daemon.state_directory=%s\nengine.backends=fault cpu\nengine.fault=selftest,hang_after=0",
        fixture.state);
    fixture_start(&second, conf);
    expect_hung("aes-128-cbc");
    cr_expect_eq(trust_row_get("aes-128-cbc", "cpu").state, CRYPTOD_STATE_OFFERED);
    fixture_stop(&second);
    snprintf(path, sizeof(path), "%s/" QUARANTINE_STORE_NAME, fixture.state);
    cr_assert_eq(unlink(path), 0, "the way to have it tried again");
    snprintf(
        conf, sizeof(conf),
        "daemon.state_directory=%s\nengine.backends=fault cpu\nengine.fault=selftest,delay_ms=0",
        fixture.state);
    fixture_start(&second, conf);
    cr_expect_eq(trust_row_get("aes-128-cbc", "fault").state, CRYPTOD_STATE_OFFERED);
    fixture_stop(&second);
    fixture_stop(&fixture);
}

// The self-test of the first engine hangs; that of the second one leaves the driver out.
Test(hang, at_the_self_test)
{
    fixture_launch(&fixture, "engine.backends=fault cpu\nengine.fault=selftest,hang_after=30\n"
                             "daemon.ping_interval_ms=500");
    rig_sleep_ms(6000);
    fixture_wait_log(&fixture, "hangs in driver fault-on-order");
    fixture_wait_serving(&fixture, false);
    expect_hung("aes-128-cbc");
    expect_hung("chacha20");
    fixture_stop(&fixture);
}

// An engine that is stopped meanwhile is not the driver's fault.
Test(hang, a_stopped_engine_is_no_hung_driver)
{
    fixture_launch(&fixture, "engine.backends=fault cpu\nengine.fault=selftest,delay_ms=20\n"
                             "daemon.ping_interval_ms=500");
    const pid_t engine = fixture_wait_role(&fixture, "engine", 0);
    cr_assert_eq(kill(engine, SIGSTOP), 0);
    rig_sleep_ms(12000);
    cr_assert_eq(kill(engine, SIGCONT), 0);
    char *log = fixture_log(&fixture);
    cr_expect_null(strstr(log, "hangs in driver"));
    free(log);
    fixture_wait_role(&fixture, "engine", 0);
    cr_assert_eq(kill(fixture.monitor, SIGTERM), 0);
    (void)fixture_wait_end(&fixture);
    fixture_stop(&fixture);
}

// A driver that does not come back from setting a key: the main loop serves on.
Test(hang, when_a_key_is_set)
{
    struct client_flow flow;

    client_start(&fixture,
                 "engine.backends=fault cpu\nengine.fault=open_hangs,algorithm=aes-128-cbc\n"
                 "daemon.ping_interval_ms=100");
    const pid_t engine = fixture_role_pid(&fixture, "engine");
    client_flow_init(&flow, ALGORITHM_AES_128_CBC, true);
    for (int i = 0; i < 50; i++)
        client_flow_step(&flow, 32768);
    (void)trust_row_wait("aes-128-cbc", "fault", CRYPTOD_STATE_QUARANTINED);
    expect_hung("aes-128-cbc");
    expect_served_by_cpu(&flow, "aes-128-cbc");
    cr_expect_eq(client_counters().timeouts, 0);
    cr_expect_eq(fixture_role_pid(&fixture, "engine"), engine, "the engine lives");
    client_flow_fini(&flow);
    client_finish(&fixture);
}
