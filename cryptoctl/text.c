// SPDX-License-Identifier: MIT
// Numbers and failures in words. Guarantees: bounded output, no locale surprises.
#include "cryptoctl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cryptod.h"

char *text_bytes(uint64_t n_bytes, char buffer[CRYPTOCTL_TEXT_LEN])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (n_bytes < 1024) {
        snprintf(buffer, CRYPTOCTL_TEXT_LEN, "%" PRIu64 " B", n_bytes);
        return buffer;
    }
    double value = (double)n_bytes / 1024;
    size_t unit = 0;
    while (value >= 1024 && unit < sizeof units / sizeof units[0] - 1) {
        value /= 1024;
        unit++;
    }
    snprintf(buffer, CRYPTOCTL_TEXT_LEN, "%.1f %s", value, units[unit]);
    return buffer;
}

char *text_seconds(uint64_t seconds, char buffer[CRYPTOCTL_TEXT_LEN])
{
    if (seconds < 120)
        snprintf(buffer, CRYPTOCTL_TEXT_LEN, "%" PRIu64 " s", seconds);
    else if (seconds < UINT64_C(120) * 60)
        snprintf(buffer, CRYPTOCTL_TEXT_LEN, "%" PRIu64 " min", seconds / 60);
    else if (seconds < UINT64_C(48) * 3600)
        snprintf(buffer, CRYPTOCTL_TEXT_LEN, "%" PRIu64 " h", seconds / 3600);
    else
        snprintf(buffer, CRYPTOCTL_TEXT_LEN, "%" PRIu64 " days", seconds / 86400);
    return buffer;
}

int report_unreachable(const struct cryptoctl_options *options, int error)
{
    const char *path = options->socket;
    if (path == NULL)
        path = secure_getenv("CRYPTOD_SOCKET");
    if (path == NULL)
        path = CRYPTOD_SOCKET;
    switch (error) {
    case -ENOENT:
    case -ECONNREFUSED:
        fprintf(stderr,
                "cryptod is not running (nobody listens at %s): programs use OpenSSL's own code.\n",
                path);
        return CRYPTOCTL_NOT_RUNNING;
    case -ETIMEDOUT:
    case -EAGAIN:
        fprintf(stderr,
                "cryptod does not answer at %s (stopped or overloaded): programs use OpenSSL's own "
                "code.\n",
                path);
        return CRYPTOCTL_FAILED;
    case -EACCES:
    case -EPERM:
        fprintf(stderr, "You may not connect to %s.\n", path);
        return CRYPTOCTL_FAILED;
    case -EDQUOT:
        fprintf(stderr,
                "cryptod at %s has too many connects of this user or of all, a second or at a time "
                "(limits of cryptod.conf(5)): programs use OpenSSL's own code meanwhile.\n",
                path);
        return CRYPTOCTL_FAILED;
    default:
        fprintf(stderr, "cryptod at %s gave no status: %s.\n", path, strerror(-error));
        return CRYPTOCTL_FAILED;
    }
}
