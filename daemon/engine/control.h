// SPDX-License-Identifier: MIT
// The engine's main loop: messages of front and of the monitor, and the channels that they add and
// remove. Front is checked again in everything that it says, as if a client had taken it over.
#ifndef CRYPTOD_DAEMON_CONTROL_H
#define CRYPTOD_DAEMON_CONTROL_H

#include "message.h"
#include "offer.h"
#include "worker.h"

struct control;

struct control_settings {
    const struct message_role_config *config;
    struct offer *offer;
    const struct message_calibration_key *key; // of this machine
    uint32_t n_workers;
    int front_fd; // the caller's, as monitor_fd; both are made non-blocking
    int monitor_fd;
};

// Makes everything that needs descriptors; no thread yet. 0 or a negative errno.
int control_new(const struct control_settings *settings, struct control **ret);

// Starts the workers. 0 or a negative errno.
int control_start(struct control *control);

// Sends the offer, and serves until front or the monitor is gone, or has broken the protocol. The
// exit status.
int control_run(struct control *control);

// Something about the engine that status tells admins. Before control_run().
void control_send_note(struct control *control, const char *topic, const char *text);

// Ends the workers. false: some hang, and the process must end without control_free().
bool control_stop(struct control *control);

// NULL is allowed.
void control_free(struct control *control);

#endif
