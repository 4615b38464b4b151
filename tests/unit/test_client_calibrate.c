// SPDX-License-Identifier: MIT
// client-lib/calibrate.c: rows become a calibration; whatever else comes is an error in bounded
// time and memory.
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "cryptod.h"
#include "fake_daemon.h"
#include "packet.h"

TestSuite(client_calibrate, .timeout = 60);

static struct fake_daemon fake;

static void start(void (*on_calibrate)(int control, uint64_t serial, bool measure))
{
    fake_daemon_init(&fake, 5000);
    fake.on_calibrate = on_calibrate;
    fake_daemon_start(&fake);
}

static void say(int control, uint64_t serial, struct message m)
{
    m.serial = serial;
    for (int r = -EAGAIN; r == -EAGAIN;) {
        r = packet_write(control, &m);
        if (r == -EAGAIN)
            usleep(1000);
    }
}

static void say_progress(int control, uint64_t serial, uint32_t done)
{
    say(control, serial,
        (struct message){.type = MESSAGE_CALIBRATION_PROGRESS,
                         .u.calibration_progress = {.done = done, .total = 2}});
}

static void say_row(int control, uint64_t serial, uint32_t algorithm, uint32_t state)
{
    struct message m = {.type = MESSAGE_CALIBRATION,
                        .u.calibration = {.algorithm = algorithm,
                                          .state = state,
                                          .lanes = MESSAGE_LANE_REQUEST,
                                          .request_min = 2048,
                                          .wake_ns = 13000 + algorithm,
                                          .backend = "afalg",
                                          .driver = "mv-cesa",
                                          .text = "because"}};

    for (uint32_t cost = 0; cost < MESSAGE_COST_COUNT; cost++)
        for (uint32_t i = 0; i < MESSAGE_SIZES; i++) {
            m.u.calibration.costs[cost].ns[i] = 1000 * cost + 10 * i + algorithm;
            m.u.calibration.costs[cost].cpu_ns[i] = MESSAGE_NOT_MEASURED;
        }
    say(control, serial, m);
}

static void say_end(int control, uint64_t serial, uint32_t reason)
{
    say(control, serial,
        (struct message){.type = MESSAGE_CALIBRATION_END, .u.calibration_end = {.reason = reason}});
}

static void say_everything(int control, uint64_t serial, bool measure)
{
    for (uint32_t i = 0; measure && i <= 2; i++)
        say_progress(control, serial, i);
    say_row(control, serial, ALGORITHM_AES_256_CBC, MESSAGE_STATE_OFFERED);
    say_row(control, serial, ALGORITHM_CHACHA20, MESSAGE_STATE_DECLINED);
    say_row(control, serial, ALGORITHM_COUNT, MESSAGE_STATE_OFFERED); // of a newer daemon
    say_row(control, serial, 0, MESSAGE_STATE_COUNT);                 // the same
    say_end(control, serial, MESSAGE_OK);
}

static unsigned n_progress, last_done, last_total;

static void on_progress(void *user, unsigned done, unsigned total)
{
    cr_expect_eq(user, &n_progress);
    n_progress++;
    last_done = done;
    last_total = total;
}

