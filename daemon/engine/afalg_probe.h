// SPDX-License-Identifier: MIT
// What the kernel's crypto sockets can do for one algorithm on this machine, and if they cannot,
// why. Before the sandbox: it reads /proc.
#ifndef CRYPTOD_DAEMON_AFALG_PROBE_H
#define CRYPTOD_DAEMON_AFALG_PROBE_H

#include "backend.h"

#define AFALG_REQUEST_MAX 65536u // bytes; a larger send could wait for ever for room in the socket

// deny: names of drivers, or of the kernel's algorithms, separated by one space; they are not used.
// hung: the same, of drivers (ret->hangs). on_trial, user: as in backend_settings.
struct afalg_probe_settings {
    const char *deny;
    const char *hung;
    void (*on_trial)(void *user, enum algorithm_id algorithm, const char *driver);
    void *user;
};

void afalg_probe(const struct algorithm_info *info, const struct afalg_probe_settings *settings,
                 struct backend_probe *ret);

#endif
