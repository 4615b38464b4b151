// SPDX-License-Identifier: MIT
// The status as one JSON object, for programs. Names are those of cryptod.h; sizes are bytes, times
// seconds.
#include "status.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>

// json_object_object_add() takes the value over, NULL included (it prints as null).
static void add_number(struct json_object *object, const char *name, uint64_t value)
{
    json_object_object_add(object, name, json_object_new_uint64(value));
}

static void add_text(struct json_object *object, const char *name, const char *value)
{
    json_object_object_add(object, name, json_object_new_string(value));
}

static struct json_object *algorithm_object(const struct cryptod_status_algorithm *row)
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
    add_number(object, "operations", row->operations);
    add_number(object, "bytes", row->bytes);
    add_number(object, "errors", row->errors);
    add_number(object, "verified", row->verified);
    add_number(object, "mismatches", row->mismatches);
    add_text(object, "text", row->text);
    return object;
}

static struct json_object *channel_object(const struct cryptod_status_channel *row)
{
    struct json_object *object = json_object_new_object();
    add_number(object, "channel", row->channel);
    add_number(object, "pid", row->pid);
    add_number(object, "uid", row->uid);
    add_number(object, "streams", row->streams);
    add_number(object, "age_s", row->age_s);
    add_number(object, "operations", row->operations);
    add_number(object, "bytes", row->bytes);
    add_number(object, "software_bytes", row->software_bytes);
    add_number(object, "fallbacks", row->fallbacks);
    add_number(object, "lane_changes", row->lane_changes);
    return object;
}

static void add_totals(struct json_object *object, const struct cryptod_status *status)
{
    add_text(object, "release", status->release);
    add_text(object, "kernel", status->kernel);
    add_text(object, "mode", status_mode_name(status));
    add_text(object, "text", status->text);
    add_number(object, "afalg_error", (uint64_t)status->afalg_error);
    add_number(object, "uptime_s", status->uptime_s);
    add_number(object, "channels", status->channels);
    add_number(object, "streams", status->streams);
    add_number(object, "channels_max", status->channels_max);
    add_number(object, "channels_per_uid", status->channels_per_uid);
    add_number(object, "restarts", status->restarts);
    add_number(object, "channels_total", status->channels_total);
    add_number(object, "streams_total", status->streams_total);
    add_number(object, "refused_total", status->refused_total);
    add_number(object, "violations_total", status->violations_total);
}

int status_print_json(const struct cryptod_status *status)
{
    struct json_object *object = json_object_new_object();
    if (object == NULL)
        return -ENOMEM;
    add_totals(object, status);
    struct json_object *algorithms = json_object_new_array();
    for (size_t i = 0; i < status->n_algorithms; i++)
        json_object_array_add(algorithms, algorithm_object(&status->algorithms[i]));
    json_object_object_add(object, "algorithms", algorithms);
    struct json_object *channels = json_object_new_array();
    for (size_t i = 0; i < status->n_channel_rows; i++)
        json_object_array_add(channels, channel_object(&status->channel_rows[i]));
    json_object_object_add(object, "sessions", channels);
    int r = puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY |
                                                            JSON_C_TO_STRING_NOSLASHESCAPE)) < 0
                ? -EIO
                : 0;
    json_object_put(object);
    return r;
}
