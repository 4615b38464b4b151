// SPDX-License-Identifier: MIT
// Cases from the field, each named with its number: drivers that fail with some requests only. They
// are found at start, `cryptoctl` says which request it was, the backend behind them serves, and
// every session gets right bytes.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "client_flow.h"
#include "fixture.h"
#include "ssh_packets.h"
#include "trust_rows.h"

static struct fixture fixture;

static void stop(void)
{
    fixture_stop(&fixture);
}

TestSuite(cases_drivers, .timeout = 300, .fini = stop);

// fault: what the first backend does wrong; `more` lines of configuration.
static void start(const char *fault, const char *more)
{
    char conf[512];

    snprintf(conf, sizeof(conf), CLIENT_PATIENT "engine.backends=fault cpu\nengine.fault=%s\n%s",
             fault, more);
    fixture_start(&fixture, conf);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
}

static void finish(void)
{
    cryptod_close();
    fixture_stop(&fixture);
}

// A session of the algorithm, in its lane and with requests of all sizes, against OpenSSL.
static void expect_right_session(uint32_t algorithm)
{
    const uint64_t n_before = client_lane_bytes();

    if (algorithm == ALGORITHM_CHACHA20) {
        struct ssh_packets packets;

        ssh_packets_init(&packets, 3, true);
        ssh_packets_enter_lane(&packets, 32784);
        for (int i = 0; i < 20; i++)
            ssh_packets_send(&packets, 32784);
        ssh_packets_fini(&packets);
    } else {
        struct client_flow flow;

        client_flow_init(&flow, algorithm, algorithm % 2 == 0);
        client_flow_enter_lane(&flow);
        for (size_t i = 0; i < 40; i++)
            client_flow_step(&flow, 1 + i * i * 100);
        client_flow_fini(&flow);
    }
    cr_expect_gt(client_lane_bytes(), n_before, "%s", algorithm_get(algorithm)->name);
}

// The table has a note's number at the end of a row, and the notes below.
static void expect_note(const char *table, const char *line, const char *text)
{
    const char *number = strrchr(line, ' ');
    char note[256];

    cr_assert_not_null(number, "%s", line);
    snprintf(note, sizeof(note), "%4d  %s\n", atoi(number), text);
    cr_expect_not_null(strstr(table, note), "%s: %s", line, text);
}

// What an administrator sees of it.
static void expect_shown(const char *state, const char *text_part)
{
    char *table = trust_cryptoctl(""), *json = trust_cryptoctl("--json");

    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        const struct trust_row row = trust_row_get(algorithm_get(a)->name, "fault");
        const char *line = trust_find_line(table, algorithm_get(a)->name, "fault-on-order");

        cr_expect_not_null(strstr(row.text, text_part), "%s: %s", algorithm_get(a)->name, row.text);
        cr_expect_not_null(strstr(line, state), "%s", line);
        expect_note(table, line, row.text);
        cr_expect_not_null(strstr(json, row.text));
        cr_expect_eq(row.operations, 0);
    }
    cr_expect_eq(trust_count(json, state), ALGORITHM_COUNT);
    free(table);
    free(json);
}

// The driver goes wrong as told; its self-test ends as told.
static void expect_found(const char *fault, const char *text_part)
{
    char spec[128];

    snprintf(spec, sizeof(spec), "selftest,%s", fault);
    start(spec, "");
    expect_shown("quarantined", text_part);
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++)
        expect_right_session(a);
    cr_expect_eq(client_counters().fallbacks, 0);
    finish();
}

// SAMA5D2: 22 kB unaligned, a bounce buffer of 16 kB, the rest not written and no error.
Test(cases_drivers, case_06_short_output_without_an_error)
{
    expect_found("short=16384,if_unaligned", "self-test: wrong bytes at 22");
}

