// SPDX-License-Identifier: MIT
// A driver that goes wrong in use, under the real daemon: not one wrong byte reaches a session, the
// driver is quarantined with a reason, and stays so beyond its engine. One worker where results are
// counted: several may each see a wrong one before the first has told.
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client_flow.h"
#include "fixture.h"
#include "trust_rows.h"

static struct fixture fixture;

static void stop(void)
{
    fixture_stop(&fixture);
}

TestSuite(trust, .timeout = 300, .fini = stop);

static size_t log_count(const char *part)
{
    char *text = fixture_log(&fixture);
    size_t n = trust_count(text, part);

    free(text);
    return n;
}

// Requests: the one that was wrong succeeds with OpenSSL's bytes, those after it fail, and so the
// stream goes on in software; a new key is served by the backend behind.
Test(trust, wrong_requests_in_use)
{
    struct client_flow flow;

    client_start(&fixture, CLIENT_PATIENT CLIENT_REQUESTS_ONLY
                 "engine.workers=1\nengine.backends=fault "
                 "cpu\nengine.fault=wrong_after=40\nengine.verify=all");
    client_flow_init(&flow, ALGORITHM_AES_128_CBC, true);
    client_flow_enter_lane(&flow);
    client_flow_run(&flow, 60);
    const struct trust_row row = trust_row_wait("aes-128-cbc", "fault", CRYPTOD_STATE_QUARANTINED);
    cr_expect_eq(row.mismatches, 1);
    cr_expect_eq(row.verified, 41);
    cr_expect_eq(strncmp(row.text, "wrong bytes in use (encrypt, ", 29), 0, "%s", row.text);
    cr_expect_eq(client_counters().fallbacks, 3, "three errors, and this key is left alone");
    cr_expect_eq(cryptod_stream_lane(flow.stream), CRYPTOD_LANE_SOFTWARE);
    cr_expect_eq(trust_row_get("aes-128-cbc", "cpu").state, CRYPTOD_STATE_OFFERED);
    cr_expect_eq(trust_row_get("aes-256-cbc", "fault").state, CRYPTOD_STATE_OFFERED,
                 "this algorithm alone");
    cr_expect_eq(log_count("aes-128-cbc by fault (fault-on-order): wrong bytes in use"), 1);
    client_flow_restart(&flow, true);
    client_flow_enter_lane(&flow);
    client_flow_run(&flow, 20);
    cr_expect_gt(trust_row_get("aes-128-cbc", "cpu").operations, 0);
    cr_expect_eq(trust_row_get("aes-128-cbc", "cpu").verified, 0, "OpenSSL is the measure itself");
    client_flow_fini(&flow);
    client_finish(&fixture);
}

Test(trust, wrong_keystream_in_use)
{
    for (uint32_t id = ALGORITHM_AES_128_CTR; id <= ALGORITHM_AES_256_CTR; id++) {
        struct client_flow flow;
        const char *name = algorithm_get(id)->name;
        char conf[256];

        snprintf(conf, sizeof(conf),
                 CLIENT_PATIENT
                 "engine.workers=1\nengine.backends=fault\nengine.fault=wrong_after=%u\n"
                 "engine.verify=all",
                 id * 7);
        client_start(&fixture, conf);
        client_flow_init(&flow, id, id % 2 == 0);
        client_flow_enter_lane(&flow);
        for (int i = 0; i < 150; i++)
            client_flow_step(&flow, 30001);
        const struct trust_row row = trust_row_wait(name, "fault", CRYPTOD_STATE_QUARANTINED);
        cr_expect_eq(row.mismatches, 1);
        cr_expect_eq(row.verified, id * 7 + 1);
        cr_expect_not_null(strstr(row.text, "in use (keystream, 65536 bytes)"), "%s", row.text);
        cr_expect_eq(cryptod_stream_lane(flow.stream), CRYPTOD_LANE_SOFTWARE);
        client_flow_fini(&flow);
        // Nobody else serves it.
        cryptod_close();
        cr_assert_eq(cryptod_open(NULL, 5000), 0);
        cr_expect_not(cryptod_offers((enum cryptod_algorithm)id));
        client_finish(&fixture);
    }
}

