// SPDX-License-Identifier: MIT
// `cryptoctl status`: the choice between people and programs, and the names that both print.
#include "status.h"

#include <errno.h>
#include <stdio.h>

const char *status_state_name(enum cryptod_state state)
{
    switch (state) {
    case CRYPTOD_STATE_OFFERED:
        return "offered";
    case CRYPTOD_STATE_DECLINED:
        return "declined";
    case CRYPTOD_STATE_ABSENT:
        return "absent";
    case CRYPTOD_STATE_QUARANTINED:
        return "quarantined";
    case CRYPTOD_STATE_DENIED:
        return "denied";
    }
    return "unknown";
}

const char *status_lane_name(enum cryptod_lane lane)
{
    switch (lane) {
    case CRYPTOD_LANE_SOFTWARE:
        return "software";
    case CRYPTOD_LANE_REQUEST:
        return "request";
    case CRYPTOD_LANE_KEYSTREAM:
        return "keystream";
    }
    return "unknown";
}

char *status_lanes_text(uint32_t lanes, char *buffer, size_t n_buffer)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (unsigned lane = 0; lane < STATUS_LANES; lane++) {
        if (!(lanes & CRYPTOD_LANE_BIT(lane)) || used >= n_buffer)
            continue;
        int n = snprintf(buffer + used, n_buffer - used, "%s%s", used > 0 ? "," : "",
                         status_lane_name((enum cryptod_lane)lane));
        used += n > 0 ? (size_t)n : 0;
    }
    if (used == 0)
        snprintf(buffer, n_buffer, "-");
    return buffer;
}

const char *status_mode_name(const struct cryptod_status *status)
{
    return status->software_only ? "software only" : "serving";
}

int status_run(const struct cryptoctl_options *options)
{
    struct cryptod_status *status = NULL;
    int r = cryptod_status_get(options->socket, CRYPTOCTL_TIMEOUT_MS, &status);
    if (r < 0)
        return report_unreachable(options, r);
    r = options->json ? status_print_json(status) : status_print_tables(status);
    cryptod_status_free(status);
    if (r < 0) {
        fputs("cryptoctl: cannot print\n", stderr);
        return CRYPTOCTL_FAILED;
    }
    return 0;
}
