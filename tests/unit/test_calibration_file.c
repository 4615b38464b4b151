// SPDX-License-Identifier: MIT
// The file of a calibration: what is written is read, and nothing else is.
#include "calibration_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(calibration_file, .timeout = 120);

#define SET_TEXT(field, value) (void)snprintf(field, sizeof(field), "%s", value)

static struct calibration_table table, got;
static char text[CALIBRATION_TEXT_MAX + 1];
static size_t n_text;

static void make_row(struct message_calibration *row, uint32_t algorithm, const char *backend)
{
    *row = (struct message_calibration){.algorithm = algorithm, .wake_ns = 13000, .wake_cpu_ns = 9};
    SET_TEXT(row->backend, backend);
    SET_TEXT(row->driver, "cbc-aes-neonbs");
    for (uint32_t cost = 0; cost < MESSAGE_COST_COUNT; cost++)
        for (uint32_t i = 0; i < MESSAGE_SIZES; i++) {
            row->costs[cost].ns[i] = (cost + 1) * 1000000007ull * (i + 1);
            row->costs[cost].cpu_ns[i] = cost + i;
        }
    row->costs[2].ns[3] = row->costs[2].cpu_ns[3] = MESSAGE_NOT_MEASURED;
}

static void make_table(uint32_t n_rows)
{
    memset(&table, 0, sizeof(table));
    SET_TEXT(table.key.kernel, "6.1.0-37-armmp #1 SMP Debian 6.1.140-1 (2025-05-22)");
    SET_TEXT(table.key.cpu, "ARMv7 Processor rev 1 (v7l), features 0badcafe");
    SET_TEXT(table.key.openssl, "OpenSSL 3.0.17 1 Jul 2025");
    table.key.cpus = 2;
    table.n_rows = n_rows;
    for (uint32_t i = 0; i < n_rows; i++)
        make_row(&table.rows[i], i % ALGORITHM_COUNT, i < 8 ? "afalg" : i < 16 ? "cpu" : "fault");
    memset(text, 0, sizeof(text));
}

static void print(uint32_t n_rows)
{
    make_table(n_rows);
    cr_assert_eq(calibration_file_print(&table, text, &n_text), 0);
    cr_assert_eq(strlen(text), n_text);
}

Test(calibration_file, round_trip)
{
    for (uint32_t n = 0; n <= 24; n += 8) {
        print(n);
        memset(&got, 0x5a, sizeof(got));
        cr_assert_eq(calibration_file_parse(text, n_text, &got), 0, "%s", text);
        cr_expect_eq(memcmp(&got.key, &table.key, sizeof(got.key)), 0);
        cr_assert_eq(got.n_rows, n);
        cr_expect_eq(memcmp(got.rows, table.rows, n * sizeof(got.rows[0])), 0);
    }
}

Test(calibration_file, longest_values)
{
    make_table(1);
    memset(table.key.kernel, 'k', sizeof(table.key.kernel) - 1);
    memset(table.key.cpu, 'c', sizeof(table.key.cpu) - 1);
    memset(table.rows[0].driver, 'd', sizeof(table.rows[0].driver) - 1);
    for (uint32_t i = 0; i < MESSAGE_SIZES; i++)
        table.rows[0].costs[2].cpu_ns[i] = UINT64_C(1000000000000000);
    cr_assert_eq(calibration_file_print(&table, text, &n_text), 0);
    cr_assert_eq(calibration_file_parse(text, n_text, &got), 0, "%s", text);
    cr_expect_eq(memcmp(&got.key, &table.key, sizeof(got.key)), 0);
    cr_expect_eq(memcmp(got.rows, table.rows, sizeof(got.rows[0])), 0);
}

Test(calibration_file, every_truncation_is_refused)
{
    print(2);
    for (size_t n = 0; n < n_text; n++) {
        char *cut = strndup(text, n);

        memset(&got, 0x5a, sizeof(got));
        cr_assert_eq(calibration_file_parse(cut, n, &got), -EBADMSG, "%zu bytes", n);
        cr_assert_eq(got.n_rows, 0x5a5a5a5a);
        free(cut);
    }
}

Test(calibration_file, every_flipped_bit_is_refused)
{
    print(1);
    for (size_t i = 0; i < n_text; i++)
        for (int bit = 0; bit < 8; bit++) {
            text[i] = (char)(text[i] ^ (1 << bit));
            cr_assert_eq(calibration_file_parse(text, n_text, &got), -EBADMSG, "byte %zu, bit %d",
                         i, bit);
            text[i] = (char)(text[i] ^ (1 << bit));
        }
    cr_expect_eq(calibration_file_parse(text, n_text, &got), 0);
}

