// SPDX-License-Identifier: MIT
// The inside of the main loop, for control.c (loop), control_channel.c (channels and streams) and
// control_status.c.
#ifndef CRYPTOD_DAEMON_CONTROL_IMPL_H
#define CRYPTOD_DAEMON_CONTROL_IMPL_H

#include <event2/event.h>
#include <event2/event_struct.h>

#include "channel.h"
#include "control.h"
#include "outbox.h"

// Enough for any configuration; a front that adds more is broken.
#define CONTROL_CHANNELS_MAX 65536u

struct control_channel {
    struct control_channel *next;
    uint32_t number;
    struct channel *channel; // a reference
    struct worker_seat *seat;
};

struct control {
    struct message_role_config config;
    struct offer *offer;
    struct worker_pool *pool;
    struct event_base *base;
    struct event from_front;
    struct event from_monitor;
    struct event fault;    // activated by workers
    struct event distrust; // the same
    struct event tend;     // pending while there are channels
    struct outbox outbox;
    bool outbox_ready;
    int front_fd;
    int monitor_fd;
    struct control_channel *channels;
    uint32_t n_channels;
    int exit_status;
};

// Leaves the loop.
void control_exit(struct control *control, int status);

// control_channel.c: what front may say about channels. fds (memfd, bell) stay the caller's, except
// that control_add_channel() sets those that it took to -1.
void control_add_channel(struct control *control, const struct message *m, int fds[2]);
void control_remove_channel(struct control *control, const struct message *m);
void control_open_stream(struct control *control, const struct message *m);
void control_close_stream(struct control *control, const struct message *m);

// Looks for channels that have been idle, and comes again as long as there are channels.
void control_tend_channels(struct control *control);

// Tells front of channels that broke the rules, and lets go of them.
void control_report_faults(struct control *control);
void control_remove_all(struct control *control);

// control_trust.c: quarantines what has lost its trust.
void control_report_distrust(struct control *control);

// control_status.c
void control_send_offer(struct control *control);
void control_send_status(struct control *control, uint64_t serial);

#endif
