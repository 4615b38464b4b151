// SPDX-License-Identifier: MIT
// The daemon's status, on a connection of its own. Guarantees: a daemon that answers without end,
// or not at all, costs bounded memory and time.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "cryptod.h"
#include "wire.h"

_Static_assert((int)CRYPTOD_STATE_OFFERED == (int)MESSAGE_STATE_OFFERED, "protocol");
_Static_assert((int)CRYPTOD_STATE_DECLINED == (int)MESSAGE_STATE_DECLINED, "protocol");
_Static_assert((int)CRYPTOD_STATE_ABSENT == (int)MESSAGE_STATE_ABSENT, "protocol");
_Static_assert((int)CRYPTOD_STATE_QUARANTINED == (int)MESSAGE_STATE_QUARANTINED, "protocol");
_Static_assert((int)CRYPTOD_STATE_DENIED == (int)MESSAGE_STATE_DENIED, "protocol");

_Static_assert((int)CRYPTOD_LIMIT_CHANNELS == (int)MESSAGE_LIMIT_CHANNELS, "protocol");
_Static_assert((int)CRYPTOD_LIMIT_STREAMS == (int)MESSAGE_LIMIT_STREAMS, "protocol");
_Static_assert((int)CRYPTOD_LIMIT_SHARED_MEMORY == (int)MESSAGE_LIMIT_SHARED_MEMORY, "protocol");
_Static_assert((int)CRYPTOD_LIMIT_LOCKED_MEMORY == (int)MESSAGE_LIMIT_LOCKED_MEMORY, "protocol");
_Static_assert((int)CRYPTOD_LIMIT_REQUESTS == (int)MESSAGE_LIMIT_REQUESTS, "protocol");
_Static_assert((int)CRYPTOD_LIMIT_CONNECTS == (int)MESSAGE_LIMIT_CONNECTS, "protocol");
_Static_assert(CRYPTOD_LIMIT_COUNT == (int)MESSAGE_LIMIT_COUNT, "protocol");

// More rows than any daemon has.
#define STATUS_ALGORITHMS_MAX 1024u
#define STATUS_CHANNELS_MAX   65536u
#define STATUS_NOTES_MAX      64u
#define STATUS_USERS_MAX      65536u

// What the caller gets, and what its pointers point to.
struct status {
    struct cryptod_status public; // first: cryptod_status_free() gets a pointer to it
    struct message_status_summary summary;
    struct message_status_algorithm *algorithm_rows; // the texts
    struct cryptod_status_algorithm *algorithms;
    struct cryptod_status_channel *channels;
    struct cryptod_status_user *users;
    size_t n_algorithms, n_algorithms_room;
    size_t n_channels, n_channels_room;
    struct message_status_note *note_rows; // the texts
    struct cryptod_status_note *notes;
    size_t n_notes, n_notes_room;
    size_t n_users, n_users_room;
    bool has_summary;
};

// Room for one more of n items.
static int status_grow(void **items, size_t n, size_t *room, size_t n_item, size_t n_max)
{
    if (n < *room)
        return 0;
    if (n >= n_max)
        return -EMSGSIZE;
    size_t wanted = *room == 0 ? 16 : *room * 2;
    void *grown = reallocarray(*items, wanted, n_item);
    if (!grown)
        return -ENOMEM;
    *items = grown;
    *room = wanted;
    return 0;
}

static int status_add_algorithm(struct status *status, const struct message_status_algorithm *row)
{
    void *rows = status->algorithm_rows;
    int r = status_grow(&rows, status->n_algorithms, &status->n_algorithms_room, sizeof *row,
                        STATUS_ALGORITHMS_MAX);

    status->algorithm_rows = rows;
    if (r < 0)
        return r;
    if (row->state >= MESSAGE_STATE_COUNT || !algorithm_get(row->algorithm))
        return 0; // of a newer daemon; not for us
    status->algorithm_rows[status->n_algorithms++] = *row;
    return 0;
}

static int status_add_channel(struct status *status, const struct message_status_channel *row)
{
    void *rows = status->channels;
    int r = status_grow(&rows, status->n_channels, &status->n_channels_room,
                        sizeof *status->channels, STATUS_CHANNELS_MAX);

    status->channels = rows;
    if (r < 0)
        return r;
    status->channels[status->n_channels++] = (struct cryptod_status_channel){
        .channel = row->channel,
        .uid = row->uid,
        .pid = row->pid,
        .streams = row->streams,
        .age_s = row->age_s,
        .operations = row->operations,
        .bytes = row->bytes,
        .software_bytes = row->software_bytes,
        .fallbacks = row->fallbacks,
        .lane_changes = row->lane_changes,
    };
    return 0;
}

static int status_add_note(struct status *status, const struct message_status_note *row)
{
    void *rows = status->note_rows;
    int r =
        status_grow(&rows, status->n_notes, &status->n_notes_room, sizeof *row, STATUS_NOTES_MAX);

    status->note_rows = rows;
    if (r < 0)
        return r;
    status->note_rows[status->n_notes++] = *row;
    return 0;
}

static int status_add_user(struct status *status, const struct message_status_user *row)
{
    void *rows = status->users;
    int r = status_grow(&rows, status->n_users, &status->n_users_room, sizeof *status->users,
                        STATUS_USERS_MAX);

    status->users = rows;
    if (r < 0)
        return r;
    struct cryptod_status_user *user = &status->users[status->n_users++];
    *user = (struct cryptod_status_user){.uid = row->uid};
    memcpy(user->used, row->used, sizeof user->used);
    return 0;
}

