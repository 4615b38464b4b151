// SPDX-License-Identifier: MIT
// The request lane: pieces of up to 64 KiB into the ring, results back.
//
// Guarantees: the caller's output is written only with finished pieces, in order, so after any
// trouble the input of the rest is intact, in place too. A successful request takes at most one
// write() and one read(), and no look at the clock.
#ifndef CRYPTOD_CLIENT_SUBMIT_H
#define CRYPTOD_CLIENT_SUBMIT_H

#include "session.h"

struct submit_job {
    uint32_t stream;
    enum algorithm_mode mode; // CBC or CTR
    uint32_t n_block;         // of the block cipher
    bool encrypt;
    uint8_t iv[ALGORITHM_IV_LEN_MAX]; // goes along with out, in and n_bytes
    uint8_t *out;
    const uint8_t *in;
    size_t n_bytes; // left; a multiple of n_block
};

// Does the job, or as much of its beginning as goes well: what is left in it is the caller's to do.
// The ring is ready. 0; -ETIMEDOUT: a deadline passed; -EPIPE: the channel is lost; else what the
// engine said.
int submit_run(struct session *session, struct submit_job *job);

#endif
