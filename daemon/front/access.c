// SPDX-License-Identifier: MIT
// A client without the right still gets STATUS, so an answer here is never an error.
#include "access.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59 // since Linux 4.13; glibc's headers lag on some architectures
#endif

#define GROUPS_FIRST 64u    // enough for nearly everybody
#define GROUPS_MAX   65536u // NGROUPS_MAX of the kernel

// The monitor's word for "there is no such group", and the kernel's for "no credentials": never
// equal.
#define ID_NONE UINT32_MAX

static bool group_in(const gid_t *groups, size_t n_groups, uint32_t gid)
{
    for (size_t i = 0; i < n_groups; i++) {
        if (groups[i] == gid && gid != ID_NONE)
            return true;
    }
    return false;
}

void access_judge(const struct message_role_config *config, uint32_t uid, const gid_t *groups,
                  size_t n_groups, bool *ret_allowed, bool *ret_admin)
{
    bool admin = uid == 0 || (config->n_gids > 0 && group_in(groups, n_groups, config->gids[0]));
    bool allowed = admin;

    for (uint32_t i = 0; i < MESSAGE_IDS_MAX && !allowed; i++) {
        allowed = (i < config->n_uids && config->uids[i] == uid && uid != ID_NONE) ||
                  (i < config->n_gids && group_in(groups, n_groups, config->gids[i]));
    }
    *ret_allowed = allowed;
    *ret_admin = admin;
}

// All groups of the peer, the primary one last. *ret is the caller's to free.
static int groups_read(int fd, gid_t primary, gid_t **ret, size_t *ret_n)
{
    socklen_t n_bytes = GROUPS_FIRST * sizeof(gid_t);
    gid_t *groups = malloc(n_bytes + sizeof(gid_t));
    if (groups == NULL)
        return -ENOMEM;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &n_bytes) < 0) {
        int error = errno;
        free(groups);
        if (error != ERANGE || n_bytes > GROUPS_MAX * sizeof(gid_t))
            return -error;
        groups = malloc(n_bytes + sizeof(gid_t)); // the kernel has said how many
        if (groups == NULL)
            return -ENOMEM;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &n_bytes) < 0) {
            error = errno;
            free(groups);
            return -error;
        }
    }
    groups[n_bytes / sizeof(gid_t)] = primary;
    *ret = groups;
    *ret_n = n_bytes / sizeof(gid_t) + 1;
    return 0;
}

int access_identify(int fd, const struct message_role_config *config, struct access_peer *ret)
{
    struct ucred cred;
    socklen_t n_cred = sizeof(cred);
    gid_t *groups = NULL;
    size_t n_groups = 0;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n_cred) < 0)
        return -errno;
    int r = groups_read(fd, cred.gid, &groups, &n_groups);
    if (r < 0)
        return r;
    struct access_peer peer = {.uid = cred.uid, .pid = (uint32_t)cred.pid};
    access_judge(config, peer.uid, groups, n_groups, &peer.allowed, &peer.admin);
    free(groups);
    *ret = peer;
    return 0;
}
