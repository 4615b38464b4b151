// SPDX-License-Identifier: MIT
// The configured list of drivers that are never used. Pure.
#ifndef CRYPTOD_DAEMON_DENY_LIST_H
#define CRYPTOD_DAEMON_DENY_LIST_H

#include <stdbool.h>

// Whether name is one of the names in list, which are separated by single spaces. The empty name is
// none.
bool deny_list_has(const char *list, const char *name);

#endif
