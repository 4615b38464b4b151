// SPDX-License-Identifier: MIT
// A calibration as one JSON object, for programs. Sizes are bytes, times nanoseconds; what was not
// measured is null.
#include <errno.h>
#include <json-c/json.h>

#include "calibrate_print.h"
#include "json.h"
#include "status.h"

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
    json_add_text(object, "algorithm", row->algorithm);
    json_add_text(object, "backend", row->backend);
    json_add_text(object, "driver", row->driver);
    json_add_text(object, "state", status_state_name(row->state));
    json_add_lanes(object, row->lanes);
    json_add_number(object, "request_min", row->request_min);
    add_cost(object, "software", &row->software);
    add_cost(object, "request", &row->request);
    add_cost(object, "keystream", &row->keystream);
    add_cost(object, "take", &row->take);
    json_add_text(object, "text", row->text);
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
    json_add_number(object, "wake_ns", calibration->wake_ns);
    struct json_object *rows = json_object_new_array();
    for (size_t i = 0; i < calibration->n_rows; i++)
        json_object_array_add(rows, row_object(&calibration->rows[i]));
    json_object_object_add(object, "rows", rows);
    return json_print(object);
}
