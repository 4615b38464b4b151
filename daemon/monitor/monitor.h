// SPDX-License-Identifier: MIT
// The monitor: configuration, start, supervision, systemd. Runs as root; reads nothing from
// clients.
#ifndef CRYPTOD_DAEMON_MONITOR_H
#define CRYPTOD_DAEMON_MONITOR_H

// Runs until SIGTERM or SIGINT. config_path: as config_load() takes it; stays the caller's. Returns
// the process's exit status: 0 after an orderly stop; 1 if it could not start, with one line in the
// log that says why.
int monitor_main(const char *config_path);

#endif
