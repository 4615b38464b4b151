// SPDX-License-Identifier: MIT
// What the monitor keeps of a calibration, in a folder that is good, bad, or not there.
#include "calibration_store.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], file[96], file_new[96];

static void setup(void)
{
    strcpy(folder, "/tmp/cryptod-test-store.XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/calibration", folder);
    snprintf(file_new, sizeof(file_new), "%s/calibration.new", folder);
}

static void teardown(void)
{
    unlink(file);
    rmdir(file);
    unlink(file_new);
    rmdir(folder);
}

TestSuite(calibration_store, .init = setup, .fini = teardown);

static struct calibration_store *open_store(uint32_t n_messages)
{
    struct calibration_store *store = NULL;

    cr_assert_eq(calibration_store_new(folder, &store), 0);
    cr_assert_eq(calibration_store_count_messages(store), n_messages);
    return store;
}

static struct message make_key(void)
{
    struct message m = {.type = MESSAGE_CALIBRATION_KEY, .u.calibration_key = {.cpus = 2}};

    strcpy(m.u.calibration_key.kernel, "6.1 #1");
    return m;
}

static struct message make_row(uint32_t algorithm)
{
    struct message m = {.type = MESSAGE_CALIBRATION, .u.calibration = {.algorithm = algorithm}};

    strcpy(m.u.calibration.backend, "afalg");
    strcpy(m.u.calibration.driver, "some-driver");
    return m;
}

static void fill(struct calibration_store *store)
{
    const struct message key = make_key(), first = make_row(0), second = make_row(3),
                         end = {.type = MESSAGE_CALIBRATION_END};

    cr_assert_eq(calibration_store_take(store, &key), 0);
    cr_assert_eq(calibration_store_take(store, &first), 0);
    cr_assert_eq(calibration_store_take(store, &second), 0);
    cr_assert_eq(calibration_store_take(store, &end), 0);
}

static void expect_filled(const struct calibration_store *store)
{
    struct message m = {0}, wanted = make_key();

    cr_assert_eq(calibration_store_count_messages(store), 3);
    calibration_store_get_message(store, 0, &m);
    cr_expect_eq(m.type, MESSAGE_CALIBRATION_KEY);
    cr_expect_eq(
        memcmp(&m.u.calibration_key, &wanted.u.calibration_key, sizeof(m.u.calibration_key)), 0);
    calibration_store_get_message(store, 2, &m);
    wanted = make_row(3);
    cr_expect_eq(m.type, MESSAGE_CALIBRATION);
    cr_expect_eq(memcmp(&m.u.calibration, &wanted.u.calibration, sizeof(m.u.calibration)), 0);
}

Test(calibration_store, keeps_in_memory_and_on_disk)
{
    struct calibration_store *store = open_store(0);
    struct stat st;

    umask(0);
    fill(store);
    expect_filled(store);
    calibration_store_free(store);
    cr_assert_eq(stat(file, &st), 0);
    cr_expect_eq(st.st_mode & 07777, 0600);
    cr_expect_neq(access(file_new, F_OK), 0);
    store = open_store(3);
    expect_filled(store);
    fill(store); // and over the old one
    expect_filled(store);
    calibration_store_free(store);
}

Test(calibration_store, an_unfinished_one_changes_nothing)
{
    struct calibration_store *store = open_store(0);
    const struct message key = make_key(), row = make_row(1);

    fill(store);
    cr_expect_eq(calibration_store_take(store, &key), 0);
    cr_expect_eq(calibration_store_take(store, &row), 0);
    expect_filled(store);
    calibration_store_free(store);
    store = open_store(3);
    expect_filled(store);
    calibration_store_free(store);
}

Test(calibration_store, refuses_what_is_out_of_order)
{
    struct calibration_store *store = open_store(0);
    const struct message end = {.type = MESSAGE_CALIBRATION_END}, ping = {.type = MESSAGE_PING};
    struct message key = make_key(), row = make_row(1);

    cr_expect_eq(calibration_store_take(store, &end), -EBADMSG);
    cr_expect_eq(calibration_store_take(store, &row), -EBADMSG);
    cr_expect_eq(calibration_store_take(store, &ping), -EBADMSG);
    cr_expect_eq(calibration_store_take(store, &key), 0);
    for (uint32_t i = 0; i < CALIBRATION_ROWS_MAX; i++)
        cr_expect_eq(calibration_store_take(store, &row), 0);
    cr_expect_eq(calibration_store_take(store, &row), -EBADMSG, "more than any engine has");
    cr_expect_eq(calibration_store_take(store, &end), 0);
    cr_expect_eq(calibration_store_take(store, &end), -EBADMSG);
    strcpy(key.u.calibration_key.cpu, "a\nb");
    cr_expect_eq(calibration_store_take(store, &key), -EBADMSG);
    calibration_store_free(store);
}

static void write_file(const char *path, const void *data, size_t n)
{
    FILE *out = fopen(path, "we");

    cr_assert_not_null(out);
    cr_assert_eq(fwrite(data, 1, n, out), n);
    cr_assert_eq(fclose(out), 0);
}

Test(calibration_store, a_damaged_file_is_no_file)
{
    struct calibration_store *store = open_store(0);
    static char text[200000];

    fill(store);
    calibration_store_free(store);
    FILE *in = fopen(file, "re");
    cr_assert_not_null(in);
    size_t n = fread(text, 1, sizeof(text), in);
    fclose(in);
    for (size_t cut = 0; cut < n; cut += 7) {
        write_file(file, text, cut);
        calibration_store_free(open_store(0));
    }
    memset(text, 'x', sizeof(text));
    write_file(file, text, sizeof(text)); // too long
    store = open_store(0);
    fill(store); // and it is replaced
    calibration_store_free(store);
    calibration_store_free(open_store(3));
}

Test(calibration_store, follows_no_link_and_opens_no_device)
{
    struct calibration_store *store = open_store(0);
    char target[128];

    fill(store);
    calibration_store_free(store);
    snprintf(target, sizeof(target), "%s.target", folder);
    cr_assert_eq(rename(file, target), 0);
    cr_assert_eq(symlink(target, file), 0);
    calibration_store_free(open_store(0));
    // A link where the new file is written is not written through.
    cr_assert_eq(symlink(target, file_new), 0);
    cr_assert_eq(truncate(target, 0), 0);
    store = open_store(0);
    fill(store);
    calibration_store_free(store);
    struct stat st;
    cr_expect_eq(stat(target, &st), 0);
    cr_expect_eq(st.st_size, 0);
    calibration_store_free(open_store(3));
    unlink(target);
    unlink(file);
    cr_assert_eq(mkfifo(file, 0600), 0);
    calibration_store_free(open_store(0)); // does not wait for a writer
}

Test(calibration_store, does_without_a_folder)
{
    struct calibration_store *store;

    cr_assert_eq(rmdir(folder), 0);
    store = open_store(0);
    fill(store);
    expect_filled(store); // for the next engine at least
    calibration_store_free(store);
    cr_assert_eq(mkdir(folder, 0700), 0);
    cr_assert_eq(mkdir(file, 0700), 0); // something that cannot be replaced
    store = open_store(0);
    fill(store);
    expect_filled(store);
    cr_expect_neq(access(file_new, F_OK), 0);
    calibration_store_free(store);
}
