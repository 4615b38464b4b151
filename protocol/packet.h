// SPDX-License-Identifier: MIT
// One message as one packet on a connected AF_UNIX SOCK_SEQPACKET socket, with its descriptors
// (SCM_RIGHTS). Guarantees: exact length, exact descriptor count; descriptors that came with a
// packet that is refused are closed; received descriptors are CLOEXEC. Knows nothing of what the
// messages mean.
#ifndef CRYPTOD_PROTOCOL_PACKET_H
#define CRYPTOD_PROTOCOL_PACKET_H

#include "message.h"

// Sends m with fds[n_fds]; n_fds must be what the table says. The descriptors stay the caller's.
// 0, -EAGAIN (would block), or another negative errno. Uses sendmsg(MSG_NOSIGNAL): not after a
// sandbox.
int packet_send(int fd, const struct message *m, const int *fds, size_t n_fds);

// The same with write() alone, for messages without descriptors: safe in sshd's sandbox. A
// SOCK_SEQPACKET socket raises no SIGPIPE (net/unix/af_unix.c: only the stream type does).
int packet_write(int fd, const struct message *m);

// What packet_recv() says of a message whose descriptors, or some of them, the kernel could not
// give this process, for its descriptor limit or a security module's policy. Its sender has done
// nothing wrong. Only of messages that have descriptors.
#define PACKET_FDS_LOST 1

// Receives one message. ret_fds[MESSAGE_FDS_MAX] gets its descriptors (-1 where there is none),
// which are the caller's from then on. 0; PACKET_FDS_LOST: the message is right, and all of its
// descriptors are -1; -EAGAIN; -ENODATA at end of file; -EBADMSG for a
// violation (truncated, wrong length, wrong descriptor count, control data cut off, an empty packet
// on a socket that is still open); or another negative errno. System calls: recvmsg, and close for
// descriptors that are refused.
int packet_recv(int fd, enum message_direction direction, struct message *ret,
                int ret_fds[MESSAGE_FDS_MAX]);

// The same with read() alone: descriptors, if any came, are dropped by the kernel. Safe in sshd's
// sandbox.
int packet_read(int fd, enum message_direction direction, struct message *ret);

// A non-blocking or blocking connected socket to the daemon's listening socket at path. Never
// blocks on a full backlog: -EAGAIN then. *ret_fd is CLOEXEC and O_NONBLOCK. 0 or a negative errno.
int packet_connect(const char *path, int *ret_fd);

#endif
