// SPDX-License-Identifier: MIT
// The way to the daemon before a sandbox: where its socket is, and answers within a time.
// Knows nothing of channels.
#ifndef CRYPTOD_CLIENT_WIRE_H
#define CRYPTOD_CLIENT_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "message.h"

#define WIRE_PATH_SIZE 108 // sizeof sun_path

// path, or for NULL $CRYPTOD_SOCKET (not for setuid programs), or the default, into ret_path.
// 0, or -ENAMETOOLONG.
int wire_find_path(const char *path, char ret_path[WIRE_PATH_SIZE]);

// A connection to path that never blocks; *ret_fd is the caller's. 0; -ETIMEDOUT: the daemon's
// queue is full; or another negative errno.
int wire_connect(const char *path, int *ret_fd);

// Sends a question (packet_send()). -ECONNRESET, or the errno of the reason that the daemon gave:
// it has closed; or another negative errno.
int wire_ask(int fd, const struct message *question, const int *fds, size_t n_fds);

// The next message of the daemon, waited for until until_ms of clock_now_ms(). 0; -ETIMEDOUT;
// -ECONNRESET: the daemon closed; -EBADMSG: it broke the rules; -EDQUOT: it has no room for this
// connection; or another negative errno.
int wire_receive(int fd, uint64_t until_ms, struct message *ret);

// The errno that a refusal stands for. MESSAGE_OK: 0.
int wire_reason_error(uint32_t reason);

#endif
