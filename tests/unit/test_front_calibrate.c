// SPDX-License-Identifier: MIT
// CALIBRATE through a front over socketpairs: who may, and whose answers are whose.
#include "front_rig.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

static struct front_rig rig;

static void setup(void)
{
    struct message_role_config config;

    front_rig_config(&config);
    front_rig_init(&rig, &config, -1);
    front_rig_offer(&rig);
}

static void teardown(void)
{
    front_rig_fini(&rig);
}

TestSuite(front_calibrate, .init = setup, .fini = teardown);

static void ask(int client, uint64_t serial, uint32_t measure)
{
    const struct message m = {
        .type = MESSAGE_CALIBRATE, .serial = serial, .u.calibrate = {.measure = measure}};

    front_rig_send(&rig, client, &m, NULL, 0);
}

static void expect_end(int client, uint64_t serial, uint32_t reason)
{
    struct message m;

    front_rig_expect_client(client, MESSAGE_CALIBRATION_END, &m);
    cr_expect_eq(m.serial, serial);
    cr_expect_eq(m.u.calibration_end.reason, reason);
}

static void engine_says(struct message m, uint64_t serial)
{
    m.serial = serial;
    front_rig_send(&rig, rig.engine, &m, NULL, 0);
}

static const struct message progress = {.type = MESSAGE_CALIBRATION_PROGRESS,
                                        .u.calibration_progress = {.done = 3, .total = 8}};
static const struct message row = {.type = MESSAGE_CALIBRATION,
                                   .u.calibration = {.algorithm = 2, .backend = "cpu"}};
static const struct message end = {.type = MESSAGE_CALIBRATION_END};

Test(front_calibrate, goes_to_the_engine_and_back)
{
    int client = front_rig_connect(&rig);
    struct message to_engine, m;

    for (uint32_t measure = 0; measure < 2; measure++) {
        ask(client, 70 + measure, measure);
        front_rig_expect_engine(&rig, MESSAGE_ENGINE_CALIBRATE, &to_engine);
        cr_expect_eq(to_engine.u.calibrate.measure, measure);
        front_rig_expect_nothing(client);
        engine_says(progress, to_engine.serial);
        front_rig_expect_client(client, MESSAGE_CALIBRATION_PROGRESS, &m);
        cr_expect_eq(m.serial, 70 + measure);
        cr_expect_eq(m.u.calibration_progress.done, 3);
        engine_says(row, to_engine.serial);
        front_rig_expect_client(client, MESSAGE_CALIBRATION, &m);
        cr_expect_eq(m.serial, 70 + measure);
        cr_expect_eq(memcmp(&m.u.calibration, &row.u.calibration, sizeof(m.u.calibration)), 0);
        engine_says(end, to_engine.serial);
        expect_end(client, 70 + measure, MESSAGE_OK);
    }
    close(client);
}

Test(front_calibrate, is_for_admins)
{
    int client = front_rig_connect(&rig);

    front_rig_last_client(&rig)->peer.admin = false;
    for (uint32_t measure = 0; measure < 2; measure++) {
        ask(client, 5, measure);
        expect_end(client, 5, MESSAGE_REASON_ACCESS);
        front_rig_expect_nothing(rig.engine);
    }
    close(client);
}

Test(front_calibrate, two_clients_get_their_own_answers)
{
    int first = front_rig_connect(&rig), second = front_rig_connect(&rig);
    struct message to_engine[2], m;
    struct message busy = end;

    ask(first, 1, 1);
    ask(second, 1, 1);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_CALIBRATE, &to_engine[0]);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_CALIBRATE, &to_engine[1]);
    cr_expect_neq(to_engine[0].serial, to_engine[1].serial);
    busy.u.calibration_end.reason = MESSAGE_REASON_BUSY;
    engine_says(busy, to_engine[1].serial);
    expect_end(second, 1, MESSAGE_REASON_BUSY);
    front_rig_expect_nothing(first);
    engine_says(row, to_engine[0].serial);
    front_rig_expect_client(first, MESSAGE_CALIBRATION, &m);
    engine_says(end, to_engine[0].serial);
    expect_end(first, 1, MESSAGE_OK);
    front_rig_expect_nothing(second);
    close(first);
    close(second);
}

Test(front_calibrate, a_client_that_leaves_changes_nothing)
{
    int client = front_rig_connect(&rig);
    struct message to_engine, m;

    ask(client, 1, 1);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_CALIBRATE, &to_engine);
    close(client);
    front_rig_turn(&rig);
    engine_says(progress, to_engine.serial);
    engine_says(row, to_engine.serial);
    engine_says(end, to_engine.serial);
    engine_says(end, to_engine.serial); // nobody's
    client = front_rig_connect(&rig);
    ask(client, 2, 0);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_CALIBRATE, &to_engine);
    engine_says(row, to_engine.serial);
    front_rig_expect_client(client, MESSAGE_CALIBRATION, &m);
    cr_expect_eq(m.serial, 2);
    close(client);
}

Test(front_calibrate, one_question_at_a_time)
{
    int client = front_rig_connect(&rig);

    ask(client, 1, 1);
    ask(client, 2, 0);
    front_rig_expect_closed(client);
    close(client);
    client = front_rig_connect(&rig);
    ask(client, 1, 2); // an order that does not exist
    front_rig_expect_closed(client);
    close(client);
}

// Clients that ask and leave while the engine stands still do not pile up work.
Test(front_calibrate, questions_without_an_answer_are_limited)
{
    struct message to_engine;

    for (uint32_t i = 0; i < 64; i++) {
        int client = front_rig_connect(&rig);
        ask(client, 1, 1);
        close(client);
        front_rig_turn(&rig);
    }
    int client = front_rig_connect(&rig);
    ask(client, 9, 1);
    expect_end(client, 9, MESSAGE_REASON_BUSY);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_CALIBRATE, &to_engine);
    engine_says(end, to_engine.serial);
    ask(client, 10, 1);
    front_rig_expect_nothing(client);
    close(client);
}

Test(front_calibrate, with_a_channel_and_status_meanwhile)
{
    uint32_t channel;
    int client = front_rig_open(&rig, &channel);
    struct message to_engine, m;

    ask(client, 3, 1);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_CALIBRATE, &to_engine);
    front_rig_status(&rig, client, 4);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_STATUS, &m);
    front_rig_status_reply(&rig, &m, 0);
    front_rig_expect_client(client, MESSAGE_STATUS_SUMMARY, &m);
    front_rig_expect_client(client, MESSAGE_STATUS_CHANNEL, &m);
    front_rig_expect_client(client, MESSAGE_STATUS_USER, &m);
    front_rig_expect_client(client, MESSAGE_STATUS_END, &m);
    engine_says(end, to_engine.serial);
    expect_end(client, 3, MESSAGE_OK);
    close(client);
}

Test(front_calibrate, not_without_an_engine, .init = NULL)
{
    struct message_role_config config;
    struct front_rig alone;

    front_rig_config(&config);
    config.mode = MESSAGE_REASON_SOFTWARE;
    front_rig_init(&alone, &config, -1);
    front_rig_turn(&alone);
    int client = front_rig_connect(&alone);
    const struct message m = {.type = MESSAGE_CALIBRATE, .serial = 1};
    front_rig_send(&alone, client, &m, NULL, 0);
    expect_end(client, 1, MESSAGE_REASON_SOFTWARE);
    close(client);
    front_rig_fini(&alone);
}
