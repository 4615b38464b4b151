// SPDX-License-Identifier: MIT
// The keystream lane: the daemon makes a stream's keystream ahead, the session only XORs.
//
// Guarantees: no system call while the window is filled and at most half of it free; at most one
// bell a batch of requests; the caller's output is written only with finished bytes, in order.
#ifndef CRYPTOD_CLIENT_KEYSTREAM_H
#define CRYPTOD_CLIENT_KEYSTREAM_H

#include "session.h"
#include "stream.h"

// Does the beginning of n_bytes > 0, as far as there is keystream, and asks for more of it. The
// ring is ready and the stream's key with the daemon.
// *ret_n: bytes done. 0, and *ret_n_software: how many of the rest are for software before the lane
// has something again; -EIO: the engine failed; -EUSERS: it has no room for the key; -ETIMEDOUT: a
// deadline passed; -EPIPE: the channel is lost.
int keystream_crypt(struct session *session, struct cryptod_stream *stream, uint8_t *out,
                    const uint8_t *in, size_t n_bytes, size_t *ret_n, size_t *ret_n_software);

#endif
