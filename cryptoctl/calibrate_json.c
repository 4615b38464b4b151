// SPDX-License-Identifier: MIT
// A calibration as one JSON object, for programs. Sizes are bytes, times nanoseconds; what was not
// measured is null.
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>

#include "calibrate_print.h"
#include "status.h"

static void add_text(struct json_object *object, const char *name, const char *value)
{
    json_object_object_add(object, name, json_object_new_string(value));
}

static struct json_object *times_array(const uint64_t *times)
{
    struct json_object *array = json_object_new_array();
    for (unsigned i = 0; i < CRYPTOD_CALIBRATION_SIZES; i++)
        json_object_array_add(
            array, times[i] == CRYPTOD_NOT_MEASURED ? NULL : json_object_new_uint64(times[i]));
    return array;
}

static void add_cost(struct json_object *object, const char *name,
                     const struct cryptod_calibration_cost *cost)
{
    struct json_object *both = json_object_new_object();
    json_object_object_add(both, "ns", times_array(cost->ns));
    json_object_object_add(both, "cpu_ns", times_array(cost->cpu_ns));
    json_object_object_add(object, name, both);
}

static struct json_object *row_object(const struct cryptod_calibration_row *row)
{
    struct json_object *object = json_object_new_object();
    add_text(object, "algorithm", row->algorithm);
    add_text(object, "backend", row->backend);
    add_text(object, "driver", row->driver);
    add_text(object, "state", status_state_name(row->state));
    struct json_object *lanes = json_object_new_array();
    for (unsigned lane = 0; lane < STATUS_LANES; lane++)
        if (row->lanes & CRYPTOD_LANE_BIT(lane))
            json_object_array_add(
                lanes, json_object_new_string(status_lane_name((enum cryptod_lane)lane)));
    json_object_object_add(object, "lanes", lanes);
    json_object_object_add(object, "request_min", json_object_new_uint64(row->request_min));
    add_cost(object, "software", &row->software);
    add_cost(object, "request", &row->request);
    add_cost(object, "keystream", &row->keystream);
    add_cost(object, "take", &row->take);
    add_text(object, "text", row->text);
    return object;
}

int calibrate_print_json(const struct cryptod_calibration *calibration)
{
    struct json_object *object = json_object_new_object();
    if (object == NULL)
        return -ENOMEM;
    struct json_object *sizes = json_object_new_array();
    for (unsigned i = 0; i < CRYPTOD_CALIBRATION_SIZES; i++)
        json_object_array_add(sizes, json_object_new_uint64(CRYPTOD_CALIBRATION_SIZE(i)));
    json_object_object_add(object, "sizes", sizes);
    json_object_object_add(object, "wake_ns", json_object_new_uint64(calibration->wake_ns));
    struct json_object *rows = json_object_new_array();
    for (size_t i = 0; i < calibration->n_rows; i++)
        json_object_array_add(rows, row_object(&calibration->rows[i]));
    json_object_object_add(object, "rows", rows);
    int r = puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY |
                                                            JSON_C_TO_STRING_NOSLASHESCAPE)) < 0
                ? -EIO
                : 0;
    json_object_put(object);
    return r;
}
