// SPDX-License-Identifier: MIT
// Users, groups and lists in the configuration file.
#include "config.h"

#include <criterion/criterion.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "config_rig.h"

TestSuite(config_list, .init = config_rig_setup, .fini = config_rig_teardown);

Test(config_list, users_and_groups)
{
    struct passwd *nobody;
    struct config_user expected = {0};
    struct config c;

    config_rig_refuse("[daemon]\nfront_user = no-such-user\n",
                      ":2: key 'front_user': no user 'no-such-user'");
    config_rig_refuse("[daemon]\nengine_user = no-such-user\n",
                      ":2: key 'engine_user': no user 'no-such-user'");
    config_rig_refuse("[daemon]\nfront_user = root\n",
                      ":2: key 'front_user': 'root' is root or in root's group");
    config_rig_refuse("[daemon]\nfront_user = 0\n",
                      ":2: key 'front_user': '0' is root or in root's group");
    config_rig_refuse("[daemon]\nfront_user = 4294967295\n",
                      ":2: key 'front_user': no user '4294967295'");
    config_rig_refuse("[daemon]\nfront_user = 7\nengine_user = 7\n",
                      ": key 'engine_user': must not be the same user as front_user");
    config_rig_refuse(USERS "group = no-such-group\n", ":4: key 'group': no group 'no-such-group'");
    config_rig_refuse(USERS "allow_users = 5 no-such-user\n",
                      ":4: key 'allow_users': no user 'no-such-user'");
    config_rig_refuse(USERS "allow_groups = no-such-group\n",
                      ":4: key 'allow_groups': no group 'no-such-group'");
    nobody = getpwnam("nobody");
    if (nobody == NULL)
        cr_skip_test("there is no user 'nobody' to look up");
    expected = (struct config_user){nobody->pw_uid, nobody->pw_gid};
    config_rig_load(
        "[daemon]\nfront_user = nobody\nengine_user = 61991\nallow_users = nobody root\n", &c);
    cr_expect_eq(c.front_user.uid, expected.uid);
    cr_expect_eq(c.front_user.gid, expected.gid);
    cr_assert_eq(c.n_uids, 2);
    cr_expect_eq(c.uids[0], expected.uid);
    cr_expect_eq(c.uids[1], 0);
}

Test(config_list, lists_have_an_end)
{
    struct config c;

    config_rig_load(USERS "allow_users = 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n", &c);
    cr_expect_eq(c.n_uids, 16);
    config_rig_refuse(USERS "allow_users = 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n",
                      ":4: key 'allow_users': more than 16 names");
    config_rig_load(USERS "allow_groups = 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n", &c);
    cr_expect_eq(c.n_gids, 16);
    config_rig_refuse(USERS "allow_groups = 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n",
                      ":4: key 'allow_groups': more than 15 names");
    config_rig_refuse(
        USERS "[engine]\ndeny_drivers = "
              "0123456789012345678901234567890123456789012345678901234567890123\n",
        ":5: key 'deny_drivers': '0123456789012345678901234567890123456789...' is longer than "
        "63 bytes");
    config_rig_refuse(USERS "[engine]\ndeny_drivers = a=b\n",
                      ":5: key 'deny_drivers': 'a=b' is not the name of a driver");
}

Test(config_list, lists_go_on_over_indented_lines)
{
    struct config c;
    char text[2048];

    config_rig_load(USERS "allow_users = 1\n  2 3\n\t4\n\n[engine]\ndeny_drivers = a\n b\n", &c);
    cr_assert_eq(c.n_uids, 4);
    cr_expect_eq(c.uids[3], 4);
    cr_expect_str_eq(c.deny_drivers, "a b");
    config_rig_refuse(USERS "socket = /run/x\n  log_level = debug\n",
                      ":5: key 'socket': goes on over an indented line, which only lists may");
    config_rig_load("[daemon]\n  front_user = 61990\n[daemon]\n  engine_user = 61991\n", &c);
    cr_expect_eq(c.engine_user.uid, 61991, "the first key of a section may be indented");

    size_t n = (size_t)snprintf(text, sizeof(text), USERS "[engine]\ndeny_drivers =");
    for (int i = 0; i < 64; i++) // 64 times 8 bytes: one separator too many
        n += (size_t)snprintf(text + n, sizeof(text) - n, " drv%04d\n", i);
    snprintf(text + n, sizeof(text) - n, " x\n");
    config_rig_refuse(text, ":69: key 'deny_drivers': longer than 511 bytes in all");
}
