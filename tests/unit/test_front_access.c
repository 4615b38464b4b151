// SPDX-License-Identifier: MIT
// Who may open a channel, and who sees other people's.
#include "access.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct message_role_config config = {
    .n_uids = 2,
    .uids = {1000, 1001},
    .n_gids = 2,
    .gids = {500, 501}, // the first is the admin group
};

static void judge(const struct message_role_config *c, uint32_t uid, gid_t group, bool allowed,
                  bool admin)
{
    const gid_t groups[] = {42, group, 43};
    bool is_allowed = !allowed, is_admin = !admin;

    access_judge(c, uid, groups, 3, &is_allowed, &is_admin);
    cr_assert_eq(is_allowed, allowed, "uid %u group %u", uid, group);
    cr_assert_eq(is_admin, admin, "uid %u group %u", uid, group);
}

Test(front_access, table)
{
    judge(&config, 0, 99, true, true);
    judge(&config, 1000, 99, true, false);
    judge(&config, 1001, 99, true, false);
    judge(&config, 1002, 99, false, false);
    judge(&config, 1002, 500, true, true);
    judge(&config, 1002, 501, true, false);
    judge(&config, 1001, 500, true, true);
    judge(&config, 500, 1000, false, false); // numbers of users are not numbers of groups
}

Test(front_access, empty_configuration_allows_root_alone)
{
    const struct message_role_config empty = {0};

    judge(&empty, 0, 0, true, true);
    judge(&empty, 1000, 0, false, false); // gids[0] is 0, but there is none
}

Test(front_access, counts_past_the_arrays_are_not_believed)
{
    struct message_role_config odd = config;

    odd.n_uids = odd.n_gids = UINT32_MAX;
    judge(&odd, 1000, 99, true, false);
    judge(&odd, 1002, 99, false, false);
}

// The group of a configuration whose group does not exist, against a peer without credentials.
Test(front_access, nobody_is_not_somebody)
{
    const struct message_role_config none = {
        .n_uids = 1,
        .uids = {UINT32_MAX},
        .n_gids = 1,
        .gids = {UINT32_MAX},
    };

    judge(&none, UINT32_MAX, UINT32_MAX, false, false);
    judge(&none, 1000, UINT32_MAX, false, false);
    judge(&none, 0, UINT32_MAX, true, true);
}

Test(front_access, no_groups)
{
    bool allowed = true, admin = true;

    access_judge(&config, 7, NULL, 0, &allowed, &admin);
    cr_assert(!allowed && !admin);
}

// The credentials of a socketpair are those of who made it.
static void identify_in_child(uid_t uid, gid_t gid, const gid_t *groups, size_t n_groups,
                              bool allowed, bool admin)
{
    if (geteuid() != 0)
        cr_skip_test("only root can become other users");
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        struct access_peer peer;
        int pair[2];
        bool ok = setgroups(n_groups, groups) == 0 && setresgid(gid, gid, gid) == 0 &&
                  setresuid(uid, uid, uid) == 0 &&
                  socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0 &&
                  access_identify(pair[0], &config, &peer) == 0 && peer.uid == uid &&
                  peer.pid == (uint32_t)getpid() && peer.allowed == allowed && peer.admin == admin;
        _exit(ok ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
}

Test(front_access, identify_primary_group)
{
    identify_in_child(2000, 500, NULL, 0, true, true);
    identify_in_child(2000, 501, NULL, 0, true, false);
    identify_in_child(2000, 502, NULL, 0, false, false);
    identify_in_child(1000, 502, NULL, 0, true, false);
}

Test(front_access, identify_supplementary_groups)
{
    identify_in_child(2000, 2000, (const gid_t[]){7, 501}, 2, true, false);
    identify_in_child(2000, 2000, (const gid_t[]){500}, 1, true, true);
    identify_in_child(2000, 2000, (const gid_t[]){7, 8}, 2, false, false);
}

// More groups than the first buffer holds.
Test(front_access, identify_many_groups)
{
    enum { MANY = 1000 };
    gid_t groups[MANY];

    for (gid_t i = 0; i < MANY; i++)
        groups[i] = 10000 + i;
    identify_in_child(2000, 2000, groups, MANY, false, false);
    groups[MANY - 1] = 501; // the kernel keeps them sorted: it comes first
    identify_in_child(2000, 2000, groups, MANY, true, false);
    for (gid_t i = 0; i < MANY; i++)
        groups[i] = 100 + i; // 501 is in the middle
    groups[400] = 5;         // and 500 is not
    identify_in_child(2000, 2000, groups, MANY, true, false);
}

Test(front_access, identify_what_is_no_socket)
{
    struct access_peer peer = {.uid = 77};
    int pipes[2];

    cr_assert_eq(pipe(pipes), 0);
    cr_assert_eq(access_identify(pipes[0], &config, &peer), -ENOTSOCK);
    cr_assert_eq(peer.uid, 77, "untouched on failure");
    close(pipes[0]);
    close(pipes[1]);
}
