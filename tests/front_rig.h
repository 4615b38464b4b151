// SPDX-License-Identifier: MIT
// A front inside the test, over socketpairs: the test plays monitor, engine and clients, message by
// message. Every function fails the test (Criterion) instead of returning an error.
#ifndef CRYPTOD_TESTS_FRONT_RIG_H
#define CRYPTOD_TESTS_FRONT_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "front.h"
#include "message.h"

struct front_rig {
    struct front front;
    int monitor; // the test's ends
    int engine;  // -1 in software-only mode
};

// Small limits: 4 channels, 3 per uid, 2 streams a channel, 4 slots.
void front_rig_config(struct message_role_config *ret);

// listener_fd is the front's from then on; -1: none. config->mode decides whether there is an
// engine.
void front_rig_init(struct front_rig *rig, const struct message_role_config *config,
                    int listener_fd);
void front_rig_fini(struct front_rig *rig);

// Runs the front until it has nothing more to do.
void front_rig_turn(struct front_rig *rig);

// The same, for at most 5 s, until fd is readable.
void front_rig_turn_until_readable(struct front_rig *rig, int fd);

// All algorithms but the last are offered, in the request lane.
void front_rig_offer(struct front_rig *rig);

// A new client; the test's end, non-blocking.
int front_rig_connect(struct front_rig *rig);

// The front's side of the client that connected last.
struct client *front_rig_last_client(struct front_rig *rig);

// Sends; fds[n_fds] stay the test's. Runs the front.
void front_rig_send(struct front_rig *rig, int fd, const struct message *m, const int *fds,
                    size_t n_fds);

// HELLO with right memory and a right bell. *ret_bell (NULL: closed) is the test's end.
void front_rig_hello(struct front_rig *rig, int client, uint64_t serial, int *ret_bell);

void front_rig_stream_open(struct front_rig *rig, int client, uint64_t serial, uint32_t stream,
                           uint32_t algorithm);
void front_rig_stream_close(struct front_rig *rig, int client, uint32_t stream);
void front_rig_status(struct front_rig *rig, int client, uint64_t serial);

// The next message to the engine or the client must be of that type. Descriptors that come are
// closed, after they were counted against the table.
void front_rig_expect_engine(struct front_rig *rig, enum message_type type, struct message *ret);
void front_rig_expect_client(int client, enum message_type type, struct message *ret);
void front_rig_expect_nothing(int fd);

// The front has closed this client, and has sent nothing that was not read.
void front_rig_expect_closed(int client);

// What the engine says.
void front_rig_channel_reply(struct front_rig *rig, const struct message *add, uint32_t reason);
void front_rig_stream_reply(struct front_rig *rig, const struct message *open, uint32_t reason);
void front_rig_status_reply(struct front_rig *rig, const struct message *ask,
                            uint32_t n_algorithms);

// The same without the SUMMARY.
void front_rig_rows_reply(struct front_rig *rig, const struct message *ask, uint32_t n_algorithms);

// A client with an open channel: connect, HELLO, the engine's yes. *ret_channel (NULL: not wanted).
int front_rig_open(struct front_rig *rig, uint32_t *ret_channel);

#endif
