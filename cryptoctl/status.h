// SPDX-License-Identifier: MIT
// The two ways to print a status.
#ifndef CRYPTOCTL_STATUS_H
#define CRYPTOCTL_STATUS_H

#include "cryptoctl.h"
#include "cryptod.h"

#define STATUS_LANES 3 // enum cryptod_lane

const char *status_state_name(enum cryptod_state state);
const char *status_lane_name(enum cryptod_lane lane);
char *status_lanes_text(uint32_t lanes, char *buffer, size_t n_buffer); // "request,keystream"
const char *status_mode_name(const struct cryptod_status *status);

// Of the tables: the limits with what is used of them, and the users'. 0 or a negative errno.
int status_print_limits(const struct cryptod_status *status);

// Both: 0 or a negative errno.
int status_print_json(const struct cryptod_status *status);
int status_print_tables(const struct cryptod_status *status);

#endif
