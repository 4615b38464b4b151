// SPDX-License-Identifier: MIT
// The other side of a session, for measuring: another thread, which answers a bell, or writes
// memory. Knows no backend, so it never hangs in one.
#ifndef CRYPTOD_DAEMON_MEASURE_PEER_H
#define CRYPTOD_DAEMON_MEASURE_PEER_H

#include <stddef.h>
#include <stdint.h>

struct measure_wake {
    uint64_t ns; // there and back: the usual time, not the best one, which no session can count on
    uint64_t cpu_ns; // of both sides
};

// What it costs to wake another thread and to be woken by it, over both ends of a SOCK_SEQPACKET
// pair, blocking. Takes some 20 ms at most. 0 or a negative errno.
int measure_peer_wake(const int bell[2], struct measure_wake *ret);

// Has a new thread write n_bytes of data, and waits for its end: new threads begin on the CPU that
// has least to do, while one that is woken often runs where it was woken from. 0 or a negative
// errno.
int measure_peer_write(uint8_t *data, size_t n_bytes);

#endif
