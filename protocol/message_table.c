// SPDX-License-Identifier: MIT
// The messages as data: one list of fields a struct, one row a type. The lengths in the rows are
// written out, as cryptod-protocol(7) documents them, and compared with the field lists by
// message_table_check(): a changed struct cannot change the protocol unnoticed. Must not know of
// bytes, sockets or roles.
#include "message_table.h"

#include <errno.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define MEMBER(name, field) (((const struct message_##name *)0)->field)
#define FIELD_AS(name, field, kind_)                                                               \
    {                                                                                              \
        .offset = offsetof(struct message_##name, field), .n_bytes = sizeof MEMBER(name, field),   \
        .kind = (kind_)                                                                            \
    }
// The kind follows from the C type; a type that is not listed does not compile.
#define FIELD(name, field)                                                                         \
    FIELD_AS(name, field,                                                                          \
             _Generic(MEMBER(name, field),                                                         \
                      uint32_t                                                                     \
                      : MESSAGE_KIND_U32, const uint32_t *                                         \
                      : MESSAGE_KIND_U32, const struct message_offer *                             \
                      : MESSAGE_KIND_U32, uint64_t                                                 \
                      : MESSAGE_KIND_U64, const uint64_t *                                         \
                      : MESSAGE_KIND_U64, struct message_limits                                    \
                      : MESSAGE_KIND_U64, const struct message_costs *                             \
                      : MESSAGE_KIND_U64, const char *                                             \
                      : MESSAGE_KIND_TEXT))
#define RESERVED(name, field) FIELD_AS(name, field, MESSAGE_KIND_ZERO)

_Static_assert(sizeof(struct message_offer) == 2 * sizeof(uint32_t), "flattened to u32");
_Static_assert(sizeof(struct message_limits) == 4 * sizeof(uint64_t[MESSAGE_LIMIT_COUNT]),
               "flattened to u64");
_Static_assert(sizeof(struct message_costs) == sizeof(uint64_t[2][MESSAGE_SIZES]),
               "flattened to u64");

static const struct message_field hello[] = {
    FIELD(hello, version_min),
    FIELD(hello, version_max),
    FIELD(hello, n_slots),
    FIELD(hello, n_streams),
};

static const struct message_field hello_reply[] = {
    FIELD(hello_reply, version),        FIELD(hello_reply, reason),
    FIELD(hello_reply, channel),        FIELD(hello_reply, deadline_ms),
    FIELD(hello_reply, bulk_threshold), FIELD(hello_reply, spin_us),
    FIELD(hello_reply, offer),          FIELD(hello_reply, keystream_slots),
};

static const struct message_field stream_open[] = {
    FIELD(stream_open, stream),
    FIELD(stream_open, algorithm),
};

static const struct message_field stream_reply[] = {
    FIELD(stream_reply, stream),
    FIELD(stream_reply, reason),
};

static const struct message_field stream_close[] = {
    FIELD(stream_close, stream),
};

static const struct message_field status[] = {
    RESERVED(status, reserved),
};

static const struct message_field status_summary[] = {
    FIELD(status_summary, uptime_s),
    FIELD(status_summary, version),
    FIELD(status_summary, mode),
    FIELD(status_summary, channels),
    FIELD(status_summary, streams),
    FIELD(status_summary, channels_total),
    FIELD(status_summary, streams_total),
    FIELD(status_summary, refused_total),
    FIELD(status_summary, violations_total),
    FIELD(status_summary, channels_max),
    FIELD(status_summary, channels_per_uid),
    FIELD(status_summary, afalg_errno),
    FIELD(status_summary, engine_restarts),
    FIELD(status_summary, text),
    FIELD(status_summary, release),
    FIELD(status_summary, kernel),
    FIELD(status_summary, limits),
};

static const struct message_field status_algorithm[] = {
    FIELD(status_algorithm, algorithm),  FIELD(status_algorithm, state),
    FIELD(status_algorithm, lanes),      RESERVED(status_algorithm, reserved),
    FIELD(status_algorithm, operations), FIELD(status_algorithm, bytes),
    FIELD(status_algorithm, errors),     FIELD(status_algorithm, backend),
    FIELD(status_algorithm, driver),     FIELD(status_algorithm, text),
    FIELD(status_algorithm, verified),   FIELD(status_algorithm, mismatches),
    FIELD(status_algorithm, keys),       RESERVED(status_algorithm, reserved2),
    FIELD(status_algorithm, key_lacks),
};

static const struct message_field status_channel[] = {
    FIELD(status_channel, channel),   FIELD(status_channel, uid),
    FIELD(status_channel, pid),       FIELD(status_channel, streams),
    FIELD(status_channel, age_s),     FIELD(status_channel, operations),
    FIELD(status_channel, bytes),     FIELD(status_channel, software_bytes),
    FIELD(status_channel, fallbacks), FIELD(status_channel, lane_changes),
};

static const struct message_field status_user[] = {
    FIELD(status_user, uid),
    RESERVED(status_user, reserved),
    FIELD(status_user, used),
};

static const struct message_field status_end[] = {
    FIELD(status_end, reason),
};

static const struct message_field calibrate[] = {
    FIELD(calibrate, measure),
};

static const struct message_field calibration_progress[] = {
    FIELD(calibration_progress, done),
    FIELD(calibration_progress, total),
};

static const struct message_field calibration[] = {
    FIELD(calibration, algorithm),   FIELD(calibration, state),   FIELD(calibration, lanes),
    FIELD(calibration, request_min), FIELD(calibration, wake_ns), FIELD(calibration, wake_cpu_ns),
    FIELD(calibration, costs),       FIELD(calibration, backend), FIELD(calibration, driver),
    FIELD(calibration, text),
};

static const struct message_field calibration_end[] = {
    FIELD(calibration_end, reason),
};

static const struct message_field calibration_key[] = {
    FIELD(calibration_key, cpus),    RESERVED(calibration_key, reserved),
    FIELD(calibration_key, kernel),  FIELD(calibration_key, cpu),
    FIELD(calibration_key, openssl), FIELD(calibration_key, capabilities),
};

static const struct message_field channel_add[] = {
    FIELD(channel_add, channel), FIELD(channel_add, uid),       FIELD(channel_add, pid),
    FIELD(channel_add, n_slots), FIELD(channel_add, n_streams),
};

static const struct message_field channel[] = {
    FIELD(channel, channel),
    FIELD(channel, reason),
};

static const struct message_field engine_stream[] = {
    FIELD(engine_stream, channel),
    FIELD(engine_stream, stream),
    FIELD(engine_stream, algorithm),
    FIELD(engine_stream, reason),
};

static const struct message_field engine_offer[] = {
    FIELD(engine_offer, offer),
};

static const struct message_field engine_summary[] = {
    FIELD(engine_summary, channels),
    FIELD(engine_summary, streams),
    FIELD(engine_summary, afalg_errno),
    FIELD(engine_summary, workers),
    FIELD(engine_summary, text),
    FIELD(engine_summary, locked_memory),
    FIELD(engine_summary, requests),
    FIELD(engine_summary, locked_memory_refused),
    FIELD(engine_summary, requests_refused),
};

static const struct message_field engine_channel[] = {
    FIELD(engine_channel, channel),        FIELD(engine_channel, streams),
    FIELD(engine_channel, operations),     FIELD(engine_channel, bytes),
    FIELD(engine_channel, software_bytes), FIELD(engine_channel, fallbacks),
    FIELD(engine_channel, lane_changes),   FIELD(engine_channel, locked_memory),
    FIELD(engine_channel, requests),
};

static const struct message_field role_config[] = {
    FIELD(role_config, uid),
    FIELD(role_config, gid),
    FIELD(role_config, log_level),
    FIELD(role_config, mode),
    FIELD(role_config, offload),
    FIELD(role_config, backends),
    FIELD(role_config, workers),
    FIELD(role_config, deadline_ms),
    FIELD(role_config, bulk_threshold),
    FIELD(role_config, request_min),
    FIELD(role_config, spin_us),
    FIELD(role_config, channels_max),
    FIELD(role_config, channels_per_uid),
    FIELD(role_config, streams_per_channel),
    FIELD(role_config, slots_per_channel),
    FIELD(role_config, restarts),
    FIELD(role_config, n_uids),
    FIELD(role_config, n_gids),
    FIELD(role_config, uids),
    FIELD(role_config, gids),
    FIELD(role_config, started_s),
    FIELD(role_config, deny_drivers),
    FIELD(role_config, fault),
    FIELD(role_config, text),
    FIELD(role_config, keystream_slots),
    FIELD(role_config, idle_s),
    FIELD(role_config, verify),
    FIELD(role_config, calibrations),
    FIELD(role_config, quarantined),
    FIELD(role_config, streams_max),
    FIELD(role_config, streams_per_uid),
    FIELD(role_config, shared_memory_max),
    FIELD(role_config, shared_memory_per_uid),
    FIELD(role_config, locked_memory_max),
    FIELD(role_config, locked_memory_per_uid),
    FIELD(role_config, requests_max),
    FIELD(role_config, requests_per_uid),
    FIELD(role_config, connects_max),
    FIELD(role_config, connects_per_uid),
};

static const struct message_field quarantine[] = {
    FIELD(quarantine, algorithm),
    FIELD(quarantine, kind),
    FIELD(quarantine, driver),
};

static const struct message_field status_note[] = {
    FIELD(status_note, topic),
    FIELD(status_note, text),
};

static const struct message_field empty[] = {
    RESERVED(empty, reserved),
};

#define ROW(type_, struct_, n_bytes_, n_fds_, directions_)                                         \
    {                                                                                              \
        .type = MESSAGE_##type_, .info = {#type_, (n_bytes_), (n_fds_), (directions_)},            \
        .n_struct = sizeof(struct message_##struct_), .fields = (struct_),                         \
        .n_fields = COUNT(struct_)                                                                 \
    }

#define C_F MESSAGE_CLIENT_TO_FRONT
#define F_C MESSAGE_FRONT_TO_CLIENT
#define F_E MESSAGE_FRONT_TO_ENGINE
#define E_F MESSAGE_ENGINE_TO_FRONT
#define M_R MESSAGE_MONITOR_TO_ROLE
#define R_M MESSAGE_ROLE_TO_MONITOR

// clang-format off
static const struct message_row table[] = {
    ROW(HELLO,            hello,              32, 2, C_F),
    ROW(HELLO_REPLY,      hello_reply,       108, 0, F_C),
    ROW(STREAM_OPEN,      stream_open,        24, 0, C_F),
    ROW(STREAM_REPLY,     stream_reply,       24, 0, F_C),
    ROW(STREAM_CLOSE,     stream_close,       20, 0, C_F),
    ROW(STATUS,           status,             20, 0, C_F),
    ROW(STATUS_SUMMARY,   status_summary,    536, 0, F_C),
    ROW(STATUS_ALGORITHM, status_algorithm,  296, 0, F_C | E_F),
    ROW(STATUS_CHANNEL,   status_channel,     80, 0, F_C),
    ROW(STATUS_END,       status_end,         20, 0, F_C | E_F),
    ROW(CALIBRATE,        calibrate,          20, 0, C_F),
    ROW(CALIBRATION_PROGRESS, calibration_progress, 24, 0, F_C | E_F),
    ROW(CALIBRATION,      calibration,       768, 0, F_C | E_F | M_R | R_M),
    ROW(CALIBRATION_END,  calibration_end,    20, 0, F_C | E_F | R_M),
    ROW(STATUS_USER,      status_user,        72, 0, F_C),
    ROW(CHANNEL_ADD,      channel_add,        36, 2, F_E),
    ROW(CHANNEL_REPLY,    channel,            24, 0, E_F),
    ROW(CHANNEL_REMOVE,   channel,            24, 0, F_E),
    ROW(CHANNEL_FAULT,    channel,            24, 0, E_F),
    ROW(ENGINE_OPEN,      engine_stream,      32, 0, F_E),
    ROW(ENGINE_REPLY,     engine_stream,      32, 0, E_F),
    ROW(ENGINE_CLOSE,     engine_stream,      32, 0, F_E),
    ROW(ENGINE_OFFER,     engine_offer,       80, 0, E_F),
    ROW(ENGINE_STATUS,    empty,              20, 0, F_E),
    ROW(ENGINE_SUMMARY,   engine_summary,    192, 0, E_F),
    ROW(ENGINE_CHANNEL,   engine_channel,     80, 0, E_F),
    ROW(ENGINE_CALIBRATE, calibrate,          20, 0, F_E),
    ROW(ROLE_CONFIG,      role_config,      2200, 0, M_R),
    ROW(ROLE_READY,       empty,              20, 0, R_M),
    ROW(PING,             empty,              20, 0, M_R),
    ROW(PONG,             empty,              20, 0, R_M),
    ROW(QUARANTINE,       quarantine,         88, 0, R_M),
    ROW(CALIBRATION_KEY,  calibration_key,   664, 0, M_R | R_M),
    ROW(STATUS_NOTE,      status_note,       272, 0, M_R | E_F | F_C),
};
// clang-format on

const struct message_row *message_row_get(uint32_t type)
{
    for (size_t i = 0; i < COUNT(table); i++) {
        if (table[i].type == type)
            return &table[i];
    }
    return NULL;
}

const struct message_row *message_row_at(size_t i)
{
    return i < COUNT(table) ? &table[i] : NULL;
}

const struct message_info *message_info(uint32_t type)
{
    const struct message_row *row = message_row_get(type);

    return row ? &row->info : NULL;
}

// No struct of a message has padding, so a field that was forgotten or misplaced shows as a gap.
static int row_check_fields(const struct message_row *row)
{
    size_t n = 0;

    for (size_t i = 0; i < row->n_fields; i++) {
        const struct message_field *f = &row->fields[i];
        size_t unit = f->kind == MESSAGE_KIND_U64    ? sizeof(uint64_t)
                      : f->kind == MESSAGE_KIND_TEXT ? 1
                                                     : sizeof(uint32_t);
        if (f->offset != n || f->n_bytes == 0 || f->n_bytes % unit != 0)
            return -EINVAL;
        n += f->n_bytes;
    }
    if (n != row->n_struct || n + MESSAGE_HEADER_LEN != row->info.n_bytes)
        return -EINVAL;
    return 0;
}

int message_rows_check(const struct message_row *rows, size_t n_rows)
{
    for (size_t i = 0; i < n_rows; i++) {
        const struct message_info *info = &rows[i].info;

        if (row_check_fields(&rows[i]) < 0)
            return -EINVAL;
        if (rows[i].type > UINT16_MAX || info->n_bytes > MESSAGE_LEN_MAX ||
            info->n_fds > MESSAGE_FDS_MAX || info->directions == 0)
            return -EINVAL;
        for (size_t j = 0; j < i; j++) {
            if (rows[j].type == rows[i].type || strcmp(rows[j].info.name, info->name) == 0)
                return -EINVAL;
        }
    }
    return 0;
}

int message_table_check(void)
{
    return message_rows_check(table, COUNT(table));
}

const char *message_reason_text(uint32_t reason)
{
    static const char *const text[MESSAGE_REASON_COUNT] = {
        [MESSAGE_OK] = "ok",
        [MESSAGE_REASON_VERSION] = "no common protocol version",
        [MESSAGE_REASON_ACCESS] = "this user may not use cryptod",
        [MESSAGE_REASON_LIMIT] = "a limit of this user or of the daemon is reached",
        [MESSAGE_REASON_MEMORY] = "shared memory of the wrong kind, seals or size",
        [MESSAGE_REASON_BELL] = "bell of the wrong kind",
        [MESSAGE_REASON_MALFORMED] = "a message or a request broke the rules",
        [MESSAGE_REASON_ALGORITHM] = "algorithm not offered",
        [MESSAGE_REASON_ENGINE] = "engine not there or failing",
        [MESSAGE_REASON_SOFTWARE] = "software only",
        [MESSAGE_REASON_INTERNAL] = "out of memory or descriptors",
        [MESSAGE_REASON_BUSY] = "another calibration is running",
        [MESSAGE_REASON_CONNECTS] = "too many connects, a second or at a time",
        [MESSAGE_REASON_SIZE] =
            "the channel is too large for a limit of this user or of the daemon",
    };

    return reason < MESSAGE_REASON_COUNT ? text[reason] : "unknown reason";
}
