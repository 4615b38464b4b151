// SPDX-License-Identifier: MIT
// The status as one JSON object, for programs. Names are those of cryptod.h; sizes are bytes, times
// seconds.
#include "status.h"

#include <errno.h>
#include <json-c/json.h>

#include "json.h"

static struct json_object *algorithm_object(const struct cryptod_status_algorithm *row)
{
    struct json_object *object = json_object_new_object();
    json_add_text(object, "algorithm", row->algorithm);
    json_add_text(object, "backend", row->backend);
    json_add_text(object, "driver", row->driver);
    json_add_text(object, "state", status_state_name(row->state));
    json_add_lanes(object, row->lanes);
    json_add_number(object, "operations", row->operations);
    json_add_number(object, "bytes", row->bytes);
    json_add_number(object, "errors", row->errors);
    json_add_number(object, "verified", row->verified);
    json_add_number(object, "mismatches", row->mismatches);
    json_add_number(object, "keys", row->keys);
    json_add_number(object, "key_lacks", row->key_lacks);
    json_add_text(object, "text", row->text);
    return object;
}

static struct json_object *channel_object(const struct cryptod_status_channel *row)
{
    struct json_object *object = json_object_new_object();
    json_add_number(object, "channel", row->channel);
    json_add_number(object, "pid", row->pid);
    json_add_number(object, "uid", row->uid);
    json_add_number(object, "streams", row->streams);
    json_add_number(object, "age_s", row->age_s);
    json_add_number(object, "operations", row->operations);
    json_add_number(object, "bytes", row->bytes);
    json_add_number(object, "software_bytes", row->software_bytes);
    json_add_number(object, "fallbacks", row->fallbacks);
    json_add_number(object, "lane_changes", row->lane_changes);
    return object;
}

static struct json_object *limit_object(const struct cryptod_status_limit *row)
{
    struct json_object *object = json_object_new_object();
    json_add_text(object, "limit", row->name);
    json_add_number(object, "in_all", row->in_all);
    json_add_number(object, "per_uid", row->per_uid);
    json_add_number(object, "used", row->used);
    json_add_number(object, "refused", row->refused);
    return object;
}

static struct json_object *user_object(const struct cryptod_status *status,
                                       const struct cryptod_status_user *row)
{
    struct json_object *object = json_object_new_object();
    json_add_number(object, "uid", row->uid);
    for (size_t i = 0; i < CRYPTOD_LIMIT_COUNT; i++)
        json_add_number(object, status->limits[i].name, row->used[i]);
    return object;
}

static void add_limits(struct json_object *object, const struct cryptod_status *status)
{
    struct json_object *limits = json_object_new_array();
    for (size_t i = 0; i < CRYPTOD_LIMIT_COUNT; i++)
        json_object_array_add(limits, limit_object(&status->limits[i]));
    json_object_object_add(object, "limits", limits);
    struct json_object *users = json_object_new_array();
    for (size_t i = 0; i < status->n_user_rows; i++)
        json_object_array_add(users, user_object(status, &status->user_rows[i]));
    json_object_object_add(object, "users", users);
}

static void add_totals(struct json_object *object, const struct cryptod_status *status)
{
    json_add_text(object, "release", status->release);
    json_add_text(object, "kernel", status->kernel);
    json_add_text(object, "mode", status_mode_name(status));
    json_add_text(object, "text", status->text);
    json_add_number(object, "afalg_error", (uint64_t)status->afalg_error);
    json_add_number(object, "uptime_s", status->uptime_s);
    json_add_number(object, "channels", status->channels);
    json_add_number(object, "streams", status->streams);
    json_add_number(object, "channels_max", status->channels_max);
    json_add_number(object, "channels_per_uid", status->channels_per_uid);
    json_add_number(object, "restarts", status->restarts);
    json_add_number(object, "channels_total", status->channels_total);
    json_add_number(object, "streams_total", status->streams_total);
    json_add_number(object, "refused_total", status->refused_total);
    json_add_number(object, "violations_total", status->violations_total);
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
    struct json_object *notes = json_object_new_object();
    for (size_t i = 0; i < status->n_notes; i++)
        json_add_text(notes, status->notes[i].topic, status->notes[i].text);
    json_object_object_add(object, "sandbox", notes);
    add_limits(object, status);
    return json_print(object);
}
