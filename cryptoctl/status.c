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
