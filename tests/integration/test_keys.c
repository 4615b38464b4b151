// SPDX-License-Identifier: MIT
// A driver that takes few keys, and more streams than that: all get right bytes, those with a key
// by the driver; none sees an error, and nothing is held against the driver.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_flow.h"
#include "fixture.h"
#include "monitor_rig.h"
#include "trust_rows.h"

#define N_STREAMS 8
#define N_KEYS    "3"

static struct fixture fixture;

static void stop(void)
{
    fixture_stop(&fixture);
}

TestSuite(few_keys, .timeout = 300, .fini = stop);

static uint32_t count_in_lane(const struct client_flow *flows)
{
    uint32_t n = 0;

    for (int i = 0; i < N_STREAMS; i++)
        n += cryptod_stream_lane(flows[i].stream) != CRYPTOD_LANE_SOFTWARE;
    return n;
}

// What was asked of the engine ahead of need may still be under way.
static struct trust_row settled_row(const char *algorithm)
{
    struct trust_row row = trust_row_get(algorithm, "fault"), before;

    do {
        before = row;
        rig_sleep_ms(300);
        row = trust_row_get(algorithm, "fault");
    } while (row.operations != before.operations || row.key_lacks != before.key_lacks);
    return row;
}

static void expect_few_keys(uint32_t algorithm)
{
    const char *name = algorithm_get(algorithm)->name;
    struct client_flow flows[N_STREAMS], late;

    fixture_start(&fixture, CLIENT_PATIENT "engine.backends=fault\nengine.verify=all\n"
                                           "engine.fault=selftest,keys=" N_KEYS);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    for (int i = 0; i < N_STREAMS; i++)
        client_flow_init(&flows[i], algorithm, i % 2 == 0);
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < N_STREAMS; i++)
            client_flow_step(&flows[i], 20000);
        rig_sleep_ms(1);
    }
    cr_expect_gt(count_in_lane(flows), 0);
    // Those who ask while all are busy are told so; who had a key and was idle gives it to the
    // next.
    client_flow_init(&late, algorithm, true);
    rig_sleep_ms(1500);
    client_flow_enter_lane(&late);
    for (int round = 0; round < 20; round++) {
        client_flow_step(&late, 30000);
        for (int i = 0; i < N_STREAMS; i++)
            client_flow_step(&flows[i], 20000);
    }
    const struct trust_row row = settled_row(name);
    cr_expect_eq(row.state, CRYPTOD_STATE_OFFERED, "%s", row.text);
    cr_expect_gt(row.operations, 0);
    cr_expect_eq(row.errors, 0);
    cr_expect_leq(row.keys, atoi(N_KEYS));
    cr_expect_gt(row.keys, 0);
    cr_expect_gt(row.key_lacks, 0);
    cr_expect_eq(client_counters().fallbacks, 0);
    char shown[32], *table = trust_cryptoctl("");
    snprintf(shown, sizeof(shown), " %u/%llu", row.keys, (unsigned long long)row.key_lacks);
    cr_expect_not_null(strstr(trust_find_line(table, name, "fault-on-order"), shown), "%s: %s",
                       shown, table);
    free(table);
    for (int i = 0; i < N_STREAMS; i++)
        client_flow_fini(&flows[i]);
    client_flow_fini(&late);
    cryptod_close();
    fixture_stop(&fixture);
}

Test(few_keys, in_the_request_lane)
{
    expect_few_keys(ALGORITHM_AES_256_CBC);
}

Test(few_keys, in_the_keystream_lane)
{
    expect_few_keys(ALGORITHM_AES_128_CTR);
}

// Not even one for the self-test: the driver is not there, which is not its fault.
Test(few_keys, none_at_all)
{
    fixture_start(&fixture, "engine.backends=fault cpu\nengine.fault=selftest,keys=0");
    cr_expect_eq(trust_row_get("aes-128-cbc", "fault").state, CRYPTOD_STATE_ABSENT);
    cr_expect_eq(trust_row_get("aes-128-cbc", "cpu").state, CRYPTOD_STATE_OFFERED);
    fixture_stop(&fixture);
}
