// SPDX-License-Identifier: MIT
// JSON for programs (json-c), the same everywhere. What has no memory prints as null.
#ifndef CRYPTOCTL_JSON_H
#define CRYPTOCTL_JSON_H

#include <stdint.h>

struct json_object;

void json_add_text(struct json_object *object, const char *name, const char *value);
void json_add_number(struct json_object *object, const char *name, uint64_t value);

// The names of CRYPTOD_LANE_BIT() bits, as an array "lanes".
void json_add_lanes(struct json_object *object, uint32_t lanes);

// Prints it, and frees it. 0 or -EIO.
int json_print(struct json_object *object);

#endif
