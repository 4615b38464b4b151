// SPDX-License-Identifier: MIT
// JSON for programs. See json.h.
#include "json.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>

#include "status.h"

// json_object_object_add() takes the value over, NULL included.
void json_add_text(struct json_object *object, const char *name, const char *value)
{
    json_object_object_add(object, name, json_object_new_string(value));
}

void json_add_number(struct json_object *object, const char *name, uint64_t value)
{
    json_object_object_add(object, name, json_object_new_uint64(value));
}

void json_add_lanes(struct json_object *object, uint32_t lanes)
{
    struct json_object *array = json_object_new_array();

    for (unsigned lane = 0; lane < STATUS_LANES; lane++)
        if (lanes & CRYPTOD_LANE_BIT(lane))
            json_object_array_add(
                array, json_object_new_string(status_lane_name((enum cryptod_lane)lane)));
    json_object_object_add(object, "lanes", array);
}

int json_print(struct json_object *object)
{
    int r = puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY |
                                                            JSON_C_TO_STRING_NOSLASHESCAPE)) < 0
                ? -EIO
                : 0;
    json_object_put(object);
    return r;
}
