// SPDX-License-Identifier: MIT
// Makes a role: a new process of this same program, with nothing of the monitor but three
// descriptors.
#ifndef CRYPTOD_DAEMON_SPAWN_H
#define CRYPTOD_DAEMON_SPAWN_H

#include <sys/types.h>

#include "config.h"

struct spawn_fds {
    int monitor; // each becomes the ROLE_FD_* of its name; -1: not open in the role
    int peer;
    int listener;
};

// Opens this program's own file, so that all roles are of one version even if it is replaced on
// disk meanwhile. 0 or a negative errno; *ret_fd is CLOEXEC and the caller's.
int spawn_open_program(int *ret_fd);

// Forks and executes program_fd as the role. The descriptors stay the caller's. The role dies with
// the caller. 0 or a negative errno; what fails in the new process ends it with status
// SPAWN_EXIT_FAILED and a log line.
int spawn_role(int program_fd, enum config_role role, const struct spawn_fds *fds, pid_t *ret_pid);

// "front" or "engine".
const char *spawn_role_name(enum config_role role);

#define SPAWN_EXIT_FAILED 125

#endif
