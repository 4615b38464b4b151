// SPDX-License-Identifier: MIT
// Calibration in a real daemon: after the start, kept, on order, and in the middle of trouble.
// Backend fault stands for an engine that takes its time: each operation 15 ms, so that a run takes
// all of its 2.5 s.
#include <criterion/criterion.h>
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calibration_file.h"
#include "fixture.h"
#include "monitor_rig.h"
#include "trust_rows.h"
#include "packet.h"

#define AUTO       "lanes.offload=auto\nlanes.request_min=auto\n"
#define SLOW       AUTO "engine.backends=cpu fault\nengine.fault=delay_ms=15\n"
#define SILENCE_MS 60000

static struct fixture f, second;

static void teardown(void)
{
    fixture_stop(&second);
    fixture_stop(&f);
}

TestSuite(calibration, .fini = teardown, .timeout = 300);

static struct cryptod_calibration *show(const struct fixture *daemon)
{
    struct cryptod_calibration *c = NULL;

    cr_assert_eq(cryptod_calibration_get(daemon->socket, SILENCE_MS, &c), 0);
    return c;
}

static const struct cryptod_calibration_row *find(const struct cryptod_calibration *c,
                                                  const char *algorithm, const char *backend)
{
    for (size_t i = 0; i < c->n_rows; i++)
        if (strcmp(c->rows[i].algorithm, algorithm) == 0 &&
            strcmp(c->rows[i].backend, backend) == 0)
            return &c->rows[i];
    cr_assert_fail("no row %s %s", algorithm, backend);
    return NULL;
}

static bool is_being_measured(const struct cryptod_calibration *c)
{
    for (size_t i = 0; i < c->n_rows; i++)
        if (strcmp(c->rows[i].text, "being measured") == 0)
            return true;
    return false;
}

static bool is_measured(const struct cryptod_calibration_row *row)
{
    return row->software.ns[6] != CRYPTOD_NOT_MEASURED;
}

// ---------------------------------------------------------------- after the start

Test(calibration, serves_before_it_has_measured)
{
    struct message_hello_reply reply;
    struct cryptod_calibration *c;
    char path[160];
    struct stat st;

    fixture_start(&f, SLOW);
    c = show(&f);
    cr_expect(is_being_measured(c));
    for (size_t i = 0; i < c->n_rows; i++) {
        cr_expect_eq(c->rows[i].lanes, 0);
        cr_expect_eq(c->rows[i].state, CRYPTOD_STATE_DECLINED);
        cr_expect_not(is_measured(&c->rows[i]));
    }
    cryptod_calibration_free(c);
    cr_expect_eq(rig_hello(f.socket, &reply), MESSAGE_OK, "sessions are served meanwhile");
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++)
        cr_expect_eq(reply.offer[a].lanes, 0);
    fixture_wait_log(&f, "rows measured");
    fixture_wait_log(&f, "/calibration: written");
    c = show(&f);
    cr_expect_not(is_being_measured(c));
    cr_expect(is_measured(find(c, "aes-256-ctr", "cpu")));
    cr_expect_eq(find(c, "aes-256-ctr", "fault")->lanes, 0, "15 ms more never gain");
    cryptod_calibration_free(c);
    snprintf(path, sizeof(path), "%s/calibration", f.state);
    cr_assert_eq(stat(path, &st), 0);
    cr_expect_eq(st.st_mode & 07777, 0600);
}

static void take_aes_instructions_away(void *user)
{
    (void)user;
    setenv("OPENSSL_ia32cap", "0:0", 1);
}

// Without AES instructions, AES is some 30 times slower than taking keystream.
Test(calibration, offers_what_was_measured_to_gain)
{
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct message_hello_reply reply;

    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        cr_skip_test("one CPU: no other one can make keystream");
    fixture_launch_with(&f, AUTO "engine.backends=cpu\n", take_aes_instructions_away, NULL);
    fixture_wait_serving(&f, false);
    fixture_wait_log(&f, "4 of 4 rows measured");
    struct cryptod_calibration *c = show(&f);
    cr_expect_eq(find(c, "aes-256-ctr", "cpu")->lanes, CRYPTOD_LANE_BIT(CRYPTOD_LANE_KEYSTREAM),
                 "%s", find(c, "aes-256-ctr", "cpu")->text);
    cryptod_calibration_free(c);
    cr_expect_eq(rig_hello(f.socket, &reply), MESSAGE_OK);
    cr_expect_eq(reply.offer[ALGORITHM_AES_256_CTR].lanes,
                 MESSAGE_LANE_KEYSTREAM | MESSAGE_OFFER_KEYSTREAM_DEAR);
    cr_expect_eq(reply.offer[ALGORITHM_AES_256_CBC].lanes, 0);
#else
    (void)take_aes_instructions_away;
    cr_skip_test("needs an x86 CPU and a build without sanitizer, for a gain that is certain");
#endif
}

