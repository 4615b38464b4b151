// SPDX-License-Identifier: MIT
// Finding out what AF_ALG can do. Part of backend "afalg" (backend_afalg.c).
#ifndef CRYPTOD_DAEMON_AFALG_PROBE_H
#define CRYPTOD_DAEMON_AFALG_PROBE_H

#include "backend.h"

#define AFALG_REQUEST_MAX 65536u // bytes; a larger send could wait for ever for room in the socket

// Binds info->kernel_name, names its driver, honours the list of names `deny` (one space between),
// sets a key. Does no operation. The answer says what failed first.
void afalg_probe_run(const char *deny, const struct algorithm_info *info,
                     struct backend_probe *ret);

#endif
