// SPDX-License-Identifier: MIT
// Log lines about clients, limited in number per second, so that a flood of bad clients cannot fill
// the disk.
#ifndef CRYPTOD_FRONT_COMPLAINT_H
#define CRYPTOD_FRONT_COMPLAINT_H

#include <stdbool.h>
#include <stdint.h>

#include "log.h"

#define COMPLAINTS_PER_SECOND 20u

struct complaint {  // zeroed: nothing said yet
    int64_t second; // CLOCK_MONOTONIC second that n_lines counts for
    uint32_t n_lines;
    uint64_t n_dropped; // since the last line
};

// One log line, or none if this second has had enough. A line tells how many were left out before
// it.
void complaint_write(struct complaint *complaint, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Whether a line may be written at the time `second`; counts it either way.
bool complaint_allow(struct complaint *complaint, int64_t second, uint64_t *ret_dropped);

#endif
