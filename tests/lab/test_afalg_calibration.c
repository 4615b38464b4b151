// SPDX-License-Identifier: MIT
// Calibration of the kernel's ciphers, in the engine's sandbox; elsewhere skipped, with the reason.
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine_rig.h"
#include "role.h"

#define BULK 6u // index of 64 KiB

TestSuite(afalg_calibration, .timeout = 200);

static struct engine_rig rig;
static struct message_calibration rows[ALGORITHM_COUNT * 2];
static size_t n_rows;

static void start(uint32_t offload)
{
    struct message_role_config config = engine_rig_config();
    int fd = socket(AF_ALG, SOCK_SEQPACKET, 0);

    if (fd < 0)
        cr_skip_test("this kernel gives no AF_ALG socket: %s", strerror(errno));
    close(fd);
    config.backends = CONFIG_BACKEND_AFALG | CONFIG_BACKEND_CPU;
    config.offload = offload;
    config.request_min = 0;
    engine_rig_start(&rig, &config);
}

// Has it measure, after what it may be measuring already, and collects the rows.
static void calibrate(void)
{
    struct message m = {
        .type = MESSAGE_ENGINE_CALIBRATE, .serial = 7, .u.calibrate = {.measure = 1}};

    engine_rig_send(&rig, &m, NULL, 0);
    n_rows = 0;
    do {
        engine_rig_receive(&rig, &m);
        if (m.type != MESSAGE_CALIBRATION)
            continue;
        cr_assert_eq(m.serial, 7);
        cr_assert_lt(n_rows, sizeof(rows) / sizeof(rows[0]));
        rows[n_rows++] = m.u.calibration;
    } while (m.type != MESSAGE_CALIBRATION_END);
    cr_assert_eq(m.u.calibration_end.reason, MESSAGE_OK);
}

static bool openssl_has_aes_instructions(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_cpu_supports("aes") && getenv("OPENSSL_ia32cap") == NULL;
#else
    return false;
#endif
}

static size_t count_measured(void)
{
    size_t n = 0;

    for (size_t i = 0; i < n_rows; i++)
        n += rows[i].costs[MESSAGE_COST_SOFTWARE].ns[BULK] != MESSAGE_NOT_MEASURED;
    return n;
}

// Without AES instructions the kernel's ciphers may win, and then OpenSSL on other CPUs is second.
static const char *expected_text(const struct message_calibration *row)
{
    for (size_t i = 0; i < n_rows; i++)
        if (strcmp(row->backend, "cpu") == 0 && strcmp(rows[i].backend, "afalg") == 0 &&
            rows[i].algorithm == row->algorithm && rows[i].lanes != 0)
            return "backend afalg serves it";
    return "MB/s: ";
}

// All of them in the time that there is for a start: none is "too slow", unless the machine has
// other things to do.
Test(afalg_calibration, all_rows_are_measured_in_their_time)
{
    size_t n_afalg = 0;

    start(CONFIG_OFFLOAD_AUTO);
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++)
        cr_expect_eq(rig.offer.offer[a].lanes, 0, "offered before it is measured");
    for (int i = 0; i < 10; i++) {
        calibrate();
        if (count_measured() == n_rows)
            break;
    }
    for (size_t i = 0; i < n_rows; i++) {
        const struct message_calibration *row = &rows[i];
        const bool is_afalg = strcmp(row->backend, "afalg") == 0;

        n_afalg += is_afalg;
        cr_expect_eq(strncmp(row->text, expected_text(row), strlen(expected_text(row))), 0,
                     "%u %s: %s", row->algorithm, row->backend, row->text);
        cr_expect_gt(row->wake_ns, 0);
        cr_expect_neq(row->costs[MESSAGE_COST_SOFTWARE].ns[BULK], MESSAGE_NOT_MEASURED);
        if (is_afalg)
            cr_expect_neq(row->costs[MESSAGE_COST_REQUEST].ns[BULK], MESSAGE_NOT_MEASURED);
        if (is_afalg && row->algorithm != ALGORITHM_DES_EDE3_CBC && openssl_has_aes_instructions())
            cr_expect_eq(row->lanes, 0, "%u: the kernel's software never wins: %s", row->algorithm,
                         row->text);
    }
    cr_expect_eq(n_afalg, 7);
    cr_expect_eq(n_rows, 11);
    engine_rig_stop(&rig);
}

// A key of a session and those of the measurement do not disturb each other.
Test(afalg_calibration, serves_meanwhile)
{
    static const uint8_t key[ALGORITHM_KEY_MAX] = {1, 2, 3};
    struct message m = {
        .type = MESSAGE_ENGINE_CALIBRATE, .serial = 9, .u.calibrate = {.measure = 1}};
    struct engine_client client;

    start(CONFIG_OFFLOAD_ALWAYS);
    cr_assert_eq(engine_client_open(&client, &rig, 1, 4, 16), MESSAGE_OK);
    cr_assert_eq(engine_client_open_stream(&client, 0, ALGORITHM_AES_128_CBC, key), MESSAGE_OK);
    engine_rig_send(&rig, &m, NULL, 0);
    for (uint32_t i = 1; i <= 200; i++)
        engine_client_expect_right(&client, 0, ALGORITHM_AES_128_CBC, key, true, i * 160);
    do {
        engine_rig_receive(&rig, &m);
    } while (m.type != MESSAGE_CALIBRATION_END);
    cr_expect_eq(m.u.calibration_end.reason, MESSAGE_OK);
    engine_client_close(&client);
    engine_rig_stop(&rig);
}
