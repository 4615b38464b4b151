// SPDX-License-Identifier: MIT
// HELLO: checks, quota, and the request to the engine for a channel.
#ifndef CRYPTOD_FRONT_HELLO_H
#define CRYPTOD_FRONT_HELLO_H

#include "client.h"

// fds[0] memfd, fds[1] bell. Takes those that it sets to -1.
enum verdict hello_handle(struct client *client, const struct message *m, int fds[MESSAGE_FDS_MAX]);

// The engine's CHANNEL_REPLY.
void hello_on_reply(struct front *front, const struct message *m);

// The engine's CHANNEL_FAULT: the client broke the rules of its ring.
void hello_on_fault(struct front *front, const struct message *m);

// 0 if fd is one end of a connected AF_UNIX SOCK_SEQPACKET pair that uid made; else a negative
// errno.
int hello_check_bell(int fd, uint32_t uid);

#endif
