// SPDX-License-Identifier: MIT
// Guarantees that a failure to reach systemd changes nothing else.
#include "notify.h"

#include <inttypes.h>
#include <systemd/sd-daemon.h>
#include <time.h>

void notify_ready(const char *status)
{
    (void)sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void notify_status(const char *status)
{
    (void)sd_notifyf(0, "STATUS=%s", status);
}

void notify_reloading(void)
{
    struct timespec now;

    // systemd 253 and later (Type=notify-reload) want the time with it.
    clock_gettime(CLOCK_MONOTONIC, &now);
    (void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
                     (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
}

void notify_stopping(void)
{
    (void)sd_notify(0, "STOPPING=1");
}

void notify_watchdog(void)
{
    (void)sd_notify(0, "WATCHDOG=1");
}

uint64_t notify_watchdog_interval_us(void)
{
    uint64_t limit_us;

    return sd_watchdog_enabled(0, &limit_us) > 0 ? limit_us / 2 : 0;
}
