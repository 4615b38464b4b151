// SPDX-License-Identifier: MIT
// Which lane the next bytes of a stream take. Knows the policy; software.h, submit.h and
// keystream.h do the work.
#ifndef CRYPTOD_CLIENT_LANE_H
#define CRYPTOD_CLIENT_LANE_H

#include "stream.h"

// Does the next bytes, n_bytes > 0 at most, in the lane that fits best just now; *ret_n: how many,
// at least one block. 0, or -EIO if OpenSSL failed.
int lane_crypt(struct cryptod_stream *stream, uint8_t *out, const uint8_t *in, size_t n_bytes,
               size_t *ret_n);

#endif
