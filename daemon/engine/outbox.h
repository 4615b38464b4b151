// SPDX-License-Identifier: MIT
// Messages to front, in order, without ever waiting for it: what does not fit into the socket waits
// here. Main thread only.
#ifndef CRYPTOD_DAEMON_OUTBOX_H
#define CRYPTOD_DAEMON_OUTBOX_H

#include <event2/event_struct.h>
#include <stdint.h>

#include "message.h"

struct outbox_item;

struct outbox {
    int fd; // the caller's
    struct event writable;
    struct outbox_item *first;
    struct outbox_item *last;
    uint32_t n_items;
    void (*on_error)(void *user, int error);
    void *user;
};

// on_error: the socket is broken, or front does not read any more (-ENOBUFS); nothing is sent after
// it. 0 or a negative errno.
int outbox_init(struct outbox *outbox, struct event_base *base, int fd,
                void (*on_error)(void *user, int error), void *user);

// Only after an outbox_init() that succeeded. Forgets what waits.
void outbox_fini(struct outbox *outbox);

// Sends a message without descriptors, now or later.
void outbox_send(struct outbox *outbox, const struct message *m);

#endif
