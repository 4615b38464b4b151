// SPDX-License-Identifier: MIT
// Who a client is and what it may do: SO_PEERCRED and SO_PEERGROUPS of its connection against the
// configuration. The kernel recorded both when the client called connect(): what it has become
// since does not count.
#ifndef CRYPTOD_FRONT_ACCESS_H
#define CRYPTOD_FRONT_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "message.h"

struct access_peer {
    uint32_t uid;
    uint32_t pid;
    bool allowed; // may open a channel
    bool admin;   // may see other people's channels in the status; implies allowed
};

// Reads the credentials of a connected AF_UNIX socket and judges them. 0 or a negative errno.
int access_identify(int fd, const struct message_role_config *config, struct access_peer *ret);

// The judgement alone. groups[n_groups] must contain the primary group too.
void access_judge(const struct message_role_config *config, uint32_t uid, const gid_t *groups,
                  size_t n_groups, bool *ret_allowed, bool *ret_admin);

#endif
