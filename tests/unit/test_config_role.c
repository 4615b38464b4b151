// SPDX-License-Identifier: MIT
// What the roles are told of the configuration; and that the shipped file and the manual say what
// the program does.
#include "config.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config_key.h"
#include "config_rig.h"

TestSuite(config_role, .init = config_rig_setup, .fini = config_rig_teardown);

Test(config_role, fills_both_roles)
{
    struct message_role_config front, engine;
    struct config c;
    cpu_set_t cpus;

    config_rig_load(
        USERS "group = 5\nallow_users = 6 7\n[lanes]\nspin_us = 20\n[engine]\nbackends = cpu\n"
              "deny_drivers = a b\nfault = hang\n[limits]\nchannels_max = 9\n",
        &c);
    memset(&front, 0x5a, sizeof(front));
    config_fill_role(&c, CONFIG_ROLE_FRONT, &front);
    config_fill_role(&c, CONFIG_ROLE_ENGINE, &engine);
    cr_expect_eq(front.uid, 61990);
    cr_expect_eq(front.gid, 61990);
    cr_expect_eq(engine.uid, 61991);
    cr_expect_eq(front.n_gids, 1);
    cr_expect_eq(front.gids[0], 5);
    cr_expect_eq(front.n_uids, 2);
    cr_expect_eq(front.uids[1], 7);
    cr_expect_eq(front.channels_max, 9);
    cr_expect_eq(front.deadline_ms, 250);
    cr_expect_eq(front.mode, 0);
    cr_expect_str_empty(front.text);
    cr_expect_eq(engine.backends & 0xff, CONFIG_BACKEND_CPU);
    cr_expect_str_eq(engine.deny_drivers, "a b");
    cr_expect_str_eq(engine.fault, "hang");
    cr_expect_eq(engine.verify, 1024);
    cr_expect_str_empty(engine.quarantined);

    cr_assert_eq(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
    cr_expect_eq(front.spin_us, CPU_COUNT(&cpus) > 1 ? 20 : 0);
    unsigned n_kept = 0;
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &cpus) && n_kept++ > 0)
            CPU_CLR(i, &cpus);
    cr_assert_eq(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
    config_fill_role(&c, CONFIG_ROLE_FRONT, &front);
    cr_expect_eq(front.spin_us, 0, "nobody spins on one CPU");
}

static char *read_project_file(const char *name)
{
    FILE *in = fopen(name, "re");
    char *text = NULL;
    size_t n = 0;

    cr_assert_not_null(in, "%s: %s", name, strerror(errno));
    cr_assert_gt(getdelim(&text, &n, '\0', in), 0);
    fclose(in);
    return text;
}

// The shipped file with its keys switched on is the same as no file; the users are replaced, they
// may not exist here.
Test(config_role, shipped_file_shows_the_defaults)
{
    char *text = read_project_file("systemd/cryptod.conf"), *rest = text, *line;
    struct config shipped, defaults;
    unsigned n_keys = 0;

    config_rig_load(USERS, &defaults);
    FILE *out = fopen(config_rig_path(), "we");
    cr_assert_not_null(out);
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (line[0] == '#' && line[1] >= 'a' && line[1] <= 'z') {
            n_keys++;
            line++;
        }
        if (strncmp(line, "front_user", 10) == 0)
            line = "front_user = 61990";
        else if (strncmp(line, "engine_user", 11) == 0)
            line = "engine_user = 61991";
        else if (strncmp(line, "group", 5) == 0)
            line = "";
        fprintf(out, "%s\n", line);
    }
    fclose(out);
    char error[CONFIG_ERROR_MAX] = "";
    cr_assert_eq(config_load(config_rig_path(), &shipped, NULL, error, sizeof(error)), 0, "%s",
                 error);
    cr_expect_eq(memcmp(&shipped, &defaults, sizeof(defaults)), 0);
    cr_expect_eq(n_keys, config_n_keys, "a key is missing");
    free(text);
}

Test(config_role, manual_names_every_key)
{
    char *text = read_project_file("man/cryptod.conf.5"), item[64];

    for (size_t i = 0; i < config_n_keys; i++) {
        snprintf(item, sizeof(item), ".It Cm %s ", config_keys[i].name);
        cr_expect_not_null(strstr(text, item), "%s", config_keys[i].name);
    }
    free(text);
}
