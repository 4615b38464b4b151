// SPDX-License-Identifier: MIT
// Keeps front and engine alive: starts them, watches them, and starts both again when one fails.
//
//      FULL      front and engine
//        | 5 failures within a minute
//      SOFTWARE  front alone, which refuses every channel and tells why
//        | 5 failures within a minute
//      CLOSED    no role; clients are accepted and closed at once, so that none of them waits
//
// A reload leads back to FULL. Single-threaded; everything happens in the event loop; nothing waits
// for a process.
#ifndef CRYPTOD_DAEMON_SUPERVISE_H
#define CRYPTOD_DAEMON_SUPERVISE_H

#include <event2/event.h>

#include "config.h"

struct calibration_store;
struct quarantine_store;
struct supervisor;

struct supervisor_settings {
    struct event_base *base; // stays the caller's, as do both descriptors
    int program_fd;          // spawn_open_program()
    int listener_fd;
    struct calibration_store *store; // the caller's, as the next
    struct quarantine_store *quarantine;
    const struct message_status_note *notes; // for front; an empty topic ends them; the caller's
};

// Makes it and starts the roles. config is copied. 0 or a negative errno.
int supervisor_new(const struct supervisor_settings *settings, const struct config *config,
                   struct supervisor **ret);

// After supervisor_stop() and the end of the loop. NULL is allowed.
void supervisor_free(struct supervisor *supervisor);

// A new configuration, and notes, for the roles that run and those that will be started.
void supervisor_reload(struct supervisor *supervisor, const struct config *config);

// Call at SIGCHLD: reaps.
void supervisor_reap(struct supervisor *supervisor);

// Ends the roles, then the event loop: at the latest after a few seconds, even if one of them
// cannot be killed.
void supervisor_stop(struct supervisor *supervisor);

// Whether a role refused to start at all the first time, which ends the event loop.
bool supervisor_has_failed(const struct supervisor *supervisor);

// The state in words, for notify_ready() after a reload. Stays the supervisor's.
const char *supervisor_status(const struct supervisor *supervisor);

#endif
