// SPDX-License-Identifier: MIT
// STREAM_OPEN and STREAM_CLOSE of a client with a channel. The key lies in the shared memory: it
// never comes here.
#ifndef CRYPTOD_FRONT_CLIENT_STREAM_H
#define CRYPTOD_FRONT_CLIENT_STREAM_H

#include "client.h"

enum verdict client_stream_handle_open(struct client *client, const struct message *m,
                                       int fds[MESSAGE_FDS_MAX]);
enum verdict client_stream_handle_close(struct client *client, const struct message *m,
                                        int fds[MESSAGE_FDS_MAX]);

// The engine's ENGINE_REPLY.
void client_stream_on_reply(struct front *front, const struct message *m);

#endif
