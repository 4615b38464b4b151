// SPDX-License-Identifier: MIT
// What the monitor, and so every role that it starts, may reach of the file system: Landlock, where
// the kernel has it.
#ifndef CRYPTOD_DAEMON_CONFINE_H
#define CRYPTOD_DAEMON_CONFINE_H

#include <stdbool.h>
#include <stddef.h>

struct confine_settings {
    const char *config_path;     // as given
    const char *socket;          // its directory is written to
    bool directory_made;         // for the socket, and is removed at the end
    const char *state_directory; // written to
};

// Once everything that needs more is open. Restricts the process and what it will start. Writes
// what was reached, in words, to ret (n bytes). Never fails: a kernel without Landlock restricts
// nothing, and the words say so.
void confine_monitor(const struct confine_settings *settings, char *ret, size_t n);

#endif
