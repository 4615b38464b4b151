// SPDX-License-Identifier: MIT
// The socket that clients connect to: systemd's, or made here. Accepts nobody.
#ifndef CRYPTOD_DAEMON_LISTENER_H
#define CRYPTOD_DAEMON_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define LISTENER_ERROR_MAX 256

struct listener {
    int fd;        // listening, non-blocking, CLOEXEC; the listener's
    bool bound;    // made here, so removed at the end
    bool made_dir; // so was its directory
    dev_t device;  // of the bound socket's file
    ino_t inode;
    char path[108];
};

#define LISTENER_EMPTY ((struct listener){.fd = -1})

// Takes the socket that systemd passed (sd_listen_fds(3)), else binds path: mode 0666 (who may use
// it is decided later, by credentials), its directory made if absent, a socket that nobody answers
// on removed. 0, or a negative errno with the reason in ret_error (LISTENER_ERROR_MAX bytes).
int listener_open(const char *path, struct listener *ret, char *ret_error);

// Closes it, removes what was made. Safe on an empty one.
void listener_close(struct listener *listener);

#endif
