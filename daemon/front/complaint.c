// SPDX-License-Identifier: MIT
// One limit for all clients: a limit per client or uid would start anew with each connection.
#include "complaint.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

bool complaint_allow(struct complaint *complaint, int64_t second, uint64_t *ret_dropped)
{
    if (second != complaint->second) {
        complaint->second = second;
        complaint->n_lines = 0;
    }
    if (complaint->n_lines >= COMPLAINTS_PER_SECOND) {
        complaint->n_dropped++;
        return false;
    }
    complaint->n_lines++;
    *ret_dropped = complaint->n_dropped;
    complaint->n_dropped = 0;
    return true;
}

void complaint_write(struct complaint *complaint, enum log_level level, const char *format, ...)
{
    struct timespec now;
    uint64_t n_dropped;
    char text[384];
    va_list args;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!complaint_allow(complaint, now.tv_sec, &n_dropped))
        return;
    if (n_dropped > 0)
        log_write(level, "%llu lines about clients left out", (unsigned long long)n_dropped);
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    log_write(level, "%s", text);
}
