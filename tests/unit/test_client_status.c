// SPDX-License-Identifier: MIT
// client-lib/status.c: rows become a status; whatever else comes is an error in bounded time and
// memory.
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "cryptod.h"
#include "fake_daemon.h"
#include "packet.h"

TestSuite(client_status, .timeout = 60);

static struct fake_daemon fake;

static void start(void (*on_status)(int control, uint64_t serial))
{
    fake_daemon_init(&fake, 5000);
    fake.on_status = on_status;
    fake_daemon_start(&fake);
}

static void say(int control, uint64_t serial, struct message m)
{
    m.serial = serial;
    // The whole table is more than a socket's buffer.
    for (int r = -EAGAIN; r == -EAGAIN;) {
        r = packet_write(control, &m);
        if (r == -EAGAIN)
            usleep(1000);
        else if (r < 0)
            return; // the asker has seen enough
    }
}

static void say_summary(int control, uint64_t serial)
{
    struct message m = {.type = MESSAGE_STATUS_SUMMARY,
                        .u.status_summary = {
                            .uptime_s = 1234,
                            .version = 1,
                            .channels = 2,
                            .streams = 3,
                            .channels_total = 4,
                            .streams_total = 5,
                            .refused_total = 6,
                            .violations_total = 7,
                            .channels_max = 128,
                            .channels_per_uid = 96,
                            .afalg_errno = EAFNOSUPPORT,
                            .engine_restarts = 8,
                            .text = "no AF_ALG",
                            .release = "0.1.0",
                            .kernel = "6.1",
                            .limits = {.in_all = {1, 2, 3, 4, 5, 6},
                                       .per_uid = {11, 12, 13, 14, 15, 16},
                                       .used = {21, 22, 23, 24, 25, 26},
                                       .refused = {31, 32, 33, 34, 35, 36}},
                        }};

    say(control, serial, m);
}

static void say_user(int control, uint64_t serial, uint32_t uid)
{
    struct message m = {.type = MESSAGE_STATUS_USER, .u.status_user = {.uid = uid}};

    for (uint32_t i = 0; i < MESSAGE_LIMIT_COUNT; i++)
        m.u.status_user.used[i] = 100 * uid + i;
    say(control, serial, m);
}

static void say_end(int control, uint64_t serial, uint32_t reason)
{
    say(control, serial,
        (struct message){.type = MESSAGE_STATUS_END, .u.status_end.reason = reason});
}

static void say_algorithm(int control, uint64_t serial, uint32_t algorithm, uint32_t state)
{
    struct message m = {.type = MESSAGE_STATUS_ALGORITHM,
                        .u.status_algorithm = {
                            .algorithm = algorithm,
                            .state = state,
                            .lanes = MESSAGE_LANE_REQUEST,
                            .operations = 10 + algorithm,
                            .bytes = 20,
                            .errors = 30,
                            .verified = 40,
                            .mismatches = 50,
                            .backend = "cpu",
                            .driver = "OpenSSL",
                            .text = "because",
                        }};

    say(control, serial, m);
}

static void say_channel(int control, uint64_t serial, uint32_t channel)
{
    struct message m = {.type = MESSAGE_STATUS_CHANNEL,
                        .u.status_channel = {
                            .channel = channel,
                            .uid = 1000,
                            .pid = 2000,
                            .streams = 1,
                            .age_s = 5,
                            .operations = 6,
                            .bytes = 7,
                            .software_bytes = 8,
                            .fallbacks = 9,
                            .lane_changes = 10,
                        }};

    say(control, serial, m);
}

static void say_everything(int control, uint64_t serial)
{
    say_summary(control, serial);
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++)
        for (uint32_t backend = 0; backend < 3; backend++)
            say_algorithm(control, serial, id, backend);
    say_algorithm(control, serial, ALGORITHM_COUNT, 0);     // of a newer daemon
    say_algorithm(control, serial, 0, MESSAGE_STATE_COUNT); // the same
    for (uint32_t channel = 0; channel < 100; channel++)
        say_channel(control, serial, channel);
    for (size_t i = 0; i < 20; i++)
        say(control, serial,
            (struct message){.type = MESSAGE_STATUS_NOTE,
                             .u.status_note = {.topic = "engine", .text = "kept in"}});
    for (uint32_t uid = 0; uid < 50; uid++)
        say_user(control, serial, uid);
    say_end(control, serial, MESSAGE_OK);
}

static void expect_limits(const struct cryptod_status *status)
{
    static const char *const names[] = {"channels",      "streams",  "shared_memory",
                                        "locked_memory", "requests", "connects"};

    for (uint32_t i = 0; i < CRYPTOD_LIMIT_COUNT; i++) {
        const struct cryptod_status_limit *limit = &status->limits[i];
        cr_expect_str_eq(limit->name, names[i]);
        cr_expect_eq(limit->in_all, 1 + i);
        cr_expect_eq(limit->per_uid, 11 + i);
        cr_expect_eq(limit->used, 21 + i);
        cr_expect_eq(limit->refused, 31 + i);
    }
    cr_assert_eq(status->n_user_rows, 50);
    for (uint32_t uid = 0; uid < 50; uid++) {
        cr_expect_eq(status->user_rows[uid].uid, uid);
        for (uint32_t i = 0; i < CRYPTOD_LIMIT_COUNT; i++)
            cr_expect_eq(status->user_rows[uid].used[i], 100 * uid + i);
    }
}

