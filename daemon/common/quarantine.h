// SPDX-License-Identifier: MIT
// The list of what must not be used, as the monitor keeps it for the next engine: pairs "DRIVER
// ALGORITHM" of what gave wrong results in use, and "DRIVER hangs", all separated by one space
// (message_role_config.quarantined). Pure.
#ifndef CRYPTOD_DAEMON_QUARANTINE_H
#define CRYPTOD_DAEMON_QUARANTINE_H

#include <stdbool.h>
#include <stddef.h>

#define QUARANTINE_NAME_MAX 64u     // bytes, as message_quarantine.driver
#define QUARANTINE_HANGS    "hangs" // in the place of an algorithm: all of them

// A driver's name as it stands in the list: never empty ("-"), and without blanks.
void quarantine_make_name(const char *driver, char ret[QUARANTINE_NAME_MAX]);

// Whether the driver (its own name) is in the list with that algorithm.
bool quarantine_has(const char *list, const char *driver, const char *algorithm);

// Adds a pair to the list of at most n_list bytes; one that is there is not added again. 0;
// -EINVAL: not a name as quarantine_make_name() makes them; -ENOSPC.
int quarantine_add(char *list, size_t n_list, const char *name, const char *algorithm);

// The names of drivers that hang, separated by one space; n_ret: at least the list's own size.
void quarantine_get_hung(const char *list, char *ret, size_t n_ret);

#endif