// The same where nobody looked at start: found in use.
Test(cases_drivers, case_06_short_output_in_use)
{
    start("short=16384", "engine.verify=all");
    for (uint32_t a = 0; a < ALGORITHM_CHACHA20; a++) {
        struct client_flow flow;

        client_flow_init(&flow, a, false);
        client_flow_enter_lane(&flow);
        for (int i = 0; i < 20; i++)
            client_flow_step(&flow, 22528);
        const struct trust_row row =
            trust_row_wait(algorithm_get(a)->name, "fault", CRYPTOD_STATE_QUARANTINED);
        cr_expect_geq(row.mismatches, 1);
        client_flow_fini(&flow);
    }
    finish();
}

// A driver that reports an error for large requests: the call does not fail, software does it.
Test(cases_drivers, case_06_errors_become_software)
{
    start("error_every=1,if_over=16384", CLIENT_REQUESTS_ONLY);
    for (uint32_t a = 0; a < ALGORITHM_CHACHA20; a++) {
        struct client_flow flow;

        client_flow_init(&flow, a, false);
        client_flow_enter_lane(&flow);
        const uint64_t fallbacks = client_counters().fallbacks;
        for (int i = 0; i < 20; i++)
            client_flow_step(&flow, 22528);
        cr_expect_eq(client_counters().fallbacks, fallbacks + 3, "then this key is left alone");
        client_flow_fini(&flow);
    }
    cr_expect_eq(client_counters().timeouts, 0);
    finish();
}

Test(cases_drivers, case_07_errors_at_exactly_64_kib)
{
    expect_found("error_every=1,if_size=65536", "self-test: EIO at 65536 bytes");
}

// The same where nobody looked at start: every size around it is right in every lane.
Test(cases_drivers, case_07_any_size_with_a_driver_that_refuses_one)
{
    static const int beside[] = {-16, -1, 0, 1, 16};

    for (int slots = 0; slots < 2; slots++) {
        start("error_every=1,if_size=65536", slots ? "" : CLIENT_REQUESTS_ONLY);
        for (uint32_t a = 0; a < ALGORITHM_CHACHA20; a++) {
            struct client_flow flow;

            client_flow_init(&flow, a, a % 2 == 0);
            client_flow_enter_lane(&flow);
            for (size_t k = 1; k <= 8; k++)
                for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
                    client_flow_step(&flow, k * 65536 + (size_t)beside[i]);
                    if (i == 2)
                        client_flow_restart(&flow, true); // a key that is not left alone yet
                }
            client_flow_fini(&flow);
        }
        cr_expect_gt(client_counters().fallbacks, 0);
        finish();
    }
}

// qce: the IV is not updated, so a stream in several requests is wrong from the second on.
Test(cases_drivers, case_11_iv_not_updated)
{
    expect_found("wrong_every=1,if_chained", "chained IV");
}

// RK3288: split or unaligned buffers.
Test(cases_drivers, case_13_unaligned_buffers)
{
    expect_found("wrong_every=1,if_unaligned", "self-test: wrong bytes at ");
}

Test(cases_drivers, case_13_split_buffers)
{
    expect_found("wrong_every=1,if_chained,if_over=4096", "chained IV");
}

// EIP197: only small packets pass; more than a page, or 64 KiB alone, does not.
Test(cases_drivers, case_25_more_than_a_page)
{
    expect_found("error_every=1,if_over=4096", "self-test: EIO at 416");
}

Test(cases_drivers, case_25_wrong_bytes_at_64_kib)
{
    expect_found("wrong_every=1,if_over=65535", "self-test: wrong bytes at 65536 bytes");
}

// EIP93: one operation crashes the machine. Here it hangs for ever, so a daemon that made one, at
// start or later, would not get to where it answers.
Test(cases_drivers, case_26_deny_list_before_the_first_operation)
{
    start("selftest,hang_after=0", "engine.deny_drivers=other-driver fault-on-order");
    expect_shown("denied", "on the list deny_drivers");
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++)
        expect_right_session(a);
    cr_expect_eq(client_counters().timeouts, 0);
    finish();
}
