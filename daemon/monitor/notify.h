// SPDX-License-Identifier: MIT
// What systemd is told (sd_notify(3)). Does nothing where there is no systemd.
#ifndef CRYPTOD_DAEMON_NOTIFY_H
#define CRYPTOD_DAEMON_NOTIFY_H

#include <stdint.h>

// The service is up; status is for people.
void notify_ready(const char *status);

void notify_status(const char *status);

// Before a reload; notify_ready() ends it.
void notify_reloading(void);

void notify_stopping(void);

// The watchdog's sign of life, and how often it is due, in microseconds (0: no watchdog).
void notify_watchdog(void);
uint64_t notify_watchdog_interval_us(void);

#endif
