// SPDX-License-Identifier: MIT
// One role process as the monitor sees it: its descriptor, whether it is ready, whether it still
// answers.
#ifndef CRYPTOD_DAEMON_CHILD_H
#define CRYPTOD_DAEMON_CHILD_H

#include <event2/event.h>

#include "spawn.h"

struct calibration_store;
struct quarantine_store;
struct child;

struct child_handlers {
    void (*ready)(struct child *child, void *user);
    // It cannot be used any more; why: one line, e.g. "killed by signal 9 (Killed)". exited: it
    // ended by itself. The handler frees the child, or a later one does.
    void (*failed)(struct child *child, const char *why, bool exited, void *user);
    void *user;
};

struct child_settings {
    struct event_base *base;
    int program_fd;
    int peer_fd;                         // -1: none; stays the caller's, as does the next
    int listener_fd;                     // -1: none
    struct quarantine_store *quarantine; // for the engine, and its findings; the caller's
    uint32_t ping_limit;
    uint32_t start_limit;            // like ping_limit, but until it is ready
    uint32_t trial_limit;            // the same, until a driver comes back from its trial
    struct calibration_store *store; // what it may know and change of it; NULL: nothing
    // What it is told besides, NULL for nothing; an empty topic ends them. The caller's; may
    // change.
    const struct message_status_note *notes;
};

// Starts the role and sends it config, notes, and what is in the store. 0 or a negative errno.
int child_start(enum config_role role, const struct child_settings *settings,
                const struct message_role_config *config, const struct child_handlers *handlers,
                struct child **ret);

// Kills the process if it lives, and forgets it without waiting. No handler is called. NULL is
// allowed.
void child_free(struct child *child);

// Closes the descriptor, which tells the process to end by itself.
void child_dismiss(struct child *child);
void child_kill(struct child *child);

// Sends a new configuration, as soon as there is room.
void child_configure(struct child *child, const struct message_role_config *config,
                     uint32_t ping_limit);

// To be called at every ping interval. Pings are counted, not time: a monitor that was itself
// stopped or suspended sends none meanwhile, so it finds nobody guilty afterwards.
void child_tick(struct child *child);

// To be called for each reaped process: true if it was this one; then the child has failed or
// ended.
bool child_take_exit(struct child *child, pid_t pid, int status);

enum config_role child_role(const struct child *child);
bool child_is_ready(const struct child *child);

#endif
