// SPDX-License-Identifier: MIT
// A ChaCha20 stream used as ssh's chacha20-poly1305 does, each packet compared with OpenSSL.
// Every function here but the one that tells fails the test (Criterion) instead of returning an
// error.
#ifndef CRYPTOD_TESTS_SSH_PACKETS_H
#define CRYPTOD_TESTS_SSH_PACKETS_H

#include "cryptod.h"
#include "reference.h"

#define SSH_PACKETS_MOST (256u * 1024u) // bytes of a payload

struct ssh_packets {
    struct reference_random random;
    uint8_t key[ALGORITHM_KEY_MAX];
    bool encrypt;
    uint64_t number; // of the next packet
    cryptod_stream *stream;
    uint8_t *in, *out, *expected;
};

void ssh_packets_init(struct ssh_packets *packets, uint64_t number, bool encrypt);
void ssh_packets_fini(struct ssh_packets *packets);

// The next packet: 32 bytes of keystream at counter 0, then n_bytes at counter 1, in place or not,
// at any alignment.
void ssh_packets_send(struct ssh_packets *packets, size_t n_bytes);

// The same, but tells instead of failing: for forked children.
bool ssh_packets_send_is_right(struct ssh_packets *packets, size_t n_bytes);

// A new key; the numbers go on.
void ssh_packets_rekey(struct ssh_packets *packets);

// Packets of n_bytes until the stream is in its lane.
void ssh_packets_enter_lane(struct ssh_packets *packets, size_t n_bytes);

#endif
