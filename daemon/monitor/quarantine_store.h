// SPDX-License-Identifier: MIT
// What the monitor knows of drivers that must not be used: the list for the engines
// (quarantine.h). Drivers that hang are kept in a file as well, until the machine is started anew:
// a daemon that tried them again would lose another process to them, for good.
#ifndef CRYPTOD_DAEMON_QUARANTINE_STORE_H
#define CRYPTOD_DAEMON_QUARANTINE_STORE_H

#include "message.h"

// The kernel's number of this start, and then a driver a line. To be removed by whoever has mended
// a driver without a new start.
#define QUARANTINE_STORE_NAME "hung-drivers"

struct quarantine_store;

// Reads the file in the directory at path, unless it is of an earlier start. 0 or -ENOMEM; trouble
// with the file is logged and costs only what it said.
int quarantine_store_new(const char *path, struct quarantine_store **ret);

// NULL is allowed.
void quarantine_store_free(struct quarantine_store *store);

// As message_role_config.quarantined. Stays the store's.
const char *quarantine_store_list(const struct quarantine_store *store);

// Of kind WRONG or HANGS. 0; -EINVAL: no such algorithm, or no name; -ENOSPC.
int quarantine_store_add(struct quarantine_store *store, const struct message_quarantine *what);

#endif
