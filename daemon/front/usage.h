// SPDX-License-Identifier: MIT
// How much of the limits is used, for STATUS: what the front counts itself, and what the engine has
// said of the rest.
#ifndef CRYPTOD_FRONT_USAGE_H
#define CRYPTOD_FRONT_USAGE_H

#include <stddef.h>
#include <stdint.h>

#include "message.h"

struct front;

void usage_fill_limits(const struct front *front, uint64_t now_ns, struct message_limits *ret);

// A row for each uid that has anything, sorted. *ret is the caller's to free. 0 or -ENOMEM.
int usage_list_users(const struct front *front, uint64_t now_ns, struct message_status_user **ret,
                     uint32_t *ret_n);

#endif