Test(client_calibrate, all_of_it)
{
    struct cryptod_calibration *c = NULL;

    start(say_everything);
    cr_assert_eq(cryptod_calibrate(NULL, 5000, on_progress, &n_progress, &c), 0);
    cr_expect_eq(n_progress, 3);
    cr_expect_eq(last_done, 2);
    cr_expect_eq(last_total, 2);
    cr_expect_eq(c->wake_ns, 13000 + ALGORITHM_CHACHA20);
    cr_assert_eq(c->n_rows, 2);
    cr_expect_str_eq(c->rows[0].algorithm, "aes-256-cbc");
    cr_expect_str_eq(c->rows[0].backend, "afalg");
    cr_expect_str_eq(c->rows[0].driver, "mv-cesa");
    cr_expect_str_eq(c->rows[0].text, "because");
    cr_expect_eq(c->rows[0].state, CRYPTOD_STATE_OFFERED);
    cr_expect_eq(c->rows[0].lanes, CRYPTOD_LANE_BIT(CRYPTOD_LANE_REQUEST));
    cr_expect_eq(c->rows[0].request_min, 2048);
    cr_expect_eq(c->rows[0].software.ns[3], 30 + ALGORITHM_AES_256_CBC);
    cr_expect_eq(c->rows[0].request.ns[7], 1070 + ALGORITHM_AES_256_CBC);
    cr_expect_eq(c->rows[1].keystream.ns[0], 2000 + ALGORITHM_CHACHA20);
    cr_expect_eq(c->rows[1].take.ns[1], 3010 + ALGORITHM_CHACHA20);
    cr_expect_eq(c->rows[1].take.cpu_ns[1], CRYPTOD_NOT_MEASURED);
    cr_expect_eq(c->rows[1].state, CRYPTOD_STATE_DECLINED);
    cryptod_calibration_free(c);
    n_progress = 0;
    cr_assert_eq(cryptod_calibration_get(fake.socket, 5000, &c), 0);
    cr_expect_eq(c->n_rows, 2);
    cr_expect_eq(n_progress, 0);
    cryptod_calibration_free(c);
    cr_assert_eq(cryptod_calibrate(NULL, 5000, NULL, NULL, &c), 0, "without a progress function");
    cryptod_calibration_free(c);
    cryptod_calibration_free(NULL);
    fake_daemon_stop(&fake);
}

static uint32_t reason;

static void say_no(int control, uint64_t serial, bool measure)
{
    (void)measure;
    say_end(control, serial, reason);
}

Test(client_calibrate, refusals)
{
    static const struct {
        uint32_t reason;
        int error;
    } cases[] = {
        {MESSAGE_REASON_ACCESS, -EACCES},       {MESSAGE_REASON_BUSY, -EBUSY},
        {MESSAGE_REASON_SOFTWARE, -EOPNOTSUPP}, {MESSAGE_REASON_ENGINE, -EOPNOTSUPP},
        {MESSAGE_REASON_INTERNAL, -ENOBUFS},    {MESSAGE_REASON_COUNT, -EBADMSG},
    };
    struct cryptod_calibration *c = (void *)&fake;

    start(say_no);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reason = cases[i].reason;
        cr_expect_eq(cryptod_calibrate(NULL, 5000, NULL, NULL, &c), cases[i].error);
        cr_expect_eq(c, (void *)&fake);
    }
    fake_daemon_stop(&fake);
    cr_expect_lt(cryptod_calibration_get("/nonexistent", 100, &c), 0);
}

static void say_nonsense(int control, uint64_t serial, bool measure)
{
    if (measure)
        say_end(control, serial + 1, MESSAGE_OK);
    else
        say(control, serial, (struct message){.type = MESSAGE_STATUS_END});
}

static void say_rows_without_end(int control, uint64_t serial, bool measure)
{
    (void)measure;
    for (uint32_t i = 0; i < 300; i++)
        say_row(control, serial, 0, 0);
}

static void say_nothing(int control, uint64_t serial, bool measure)
{
    (void)control;
    (void)serial;
    (void)measure;
}

Test(client_calibrate, answers_that_are_none)
{
    struct cryptod_calibration *c;

    start(say_nonsense);
    cr_expect_eq(cryptod_calibrate(NULL, 5000, NULL, NULL, &c), -EBADMSG);
    cr_expect_eq(cryptod_calibration_get(NULL, 5000, &c), -EBADMSG);
    fake_daemon_stop(&fake);
    start(say_rows_without_end);
    cr_expect_eq(cryptod_calibrate(NULL, 5000, NULL, NULL, &c), -EMSGSIZE);
    fake_daemon_stop(&fake);
    start(say_nothing);
    cr_expect_eq(cryptod_calibration_get(NULL, 50, &c), -ETIMEDOUT);
    fake_daemon_stop(&fake);
}
