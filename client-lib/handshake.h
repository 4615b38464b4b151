// SPDX-License-Identifier: MIT
// Opening a channel: connection, shared memory, bell, HELLO and its answer. Makes every descriptor
// and mapping that the channel will ever use, so it is not for sandboxed processes. Calls neither
// OpenSSL nor malloc: it also runs in a fork handler.
#ifndef CRYPTOD_CLIENT_HANDSHAKE_H
#define CRYPTOD_CLIENT_HANDSHAKE_H

#include "message.h"
#include "shm.h"

#define HANDSHAKE_SLOTS   SHM_SLOTS_MAX // a daemon that allows fewer is asked for a quarter
#define HANDSHAKE_STREAMS 16u

struct handshake {
    int control; // SOCK_SEQPACKET to front, non-blocking
    int bell;    // SOCK_SEQPACKET to the engine; reads and writes wait for deadline_ms at most
    struct shm_map map;
    struct message_hello_reply reply; // deadline_ms and spin_us within reason
};

// Takes timeout_ms at most. 0, and everything in *ret is the caller's; or a negative errno as in
// cryptod_open().
int handshake_run(const char *path, unsigned timeout_ms, struct handshake *ret);

#endif
