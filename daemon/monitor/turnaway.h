// SPDX-License-Identifier: MIT
// Accepts clients and closes them at once, so that a client of a daemon that has given up need not
// wait for its timeout. Reads nothing from them.
#ifndef CRYPTOD_DAEMON_TURNAWAY_H
#define CRYPTOD_DAEMON_TURNAWAY_H

#include <event2/event.h>

struct turnaway;

// Idle at first. Both stay the caller's. 0 or a negative errno.
int turnaway_new(struct event_base *base, int listener_fd, struct turnaway **ret);
void turnaway_free(struct turnaway *turnaway); // NULL is allowed

// Begins, or goes on after a pause. When descriptors run out it pauses by itself.
void turnaway_begin(struct turnaway *turnaway);
void turnaway_end(struct turnaway *turnaway);

#endif
