// SPDX-License-Identifier: MIT
// The input of counter mode (NIST SP 800-38A, 6.5): a row of 128-bit big-endian counter blocks.
#ifndef CRYPTOD_DAEMON_ECB_COUNTER_H
#define CRYPTOD_DAEMON_ECB_COUNTER_H

#include <stddef.h>
#include <stdint.h>

// Writes n_bytes (a multiple of 16) of counter blocks, the first equal to iv, each one greater than
// the one before, modulo 2^128.
void ecb_counter_fill(const uint8_t iv[16], uint8_t *out, size_t n_bytes);

#endif