Test(calibration, a_driver_that_hangs_costs_its_own_rows)
{
    struct cryptod_calibration *c;

    fixture_start(&f, AUTO "engine.backends=fault cpu\nengine.fault=hang_after=0\n");
    fixture_wait_log(&f, "4 of 12 rows measured; a driver does not answer in time");
    c = show(&f);
    cr_expect(is_measured(find(c, "aes-128-ctr", "cpu")));
    cryptod_calibration_free(c);
    cr_expect_eq(trust_row_get("aes-128-cbc", "fault").state, CRYPTOD_STATE_QUARANTINED);
    cr_expect_eq(trust_row_get("chacha20", "fault").state, CRYPTOD_STATE_QUARANTINED);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(cryptod_calibrate(f.socket, SILENCE_MS, NULL, NULL, &c), 0,
                     "another thread measures the others");
        cr_expect(is_measured(find(c, "aes-256-ctr", "cpu")));
        cryptod_calibration_free(c);
    }
    cr_expect_eq(rig_hello(f.socket, NULL), MESSAGE_OK);
}

// ---------------------------------------------------------------- kept

static void start_with_state_of(struct fixture *other, const struct fixture *one, const char *conf)
{
    char extra[512];

    snprintf(extra, sizeof(extra), "daemon.state_directory=%s\n%s", one->state, conf);
    fixture_start(other, extra);
}

static void expect_same_figures(const struct fixture *a, const struct fixture *b)
{
    struct cryptod_calibration *of_a = show(a), *of_b = show(b);

    cr_assert_eq(of_a->n_rows, of_b->n_rows);
    cr_expect_eq(of_a->wake_ns, of_b->wake_ns);
    for (size_t i = 0; i < of_a->n_rows; i++) {
        cr_expect_eq(memcmp(&of_a->rows[i].software, &of_b->rows[i].software,
                            sizeof(of_a->rows[i].software)),
                     0, "%s", of_a->rows[i].algorithm);
        cr_expect_eq(memcmp(&of_a->rows[i].take, &of_b->rows[i].take, sizeof(of_a->rows[i].take)),
                     0);
        cr_expect_eq(of_a->rows[i].lanes, of_b->rows[i].lanes);
        cr_expect_str_eq(of_a->rows[i].text, of_b->rows[i].text);
    }
    cryptod_calibration_free(of_a);
    cryptod_calibration_free(of_b);
}

#define QUICK AUTO "engine.backends=cpu\n"

Test(calibration, a_second_start_does_not_measure)
{
    fixture_start(&f, QUICK);
    fixture_wait_log(&f, "/calibration: written");
    start_with_state_of(&second, &f, QUICK);
    struct cryptod_calibration *c = show(&second);
    cr_expect_not(is_being_measured(c));
    cryptod_calibration_free(c);
    expect_same_figures(&f, &second);
    fixture_wait_log(&second, "kept calibration: of this machine, 4 rows taken");
    char *log = fixture_log(&second);
    cr_expect_null(strstr(log, "rows measured"));
    free(log);
}

Test(calibration, a_new_engine_does_not_measure_either)
{
    fixture_start(&f, QUICK);
    fixture_wait_log(&f, "/calibration: written");
    start_with_state_of(&second, &f, QUICK);
    pid_t engine = fixture_role_pid(&second, "engine");
    cr_assert_eq(kill(engine, SIGKILL), 0);
    fixture_wait_role(&second, "engine", engine);
    fixture_wait_serving(&second, false);
    expect_same_figures(&f, &second);
}

