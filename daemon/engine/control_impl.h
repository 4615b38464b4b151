// SPDX-License-Identifier: MIT
// The inside of the main loop, for control.c (loop), control_channel.c (channels and streams),
// control_status.c and control_calibration.c.
#ifndef CRYPTOD_DAEMON_CONTROL_IMPL_H
#define CRYPTOD_DAEMON_CONTROL_IMPL_H

#include <event2/event.h>
#include <event2/event_struct.h>

#include "calibration.h"
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

#define CONTROL_CALIBRATIONS 3u // threads of which all but the last may get lost in a driver

struct control_calibrating {
    struct calibration *thread; // of the next
    struct calibration *threads[CONTROL_CALIBRATIONS];
    uint32_t n_hung;     // the first of them
    struct event change; // activated by the thread
    struct event guard;  // pending while it runs
    struct event again;  // pending while there are rows that were too slow
    uint32_t n_again;    // times so far
    bool runs;
    bool given_up; // the last thread has not ended in time, nor since
    uint32_t n_rows;
    struct offer_row *rows[CALIBRATION_JOBS_MAX]; // in the order of the jobs
    uint32_t n_told;                              // progress
    uint64_t serial;                              // of front, if a client asked for it; else 0
    uint64_t waiting; // the same, of one that begins when this one has ended
};

struct control_watch {
    struct event busy; // activated by workers
    struct event look; // pending while a worker runs something
};

struct control_quota {
    struct event refused; // activated by workers
    struct event later;   // pending between that and the line in the log
    uint32_t uid;         // who was refused first; written by a worker, once until the next rearm
    enum quota_kind kind;
    int error;
    uint64_t n_logged;
};

struct control {
    struct message_role_config config;
    struct message_calibration_key key;
    struct offer *offer;
    struct worker_pool *pool;
    struct event_base *base;
    struct event from_front;
    struct event from_monitor;
    struct event fault;    // activated by workers
    struct event distrust; // the same
    struct event tend;     // pending while there are channels
    struct control_watch watch;
    struct outbox outbox;
    bool outbox_ready;
    int front_fd;
    int monitor_fd;
    struct control_channel *channels;
    uint32_t n_channels;
    int exit_status;
    struct control_calibrating calibrating;
    struct control_quota quota;
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

// Decides anew, and tells front what is offered.
void control_decide(struct control *control);

// control_calibration.c: front may ask for it (ENGINE_CALIBRATE); with offload = auto it begins by
// itself, for rows that have no table.
int control_calibration_init(struct control *control);
void control_calibration_fini(struct control *control);
void control_calibrate(struct control *control, const struct message *m);
void control_calibrate_missing(struct control *control);
// false: it hangs in a driver.
bool control_calibration_stop(struct control *control);

// control_trust.c: quarantines what has lost its trust.
void control_report_distrust(struct control *control);

// control_watch.c: looks after workers as long as they run something, replaces those that hang in a
// driver, and quarantines it.
int control_watch_init(struct control *control);
void control_watch_begin(struct control *control); // at a worker's call, in its thread
void control_watch_keys(struct control *control);  // a key was not set in time
// The driver of a row hangs in another thread than a worker's.
void control_watch_blame(struct control *control, const struct offer_row *row);

// control_status.c
void control_send_offer(struct control *control);
void control_send_status(struct control *control, uint64_t serial);

// control_quota.c: the limits of memory and requests, and the log of who meets them. init: after
// the pool is made and before it starts; 0 or a negative errno.
int control_quota_init(struct control *control);
void control_quota_set_limits(struct control *control); // those of control->config

#endif
