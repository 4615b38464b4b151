// SPDX-License-Identifier: MIT
// What front and engine share: how a re-executed role starts, and the descriptors that it finds.
#ifndef CRYPTOD_DAEMON_ROLE_H
#define CRYPTOD_DAEMON_ROLE_H

#include "message.h"

// The monitor executes /proc/self/exe with `--role front` or `--role engine` and exactly these
// descriptors.
enum role_fd {
    ROLE_FD_MONITOR = 3, // SOCK_SEQPACKET to the monitor; end of file: exit
    ROLE_FD_PEER = 4, // SOCK_SEQPACKET between front and engine; front without an engine: not open
    ROLE_FD_LISTENER = 5, // front only: the listening socket of the clients
};

enum config_offload {
    CONFIG_OFFLOAD_AUTO,   // offer what was measured to win
    CONFIG_OFFLOAD_ALWAYS, // offer everything that works (tests, demo)
    CONFIG_OFFLOAD_OFF,    // offer nothing
};

#define CONFIG_BACKEND_AFALG 1u
#define CONFIG_BACKEND_CPU   2u
#define CONFIG_BACKEND_FAULT 4u
#define CONFIG_BACKEND_COUNT 3u
// message_role_config.backends: the bits that are in use, and from bit 8 on, four bits each, in
// which order they are preferred. The i-th of them as a CONFIG_BACKEND_* bit, 0 after the last.
#define CONFIG_BACKEND_AT(backends, i) (((backends) >> (8u + 4u * (i))) & 0xfu)

// Both return the process's exit status; they end when the monitor's descriptor ends.
int front_main(void);
int engine_main(void);

// Reads ROLE_CONFIG from ROLE_FD_MONITOR (blocking, within 10 s), closes every descriptor from
// `first_free` on.
int role_receive_config(int first_free, struct message_role_config *ret);

// The next message of the monitor (blocking, within 10 s). 0 or a negative errno.
int role_receive_message(struct message *ret);

// A message to the monitor, which waits for it if there is no room. 0 or a negative errno.
int role_send(const struct message *m);

// Tells the monitor that the role serves.
int role_send_ready(void);

#endif