// Another driver's rows are measured alone.
Test(calibration, measures_only_rows_that_are_new)
{
    fixture_start(&f, QUICK);
    fixture_wait_log(&f, "/calibration: written");
    start_with_state_of(&second, &f, AUTO "engine.backends=cpu fault\nengine.fault=delay_ms=1\n");
    fixture_wait_log(&second, "kept calibration: of this machine, 4 rows taken");
    fixture_wait_log(&second, "of 8 rows measured");
}

static void change_file(const char *path, void (*change)(struct calibration_table *table))
{
    static char text[CALIBRATION_TEXT_MAX + 1];
    static struct calibration_table table;
    size_t n;

    FILE *file = fopen(path, "r+e");
    cr_assert_not_null(file);
    n = fread(text, 1, sizeof(text) - 1, file);
    text[n] = '\0';
    cr_assert_eq(calibration_file_parse(text, n, &table), 0);
    change(&table);
    cr_assert_eq(calibration_file_print(&table, text, &n), 0);
    rewind(file);
    cr_assert_eq(fwrite(text, 1, n, file), n);
    cr_assert_eq(ftruncate(fileno(file), (off_t)n), 0);
    cr_assert_eq(fclose(file), 0);
}

static void change_kernel(struct calibration_table *table)
{
    strcpy(table->key.kernel, "5.10.0-1-other #1");
}

static void change_openssl(struct calibration_table *table)
{
    strcpy(table->key.openssl, "OpenSSL 3.9.9");
}

static void change_drivers(struct calibration_table *table)
{
    for (uint32_t i = 0; i < table->n_rows; i++)
        strcpy(table->rows[i].driver, "OpenSSL 3.9.9");
}

static void make_requests_fast(struct calibration_table *table)
{
    for (uint32_t i = 0; i < table->n_rows; i++)
        for (uint32_t size = 0; size < MESSAGE_SIZES; size++) {
            table->rows[i].costs[MESSAGE_COST_TAKE].ns[size] = 1;
            table->rows[i].costs[MESSAGE_COST_SOFTWARE].ns[size] = 1000000000;
            table->rows[i].costs[MESSAGE_COST_SOFTWARE].cpu_ns[size] = 1000000000;
        }
}

Test(calibration, measures_again_when_something_has_changed)
{
    void (*const changes[])(struct calibration_table *) = {change_kernel, change_openssl,
                                                           change_drivers};
    char path[160];

    fixture_start(&f, QUICK);
    fixture_wait_log(&f, "/calibration: written");
    snprintf(path, sizeof(path), "%s/calibration", f.state);
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        change_file(path, changes[i]);
        start_with_state_of(&second, &f, QUICK);
        fixture_wait_log(&second, i < 2 ? "kept calibration: of another kernel, CPU or OpenSSL"
                                        : "kept calibration: of this machine, 0 rows taken");
        fixture_wait_log(&second, "4 of 4 rows measured");
        fixture_wait_log(&second, "/calibration: written");
        fixture_stop(&second);
    }
}

// The lanes are there with the first HELLO that is answered.
Test(calibration, offers_at_once_what_was_kept)
{
    struct message_hello_reply reply;
    char path[160];

    fixture_start(&f, QUICK);
    fixture_wait_log(&f, "/calibration: written");
    snprintf(path, sizeof(path), "%s/calibration", f.state);
    change_file(path, make_requests_fast);
    start_with_state_of(&second, &f, QUICK);
    cr_expect_eq(rig_hello(second.socket, &reply), MESSAGE_OK);
    cr_expect_eq(reply.offer[ALGORITHM_AES_256_CTR].lanes, MESSAGE_LANE_KEYSTREAM);
}

Test(calibration, does_without_a_file)
{
    char path[160];

    fixture_start(&f, QUICK "daemon.state_directory=/nonexistent/cryptod\n");
    fixture_wait_log(&f, "/nonexistent/cryptod: No such file or directory: what is measured is not "
                         "kept");
    fixture_wait_log(&f, "4 of 4 rows measured");
    fixture_stop(&f);
    fixture_start(&f, QUICK);
    fixture_wait_log(&f, "/calibration: written");
    snprintf(path, sizeof(path), "%s/calibration", f.state);
    cr_assert_eq(truncate(path, 1000), 0);
    start_with_state_of(&second, &f, QUICK);
    fixture_wait_log(&second, "/calibration: damaged: measured again");
    fixture_wait_log(&second, "/calibration: written");
}
