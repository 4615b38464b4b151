// SPDX-License-Identifier: MIT
// The listening socket: accepts clients, and rests while the process or the machine is out of
// descriptors.
#ifndef CRYPTOD_FRONT_ACCEPTOR_H
#define CRYPTOD_FRONT_ACCEPTOR_H

#include <event2/event_struct.h>
#include <stdint.h>

struct front;

struct acceptor {
    struct front *front;
    int fd; // owned; -1: none
    struct event event;
    struct event resume_timer; // pending while the acceptor rests
    int64_t said_s;            // CLOCK_MONOTONIC when the log was told of a rest; 0: not yet
};

// Takes fd, on failure too. Does not accept yet. 0 or a negative errno.
int acceptor_init(struct acceptor *acceptor, struct front *front, int fd);
void acceptor_fini(struct acceptor *acceptor);

// Accepts from now on. 0 or a negative errno.
int acceptor_start(struct acceptor *acceptor);

// A descriptor has become free: do not rest any longer.
void acceptor_wake(struct acceptor *acceptor);

#endif
