// SPDX-License-Identifier: MIT
// What the monitor keeps of drivers that hang: until the machine is started anew, and whatever is
// in the file.
#include "quarantine_store.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "quarantine.h"

static char folder[64], path[96];

static void make_folder(void)
{
    snprintf(folder, sizeof(folder), "/tmp/cryptod-test-hung.XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/" QUARANTINE_STORE_NAME, folder);
}

static void remove_folder(void)
{
    unlink(path);
    rmdir(path);
    rmdir(folder);
}

TestSuite(quarantine_store, .timeout = 60, .init = make_folder, .fini = remove_folder);

static struct quarantine_store *open_store(void)
{
    struct quarantine_store *store = NULL;

    cr_assert_eq(quarantine_store_new(folder, &store), 0);
    return store;
}

static int add(struct quarantine_store *store, uint32_t kind, const char *driver)
{
    struct message_quarantine what = {.algorithm = ALGORITHM_AES_128_CBC, .kind = kind};

    snprintf(what.driver, sizeof(what.driver), "%s", driver);
    return quarantine_store_add(store, &what);
}

static void expect_list_of_next(const char *list)
{
    struct quarantine_store *store = open_store();

    cr_expect_str_eq(quarantine_store_list(store), list);
    quarantine_store_free(store);
}

static void write_text(const char *text)
{
    FILE *file = fopen(path, "we");

    cr_assert_not_null(file);
    cr_assert_geq(fputs(text, file), 0);
    cr_assert_eq(fclose(file), 0);
}

static void read_text(char *text, size_t n_text)
{
    FILE *file = fopen(path, "re");

    cr_assert_not_null(file);
    text[fread(text, 1, n_text - 1, file)] = '\0';
    fclose(file);
}

Test(quarantine_store, keeps_what_hangs_and_nothing_else)
{
    struct quarantine_store *store = open_store();
    struct stat st;

    cr_expect_eq(add(store, MESSAGE_QUARANTINE_WRONG, "wrong-driver"), 0);
    cr_expect_eq(access(path, F_OK), -1);
    cr_expect_eq(add(store, MESSAGE_QUARANTINE_HANGS, "one"), 0);
    cr_expect_eq(add(store, MESSAGE_QUARANTINE_HANGS, "one"), 0);
    cr_expect_eq(add(store, MESSAGE_QUARANTINE_HANGS, "two"), 0);
    cr_expect_str_eq(quarantine_store_list(store), "wrong-driver aes-128-cbc one hangs two hangs");
    quarantine_store_free(store);
    cr_assert_eq(stat(path, &st), 0);
    cr_expect_eq(st.st_mode & 07777, 0600);
    expect_list_of_next("one hangs two hangs");
}

Test(quarantine_store, refuses_what_is_no_name)
{
    struct quarantine_store *store = open_store();
    const struct message_quarantine no_algorithm = {.algorithm = ALGORITHM_COUNT, .driver = "x"};

    cr_expect_eq(add(store, MESSAGE_QUARANTINE_HANGS, ""), -EINVAL);
    cr_expect_eq(add(store, MESSAGE_QUARANTINE_HANGS, "a\nb"), -EINVAL);
    cr_expect_eq(quarantine_store_add(store, &no_algorithm), -EINVAL);
    cr_expect_str_eq(quarantine_store_list(store), "");
    quarantine_store_free(store);
}

Test(quarantine_store, forgets_with_the_machine)
{
    char text[256];
    struct quarantine_store *store = open_store();

    cr_expect_eq(add(store, MESSAGE_QUARANTINE_HANGS, "driver"), 0);
    quarantine_store_free(store);
    read_text(text, sizeof(text));
    text[0] = text[0] == '0' ? '1' : '0'; // another start's number
    write_text(text);
    expect_list_of_next("");
}

Test(quarantine_store, takes_what_it_can_of_a_file)
{
    static const char *const bad[] = {"", "\n", "?\ndriver\n", "no number\ndriver\n"};
    char text[2048], name[QUARANTINE_NAME_MAX + 10];
    struct quarantine_store *store = open_store();

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_text(bad[i]);
        expect_list_of_next("");
    }
    cr_expect_eq(add(store, MESSAGE_QUARANTINE_HANGS, "driver"), 0);
    quarantine_store_free(store);
    read_text(text, sizeof(text));
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    strcat(strcat(text, name), "\n\nwith blank\nlast");
    write_text(text);
    expect_list_of_next("driver hangs last hangs");
    memset(text, '\n', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    write_text(text);
    expect_list_of_next("");
}

Test(quarantine_store, does_without_a_file)
{
    struct quarantine_store *store;

    cr_assert_eq(mkdir(path, 0700), 0);
    store = open_store();
    cr_expect_eq(add(store, MESSAGE_QUARANTINE_HANGS, "driver"), 0);
    cr_expect_str_eq(quarantine_store_list(store), "driver hangs");
    quarantine_store_free(store);
    cr_assert_eq(quarantine_store_new("/nowhere/at/all", &store), 0);
    cr_expect_eq(add(store, MESSAGE_QUARANTINE_HANGS, "driver"), 0);
    quarantine_store_free(store);
}
