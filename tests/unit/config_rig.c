// SPDX-License-Identifier: MIT
// Guarantees a file of its own to each test.
#include "config_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/cryptod-test-config.XXXXXX";

const char *config_rig_path(void)
{
    return path;
}

void config_rig_write(const void *text, size_t n)
{
    FILE *out = fopen(path, "we");

    cr_assert_not_null(out);
    cr_assert_eq(fwrite(text, 1, n, out), n);
    cr_assert_eq(fclose(out), 0);
}

void config_rig_setup(void)
{
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    close(fd);
}

void config_rig_teardown(void)
{
    unlink(path);
}

void config_rig_load(const char *text, struct config *ret)
{
    char error[CONFIG_ERROR_MAX] = "";

    config_rig_write(text, strlen(text));
    cr_assert_eq(config_load(path, ret, NULL, error, sizeof(error)), 0, "%s", error);
}

void config_rig_refuse_bytes(const void *text, size_t n, const char *expected)
{
    char error[CONFIG_ERROR_MAX] = "", full[CONFIG_ERROR_MAX];
    struct config config, before;

    memset(&config, 0x5a, sizeof(config));
    before = config;
    config_rig_write(text, n);
    cr_assert_lt(config_load(path, &config, NULL, error, sizeof(error)), 0, "accepted: %s",
                 (const char *)text);
    snprintf(full, sizeof(full), "%s%s", path, expected);
    cr_expect_str_eq(error, full);
    cr_expect_eq(memcmp(&config, &before, sizeof(config)), 0, "changed by: %s", error);
}

void config_rig_refuse(const char *text, const char *expected)
{
    config_rig_refuse_bytes(text, strlen(text), expected);
}
