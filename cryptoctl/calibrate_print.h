// SPDX-License-Identifier: MIT
// The two ways to print a calibration, and its progress.
#ifndef CRYPTOCTL_CALIBRATE_PRINT_H
#define CRYPTOCTL_CALIBRATE_PRINT_H

#include "cryptoctl.h"
#include "cryptod.h"

// Both: 0 or a negative errno.
int calibrate_print_json(const struct cryptod_calibration *calibration);
int calibrate_print_tables(const struct cryptod_calibration *calibration);

#endif