// A driver that is always wrong is caught with the first request, whatever the share.
Test(trust, the_first_request_of_a_key)
{
    for (uint32_t id = 0; id < ALGORITHM_CHACHA20; id++) {
        struct client_flow flow;

        client_start(&fixture, CLIENT_PATIENT
                     "engine.workers=1\nengine.backends=fault\nengine.fault=wrong_every="
                     "1\nengine.verify=1/1000000");
        client_flow_init(&flow, id, id % 2 == 1);
        client_flow_enter_lane(&flow);
        client_flow_run(&flow, 40);
        const struct trust_row row =
            trust_row_wait(algorithm_get(id)->name, "fault", CRYPTOD_STATE_QUARANTINED);
        cr_expect_eq(row.verified, 1);
        cr_expect_eq(row.mismatches, 1);
        client_flow_fini(&flow);
        client_finish(&fixture);
    }
}

Test(trust, switched_off)
{
    struct client_flow flow;

    client_start(&fixture, CLIENT_PATIENT
                 "engine.backends=fault\nengine.fault=delay_ms=0\nengine.verify=off");
    client_flow_init(&flow, ALGORITHM_AES_256_CBC, true);
    client_flow_enter_lane(&flow);
    client_flow_run(&flow, 10);
    cr_expect_gt(trust_row_get("aes-256-cbc", "fault").operations, 9);
    cr_expect_eq(trust_row_get("aes-256-cbc", "fault").verified, 0);
    client_flow_fini(&flow);
    client_finish(&fixture);
}

static void expect_quarantined_before(void)
{
    const struct trust_row row = trust_row_get("aes-128-cbc", "fault");

    cr_expect_eq(row.state, CRYPTOD_STATE_QUARANTINED);
    cr_expect_str_eq(row.text,
                     "wrong bytes in use of an engine before this one; until cryptod is restarted");
}

// The next engine would find the driver right at first; the monitor knows better. A restart of the
// service forgets it.
Test(trust, outlives_the_engine)
{
    const char *conf = CLIENT_PATIENT
        "engine.backends=fault cpu\nengine.fault=selftest,wrong_after=2000\nengine.verify=all";
    struct client_flow flow;

    client_start(&fixture, conf);
    client_flow_init(&flow, ALGORITHM_AES_128_CBC, true);
    client_flow_enter_lane(&flow);
    for (int i = 0; i < 20000 && trust_row_get("aes-128-cbc", "fault").mismatches == 0; i++)
        for (int k = 0; k < 100; k++)
            client_flow_step(&flow, 16);
    (void)trust_row_wait("aes-128-cbc", "fault", CRYPTOD_STATE_QUARANTINED);
    for (int round = 0; round < 2; round++) {
        const pid_t engine = fixture_role_pid(&fixture, "engine");

        cr_assert_eq(kill(engine, SIGKILL), 0);
        fixture_wait_role(&fixture, "engine", engine);
        fixture_wait_serving(&fixture, false);
        expect_quarantined_before();
    }
    cr_assert_eq(kill(fixture.monitor, SIGHUP), 0);
    fixture_wait_log(&fixture, "configuration read again");
    expect_quarantined_before();
    cr_expect_eq(trust_row_get("aes-128-cbc", "cpu").state, CRYPTOD_STATE_OFFERED);
    cr_expect_eq(trust_row_get("aes-192-cbc", "fault").state, CRYPTOD_STATE_OFFERED);
    client_flow_run(&flow, 10);
    client_flow_fini(&flow);
    client_finish(&fixture);
    client_start(&fixture, conf);
    cr_expect_eq(trust_row_get("aes-128-cbc", "fault").state, CRYPTOD_STATE_OFFERED);
    client_finish(&fixture);
}