// The checksum (CRC-32, IEEE 802.3) made again, so that the parser itself is reached.
static void seal(const char *body)
{
    uint32_t crc = UINT32_MAX;

    for (const char *p = body; *p != '\0'; p++) {
        crc ^= (unsigned char)*p;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    n_text = (size_t)snprintf(text, sizeof(text), "%s[end]\nchecksum = %08x\n", body, ~crc);
}

#define KEY "[key]\nkernel = k\ncpu = c\ncpus = 2\nopenssl = o\ncapabilities = \n"

Test(calibration_file, what_is_sealed_and_wrong_is_refused_too)
{
    static const char *const bad[] = {
        KEY "[aes-128-cbc]\ndriver = d\n",
        KEY "[aes-999-cbc cpu]\ndriver = d\n",
        KEY "[aes-128-cbc cpu]\ndrivers = d\n",
        KEY "[aes-128-cbc a-backend-with-a-name-too-long]\ndriver = d\n",
        KEY "[aes-128-cbc cpu]\nwake = 1\n",
        KEY "[aes-128-cbc cpu]\nwake = 1 -\n",
        KEY "[aes-128-cbc cpu]\nwake = 1 2 3\n",
        KEY "[aes-128-cbc cpu]\nsoftware = 1 2 3 4 5 6 7\n",
        KEY "[aes-128-cbc cpu]\nsoftware = 1 2 3 4 5 6 7 8 9\n",
        KEY "[aes-128-cbc cpu]\nsoftware = 1 2 3 4 5 6 7 99999999999999999999\n",
        KEY "[aes-128-cbc cpu]\nsoftware = 1 2 3 4 5 6 7 -8\n",
        KEY "[aes-128-cbc cpu]\nsoftware_gpu = 1 2 3 4 5 6 7 8\n",
        KEY "neither\n",
        KEY "cpus = 2x\n",
        KEY "cpus = 4294967296\n",
        KEY "more = x\n",
        "driver = d\n",
    };

    seal(KEY);
    cr_expect_eq(calibration_file_parse(text, n_text, &got), 0);
    seal(KEY "[aes-128-cbc cpu]\ndriver = d\nwake = 1 2\nsoftware = 1 2 3 - 5 6 7 8\n");
    cr_expect_eq(calibration_file_parse(text, n_text, &got), 0);
    cr_expect_eq(got.rows[0].costs[0].ns[3], MESSAGE_NOT_MEASURED);
    cr_expect_eq(got.rows[0].costs[1].ns[0], MESSAGE_NOT_MEASURED);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        seal(bad[i]);
        cr_expect_eq(calibration_file_parse(text, n_text, &got), -EBADMSG, "%s", bad[i]);
    }
}

Test(calibration_file, more_rows_than_any_engine_has)
{
    static char body[65536];
    size_t n = (size_t)snprintf(body, sizeof(body), KEY);

    for (unsigned i = 0; i <= CALIBRATION_ROWS_MAX; i++)
        n += (size_t)snprintf(body + n, sizeof(body) - n, "[aes-128-cbc b%u]\ndriver = d\n", i);
    seal(body);
    cr_expect_eq(calibration_file_parse(text, n_text, &got), -EBADMSG);
    print(CALIBRATION_ROWS_MAX);
    cr_expect_eq(calibration_file_parse(text, n_text, &got), 0);
    table.n_rows++;
    cr_expect_eq(calibration_file_print(&table, text, &n_text), -EINVAL);
}

Test(calibration_file, keeps_only_what_a_line_can_hold)
{
    static const char *const bad[] = {"a;b", "a\nb", " a", "a ", "\x7f", "\xc3\xa4"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        make_table(1);
        SET_TEXT(table.rows[0].driver, bad[i]);
        cr_expect_not(calibration_file_takes_row(&table.rows[0]), "%s", bad[i]);
        cr_expect_eq(calibration_file_print(&table, text, &n_text), -EINVAL);
        make_table(1);
        SET_TEXT(table.key.cpu, bad[i]);
        cr_expect_not(calibration_file_takes_key(&table.key), "%s", bad[i]);
        cr_expect_eq(calibration_file_print(&table, text, &n_text), -EINVAL);
    }
    make_table(1);
    SET_TEXT(table.rows[0].backend, "a]b");
    cr_expect_not(calibration_file_takes_row(&table.rows[0]));
    SET_TEXT(table.rows[0].backend, "");
    cr_expect_not(calibration_file_takes_row(&table.rows[0]));
    make_row(&table.rows[0], ALGORITHM_COUNT, "cpu");
    cr_expect_not(calibration_file_takes_row(&table.rows[0]));
}
