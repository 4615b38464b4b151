// SPDX-License-Identifier: MIT
// What a calibration holds for: this kernel, these CPUs, this OpenSSL.
#ifndef CRYPTOD_DAEMON_CALIBRATION_KEY_H
#define CRYPTOD_DAEMON_CALIBRATION_KEY_H

#include <stdbool.h>
#include <stdio.h>

#include "message.h"

// Reads uname(2), /proc/cpuinfo and OpenSSL's version: before the sandbox. What cannot be found out
// is "unknown".
void calibration_key_get(struct message_calibration_key *ret);

// The CPU's model from an open /proc/cpuinfo: its name, or what stands for one, and a number that
// changes with its features (the same name may come with and without AES instructions). n_ret: size
// of ret, at least 64.
void calibration_key_read_cpu(FILE *in, char *ret, size_t n_ret);

bool calibration_key_is_same(const struct message_calibration_key *a,
                             const struct message_calibration_key *b);

#endif