Test(client_status, all_of_it)
{
    struct cryptod_status *status = NULL;

    start(say_everything);
    cr_assert_eq(cryptod_status_get(NULL, 10000, &status), 0);
    cr_assert_eq(status->uptime_s, 1234);
    cr_assert_not(status->software_only);
    cr_assert_eq(status->afalg_error, EAFNOSUPPORT);
    cr_assert_eq(status->channels, 2);
    cr_assert_eq(status->streams, 3);
    cr_assert_eq(status->channels_total, 4);
    cr_assert_eq(status->streams_total, 5);
    cr_assert_eq(status->refused_total, 6);
    cr_assert_eq(status->violations_total, 7);
    cr_assert_eq(status->channels_max, 128);
    cr_assert_eq(status->channels_per_uid, 96);
    cr_assert_eq(status->restarts, 8);
    cr_assert_str_eq(status->text, "no AF_ALG");
    cr_assert_str_eq(status->release, "0.1.0");
    cr_assert_str_eq(status->kernel, "6.1");
    cr_assert_eq(status->n_algorithms, 3UL * ALGORITHM_COUNT);
    for (size_t i = 0; i < status->n_algorithms; i++) {
        const struct cryptod_status_algorithm *row = &status->algorithms[i];
        cr_assert_str_eq(row->algorithm, cryptod_algorithm_name((enum cryptod_algorithm)(i / 3)));
        cr_assert_eq(row->state, (enum cryptod_state)(i % 3));
        cr_assert_eq(row->lanes, CRYPTOD_LANE_BIT(CRYPTOD_LANE_REQUEST));
        cr_assert_eq(row->operations, 10 + i / 3);
        cr_assert_eq(row->bytes, 20);
        cr_assert_eq(row->errors, 30);
        cr_assert_eq(row->verified, 40);
        cr_assert_eq(row->mismatches, 50);
        cr_assert_str_eq(row->backend, "cpu");
        cr_assert_str_eq(row->driver, "OpenSSL");
        cr_assert_str_eq(row->text, "because");
    }
    expect_limits(status);
    cr_assert_eq(status->n_channel_rows, 100);
    for (uint32_t i = 0; i < 100; i++) {
        const struct cryptod_status_channel *row = &status->channel_rows[i];
        cr_assert_eq(row->channel, i);
        cr_assert_eq(row->uid, 1000);
        cr_assert_eq(row->pid, 2000);
        cr_assert_eq(row->streams, 1);
        cr_assert_eq(row->age_s, 5);
        cr_assert_eq(row->operations, 6);
        cr_assert_eq(row->bytes, 7);
        cr_assert_eq(row->software_bytes, 8);
        cr_assert_eq(row->fallbacks, 9);
        cr_assert_eq(row->lane_changes, 10);
    }
    cr_assert_eq(status->n_notes, 20);
    for (size_t i = 0; i < 20; i++) {
        cr_assert_str_eq(status->notes[i].topic, "engine");
        cr_assert_str_eq(status->notes[i].text, "kept in");
    }
    cryptod_status_free(status);
    cryptod_status_free(NULL);
    fake_daemon_stop(&fake);
}

static void say_refused(int control, uint64_t serial)
{
    say_end(control, serial, MESSAGE_REASON_ACCESS);
}

static void say_end_alone(int control, uint64_t serial)
{
    say_end(control, serial, MESSAGE_OK);
}

static void say_wrong_serial(int control, uint64_t serial)
{
    say_summary(control, serial + 1);
}

static void say_something_else(int control, uint64_t serial)
{
    say(control, serial, (struct message){.type = MESSAGE_STREAM_REPLY});
}

static void say_too_much(int control, uint64_t serial)
{
    say_summary(control, serial);
    for (uint32_t i = 0; i < 2000; i++)
        say_algorithm(control, serial, 0, 0);
    say_end(control, serial, MESSAGE_OK);
}

static void say_half(int control, uint64_t serial)
{
    say_summary(control, serial);
}

static void check_error(void (*on_status)(int control, uint64_t serial), unsigned timeout_ms,
                        int expected)
{
    struct cryptod_status *status = NULL;

    start(on_status);
    cr_assert_eq(cryptod_status_get(fake.socket, timeout_ms, &status), expected);
    cr_assert_null(status);
    fake_daemon_stop(&fake);
}

Test(client_status, answers_that_are_none)
{
    check_error(say_refused, 10000, -EACCES);
    check_error(say_end_alone, 10000, -EBADMSG);
    check_error(say_wrong_serial, 10000, -EBADMSG);
    check_error(say_something_else, 10000, -EBADMSG);
    check_error(say_too_much, 10000, -EMSGSIZE);
    check_error(say_half, 50, -ETIMEDOUT);
}

Test(client_status, no_daemon)
{
    struct cryptod_status *status = NULL;

    cr_assert_eq(cryptod_status_get("/nonexistent/cryptod.sock", 1000, &status), -ENOENT);
    cr_assert_null(status);
}