// 0: more is to come; 1: that was the end.
static int status_take(struct status *status, const struct message *m)
{
    switch (m->type) {
    case MESSAGE_STATUS_SUMMARY:
        status->summary = m->u.status_summary;
        status->has_summary = true;
        return 0;
    case MESSAGE_STATUS_ALGORITHM:
        return status_add_algorithm(status, &m->u.status_algorithm);
    case MESSAGE_STATUS_CHANNEL:
        return status_add_channel(status, &m->u.status_channel);
    case MESSAGE_STATUS_NOTE:
        return status_add_note(status, &m->u.status_note);
    case MESSAGE_STATUS_USER:
        return status_add_user(status, &m->u.status_user);
    case MESSAGE_STATUS_END:
        if (m->u.status_end.reason != MESSAGE_OK)
            return wire_reason_error(m->u.status_end.reason);
        return status->has_summary ? 1 : -EBADMSG;
    default:
        return -EBADMSG;
    }
}

static int status_ask(struct status *status, const char *path, unsigned timeout_ms)
{
    struct message question = {.type = MESSAGE_STATUS, .serial = 1}, m;
    uint64_t until_ms = clock_now_ms() + timeout_ms;
    int fd = -1;

    int r = wire_connect(path, &fd);
    if (r < 0)
        return r;
    r = wire_ask(fd, &question, NULL, 0);
    while (r == 0) {
        r = wire_receive(fd, until_ms, &m);
        if (r == 0)
            r = m.serial == question.serial ? status_take(status, &m) : -EBADMSG;
    }
    close(fd);
    return r < 0 ? r : 0;
}

static int status_publish_algorithms(struct status *status)
{
    status->algorithms = calloc(status->n_algorithms + 1, sizeof *status->algorithms);
    if (!status->algorithms)
        return -ENOMEM;
    for (size_t i = 0; i < status->n_algorithms; i++) {
        const struct message_status_algorithm *row = &status->algorithm_rows[i];
        status->algorithms[i] = (struct cryptod_status_algorithm){
            .algorithm = algorithm_get(row->algorithm)->name,
            .backend = row->backend,
            .driver = row->driver,
            .text = row->text,
            .state = (enum cryptod_state)row->state,
            .lanes = row->lanes,
            .operations = row->operations,
            .bytes = row->bytes,
            .errors = row->errors,
            .verified = row->verified,
            .mismatches = row->mismatches,
            .keys = row->keys,
            .key_lacks = row->key_lacks,
        };
    }
    return 0;
}

static int status_publish_notes(struct status *status)
{
    status->notes = calloc(status->n_notes + 1, sizeof *status->notes);
    if (!status->notes)
        return -ENOMEM;
    for (size_t i = 0; i < status->n_notes; i++)
        status->notes[i] = (struct cryptod_status_note){.topic = status->note_rows[i].topic,
                                                        .text = status->note_rows[i].text};
    return 0;
}

static void status_publish_limits(struct status *status)
{
    static const char *const names[CRYPTOD_LIMIT_COUNT] = {
        [CRYPTOD_LIMIT_CHANNELS] = "channels",
        [CRYPTOD_LIMIT_STREAMS] = "streams",
        [CRYPTOD_LIMIT_SHARED_MEMORY] = "shared_memory",
        [CRYPTOD_LIMIT_LOCKED_MEMORY] = "locked_memory",
        [CRYPTOD_LIMIT_REQUESTS] = "requests",
        [CRYPTOD_LIMIT_CONNECTS] = "connects",
    };
    const struct message_limits *limits = &status->summary.limits;

    for (size_t i = 0; i < CRYPTOD_LIMIT_COUNT; i++)
        status->public.limits[i] = (struct cryptod_status_limit){
            .name = names[i],
            .in_all = limits->in_all[i],
            .per_uid = limits->per_uid[i],
            .used = limits->used[i],
            .refused = limits->refused[i],
        };
}

static void status_publish(struct status *status)
{
    const struct message_status_summary *s = &status->summary;

    status->public = (struct cryptod_status){
        .release = s->release,
        .kernel = s->kernel,
        .text = s->text,
        .software_only = s->mode != MESSAGE_OK,
        .afalg_error = (int)s->afalg_errno,
        .uptime_s = s->uptime_s,
        .channels = s->channels,
        .streams = s->streams,
        .channels_max = s->channels_max,
        .channels_per_uid = s->channels_per_uid,
        .restarts = s->engine_restarts,
        .channels_total = s->channels_total,
        .streams_total = s->streams_total,
        .refused_total = s->refused_total,
        .violations_total = s->violations_total,
        .n_algorithms = status->n_algorithms,
        .algorithms = status->algorithms,
        .n_channel_rows = status->n_channels,
        .channel_rows = status->channels,
        .n_notes = status->n_notes,
        .notes = status->notes,
        .n_user_rows = status->n_users,
        .user_rows = status->users,
    };
    status_publish_limits(status);
}

void cryptod_status_free(struct cryptod_status *public)
{
    struct status *status = (struct status *)(void *)public;

    if (!status)
        return;
    free(status->algorithm_rows);
    free(status->algorithms);
    free(status->channels);
    free(status->note_rows);
    free(status->notes);
    free(status->users);
    free(status);
}

int cryptod_status_get(const char *path, unsigned timeout_ms, struct cryptod_status **ret)
{
    char resolved[WIRE_PATH_SIZE];
    int r = wire_find_path(path, resolved);

    if (r < 0)
        return r;
    struct status *status = calloc(1, sizeof *status);
    if (!status)
        return -ENOMEM;
    r = status_ask(status, resolved, timeout_ms);
    if (r == 0)
        r = status_publish_algorithms(status);
    if (r == 0)
        r = status_publish_notes(status);
    if (r < 0) {
        cryptod_status_free(&status->public);
        return r;
    }
    status_publish(status);
    *ret = &status->public;
    return 0;
}
