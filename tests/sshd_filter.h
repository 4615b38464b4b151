// SPDX-License-Identifier: MIT
// A replica of what OpenSSH's sshd does to its process before it talks to an unknown client: the
// seccomp filter, the resource limits, the empty root and the unprivileged user. For tests of what
// has to work in there.
#ifndef CRYPTOD_TESTS_SSHD_FILTER_H
#define CRYPTOD_TESTS_SSHD_FILTER_H

#include <stdint.h>

enum sshd_filter_version {
    SSHD_FILTER_9_2,  // to 9.2
    SSHD_FILTER_9_9,  // 9.3 to 10.0
    SSHD_FILTER_10_1, // 10.1 and later
};
#define SSHD_FILTER_COUNT 3

const char *sshd_filter_name(enum sshd_filter_version version);

// chroot into a directory where nothing is, gid, uid, no supplementary groups. As root; before the
// filter. 0 or a negative errno.
int sshd_filter_demote(uint32_t uid, uint32_t gid);

// Limits and filter for the calling process, for good. From then on any call that is not on the
// list is death by SIGSYS. 0 or a negative errno.
int sshd_filter_apply(enum sshd_filter_version version);

#endif
