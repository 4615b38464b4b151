// SPDX-License-Identifier: MIT
// The link to the engine. It speaks in the front's own numbers: channel numbers and serials that it
// gives out.
//
// What does not fit into the socket waits in a queue, so that a busy engine delays its own answers
// only. Clients cannot grow the queue past a bound that follows from their limits (relay.c); more
// is a fault of our own and ends the front, as does the engine's end. The monitor then starts both
// again.
#ifndef CRYPTOD_FRONT_RELAY_H
#define CRYPTOD_FRONT_RELAY_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "message.h"

struct front;
struct relay_item;

STAILQ_HEAD(relay_queue, relay_item);

struct relay {
    struct front *front;
    int fd; // owned; -1: there is no engine
    struct event read_event;
    struct event write_event;
    struct relay_queue queue;
    uint32_t n_queued;
    uint64_t serial; // the last one given out; 0 is never given
};

// Takes fd, on failure too; -1: software only. 0 or a negative errno.
int relay_init(struct relay *relay, struct front *front, int fd);
void relay_fini(struct relay *relay);

bool relay_is_up(const struct relay *relay);

// Takes fds (memfd, bell), on failure too. 0 and the serial that the answer will carry, or a
// negative errno.
int relay_channel_add(struct relay *relay, const struct message_channel_add *add, int fds[2],
                      uint64_t *ret_serial);
int relay_stream_open(struct relay *relay, uint32_t channel, uint32_t stream, uint32_t algorithm,
                      uint64_t *ret_serial);
int relay_status(struct relay *relay, uint64_t *ret_serial);
int relay_calibrate(struct relay *relay, uint32_t measure, uint64_t *ret_serial);

// Without an answer. A failure ends the front: the engine would keep what it must give up.
void relay_channel_remove(struct relay *relay, uint32_t channel);
void relay_stream_close(struct relay *relay, uint32_t channel, uint32_t stream);

#endif
