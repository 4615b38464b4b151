// SPDX-License-Identifier: MIT
// The list of what gave wrong results in use, as the monitor keeps it for the next engine: pairs
// "DRIVER ALGORITHM", all separated by one space (message_role_config.quarantined). Pure.
#ifndef CRYPTOD_DAEMON_QUARANTINE_H
#define CRYPTOD_DAEMON_QUARANTINE_H

#include <stdbool.h>
#include <stddef.h>

#define QUARANTINE_NAME_MAX 64u // bytes, as message_quarantine.driver

// A driver's name as it stands in the list: never empty ("-"), and without blanks.
void quarantine_make_name(const char *driver, char ret[QUARANTINE_NAME_MAX]);

// Whether the driver (its own name) is in the list with that algorithm.
bool quarantine_has(const char *list, const char *driver, const char *algorithm);

// Adds a pair to the list of at most n_list bytes; one that is there is not added again. 0;
// -EINVAL: not a name as quarantine_make_name() makes them; -ENOSPC.
int quarantine_add(char *list, size_t n_list, const char *name, const char *algorithm);

#endif
