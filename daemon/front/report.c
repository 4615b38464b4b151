// SPDX-License-Identifier: MIT
// A snapshot is made once and shared by counted reference: a slow reader keeps its own, the rest go
// on.
#include "report.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "front.h"
#include "log.h"
#include "packet.h"
#include "usage.h"

#define ENGINE_PATIENCE_MS 500L

struct report_snapshot {
    uint32_t n_refs;
    uint32_t reason; // of END
    struct message_status_summary summary;
    uint32_t n_algorithms;
    struct message_status_algorithm algorithms[REPORT_ALGORITHMS_MAX];
    uint32_t n_notes;
    struct message_status_note notes[REPORT_NOTES_MAX];
    uint32_t n_users;
    struct message_status_user *users; // owned
    uint32_t n_channels;
    struct message_status_channel channels[];
};

static int64_t clock_seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec;
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// ---------------------------------------------------------------- snapshot

// The rest of `to`, which must be zero, stays zero, as the codec demands.
static void text_copy(char *to, size_t n_to, const char *from)
{
    memcpy(to, from, strnlen(from, n_to - 1));
}

static void summary_fill(const struct front *front, bool engine_answers,
                         struct message_status_summary *ret)
{
    const struct report *report = &front->report;
    const char *text = report->summary.text;
    int64_t uptime_s = clock_seconds(CLOCK_BOOTTIME) - (int64_t)front->config.started_s;

    *ret = (struct message_status_summary){
        .uptime_s = uptime_s > 0 ? (uint64_t)uptime_s : 0,
        .version = MESSAGE_VERSION_MAX,
        .mode = relay_is_up(&front->relay) ? front->config.mode : (uint32_t)MESSAGE_REASON_SOFTWARE,
        .channels = (uint32_t)account_count(front->account, ACCOUNT_CHANNELS),
        .streams = (uint32_t)account_count(front->account, ACCOUNT_STREAMS),
        .channels_total = front->channels_total,
        .streams_total = front->streams_total,
        .refused_total = front->refused_total,
        .violations_total = front->violations_total,
        .channels_max = front->config.channels_max,
        .channels_per_uid = front->config.channels_per_uid,
        .afalg_errno = report->summary.afalg_errno,
        .engine_restarts = front->config.restarts,
    };
    if (ret->mode != MESSAGE_OK)
        text = front->config.text;
    else if (!engine_answers)
        text = "the engine does not answer";
    text_copy(ret->text, sizeof(ret->text), text);
    text_copy(ret->release, sizeof(ret->release), CRYPTOD_VERSION);
    text_copy(ret->kernel, sizeof(ret->kernel), front->kernel);
    usage_fill_limits(front, clock_ns(), &ret->limits);
}

static bool has_channel(const struct client *client)
{
    return client->state == CLIENT_OPEN;
}

static void channel_fill(const struct client *client, int64_t now_s,
                         struct message_status_channel *ret)
{
    *ret = (struct message_status_channel){
        .channel = client->channel,
        .uid = client->peer.uid,
        .pid = client->peer.pid,
        .streams = (uint32_t)client->charge.n[ACCOUNT_STREAMS],
        .age_s = (uint64_t)(now_s - client->opened_s),
        .operations = client->usage.operations,
        .bytes = client->usage.bytes,
        .software_bytes = client->usage.software_bytes,
        .fallbacks = client->usage.fallbacks,
        .lane_changes = client->usage.lane_changes,
    };
}

// NULL: no memory. The caller has the first reference.
static struct report_snapshot *snapshot_new(struct front *front, bool engine_answers)
{
    const struct report *report = &front->report;
    int64_t now_s = clock_seconds(CLOCK_MONOTONIC);
    struct client *client = NULL;
    size_t n = 0;

    LIST_FOREACH(client, &front->clients, link)
    n += has_channel(client);
    struct report_snapshot *snapshot =
        calloc(1, sizeof(*snapshot) + n * sizeof(snapshot->channels[0]));
    if (snapshot == NULL)
        return NULL;
    if (usage_list_users(front, clock_ns(), &snapshot->users, &snapshot->n_users) < 0) {
        free(snapshot);
        return NULL;
    }
    snapshot->n_refs = 1;
    snapshot->reason = engine_answers ? MESSAGE_OK : MESSAGE_REASON_ENGINE;
    summary_fill(front, engine_answers, &snapshot->summary);
    if (engine_answers) {
        snapshot->n_algorithms = report->n_algorithms;
        memcpy(snapshot->algorithms, report->algorithms, sizeof(snapshot->algorithms));
    }
    snapshot->n_notes = report->n_notes;
    memcpy(snapshot->notes, report->notes, sizeof(snapshot->notes));
    LIST_FOREACH(client, &front->clients, link)
    {
        if (has_channel(client))
            channel_fill(client, now_s, &snapshot->channels[snapshot->n_channels++]);
    }
    return snapshot;
}

static void snapshot_unref(struct report_snapshot *snapshot)
{
    if (snapshot == NULL || --snapshot->n_refs > 0)
        return;
    free(snapshot->users);
    free(snapshot);
}

// The row'th message for that client. false: there is none.
static bool snapshot_row(const struct report_snapshot *snapshot, bool admin, uint32_t row,
                         struct message *ret)
{
    uint32_t n_channels = admin ? snapshot->n_channels : 0;
    uint32_t n_notes = admin ? snapshot->n_notes : 0;
    uint32_t n_users = admin ? snapshot->n_users : 0;

    if (row == 0) {
        ret->type = MESSAGE_STATUS_SUMMARY;
        ret->u.status_summary = snapshot->summary;
        return true;
    }
    row--;
    if (row < snapshot->n_algorithms) {
        ret->type = MESSAGE_STATUS_ALGORITHM;
        ret->u.status_algorithm = snapshot->algorithms[row];
        return true;
    }
    row -= snapshot->n_algorithms;
    if (row < n_channels) {
        ret->type = MESSAGE_STATUS_CHANNEL;
        ret->u.status_channel = snapshot->channels[row];
        return true;
    }
    row -= n_channels;
    if (row < n_notes) {
        ret->type = MESSAGE_STATUS_NOTE;
        ret->u.status_note = snapshot->notes[row];
        return true;
    }
    row -= n_notes;
    if (row < n_users) {
        ret->type = MESSAGE_STATUS_USER;
        ret->u.status_user = snapshot->users[row];
        return true;
    }
    ret->type = MESSAGE_STATUS_END;
    ret->u.status_end = (struct message_status_end){.reason = snapshot->reason};
    return row == n_users;
}

// ---------------------------------------------------------------- answers

void report_forget(struct client *client)
{
    snapshot_unref(client->answer.snapshot);
    client->answer = (struct report_answer){.asked = false};
}

int report_flush(struct client *client)
{
    struct report_answer *answer = &client->answer;
    struct message m = {.serial = answer->serial};

    while (snapshot_row(answer->snapshot, client->peer.admin, answer->row, &m)) {
        int r = packet_send(client->fd, &m, NULL, 0);
        if (r == -EAGAIN)
            return client_want_write(client, true);
        if (r < 0)
            return r;
        answer->row++;
    }
    report_forget(client);
    return client_want_write(client, false);
}

// Gives the snapshot to a client that waits. The reference stays the caller's.
static int report_give(struct client *client, struct report_snapshot *snapshot)
{
    snapshot->n_refs++;
    assert(snapshot->n_refs > 1); // the caller's, and this one
    client->answer.snapshot = snapshot;
    return report_flush(client);
}

// Answers all that have waited for this round or an earlier one.
static void report_give_all(struct front *front, bool engine_answers, uint64_t round)
{
    struct report_snapshot *snapshot = snapshot_new(front, engine_answers);
    struct client *client = LIST_FIRST(&front->clients);

    while (client != NULL) {
        struct client *next = LIST_NEXT(client, link);
        const struct report_answer *answer = &client->answer;
        bool waits = answer->asked && answer->snapshot == NULL && answer->round <= round;
        if (waits && (snapshot == NULL || report_give(client, snapshot) < 0))
            client_close(client);
        client = next;
    }
    snapshot_unref(snapshot);
}

// ---------------------------------------------------------------- rounds

static int report_begin_round(struct front *front)
{
    const struct timeval patience = {.tv_usec = ENGINE_PATIENCE_MS * 1000};
    struct report *report = &front->report;
    int r = relay_status(&front->relay, &report->serial);
    if (r < 0)
        return r;
    report->round++;
    report->n_algorithms = 0;
    return event_add(&report->timer, &patience) < 0 ? -ENOMEM : 0;
}

// Those that asked while the last round was under way want rows that are not older than their
// question.
static void report_continue(struct front *front)
{
    const struct client *client = NULL;
    LIST_FOREACH(client, &front->clients, link)
    {
        if (client->answer.asked && client->answer.snapshot == NULL) {
            if (report_begin_round(front) < 0)
                report_give_all(front, false, UINT64_MAX);
            return;
        }
    }
}

static void report_on_timer(evutil_socket_t fd, short what, void *data)
{
    struct front *front = data;
    (void)fd;
    (void)what;
    complaint_write(&front->complaint, LOG_LEVEL_WARNING,
                    "the engine does not answer ENGINE_STATUS");
    front->report.late = true;
    report_give_all(front, false, UINT64_MAX);
}

int report_init(struct report *report, struct front *front)
{
    *report = (struct report){.round = 0};
    return evtimer_assign(&report->timer, front->base, report_on_timer, front) < 0 ? -ENOMEM : 0;
}

void report_fini(struct report *report)
{
    if (event_initialized(&report->timer))
        event_del(&report->timer);
}

static int report_answer_alone(struct client *client, bool engine_answers)
{
    struct report_snapshot *snapshot = snapshot_new(client->front, engine_answers);
    if (snapshot == NULL)
        return -ENOMEM;
    int r = report_give(client, snapshot);
    snapshot_unref(snapshot);
    return r;
}

enum verdict report_handle_status(struct client *client, const struct message *m,
                                  int fds[MESSAGE_FDS_MAX])
{
    struct front *front = client->front;
    struct report *report = &front->report;
    int r = 0;
    (void)fds;

    if (client->answer.asked)
        return client_violation(client, "STATUS before the last one was answered");
    client->answer = (struct report_answer){
        .asked = true,
        .serial = m->serial,
        .round = report->round + 1,
    };
    if (!relay_is_up(&front->relay))
        r = report_answer_alone(client, true); // there are no rows but the summary
    else if (report->late || (report->serial == 0 && report_begin_round(front) < 0))
        r = report_answer_alone(client, false);
    return r < 0 ? VERDICT_CLOSE : VERDICT_KEEP;
}

// ---------------------------------------------------------------- notes

static void note_set(struct report *report, const struct message_status_note *note)
{
    uint32_t i = 0;

    while (i < report->n_notes && strcmp(report->notes[i].topic, note->topic) != 0)
        i++;
    if (i == REPORT_NOTES_MAX)
        return;
    report->notes[i] = *note;
    report->n_notes += i == report->n_notes;
}

void report_set_note(struct report *report, const char *topic, const char *text)
{
    struct message_status_note note = {0};

    text_copy(note.topic, sizeof(note.topic), topic);
    text_copy(note.text, sizeof(note.text), text);
    note_set(report, &note);
}

void report_on_note(struct front *front, const struct message *m)
{
    note_set(&front->report, &m->u.status_note);
}

// ---------------------------------------------------------------- the engine's answer

static bool is_expected(const struct front *front, const struct message *m)
{
    return front->report.serial != 0 && front->report.serial == m->serial;
}

void report_on_summary(struct front *front, const struct message *m)
{
    if (is_expected(front, m))
        front->report.summary = m->u.engine_summary;
}

void report_on_algorithm(struct front *front, const struct message *m)
{
    struct report *report = &front->report;
    if (is_expected(front, m) && report->n_algorithms < REPORT_ALGORITHMS_MAX)
        report->algorithms[report->n_algorithms++] = m->u.status_algorithm;
}

void report_on_channel(struct front *front, const struct message *m)
{
    struct client *client = client_find_channel(front, m->u.engine_channel.channel);
    if (is_expected(front, m) && client != NULL)
        client->usage = m->u.engine_channel;
}

void report_on_end(struct front *front, const struct message *m)
{
    struct report *report = &front->report;
    if (!is_expected(front, m))
        return;
    event_del(&report->timer);
    report->serial = 0;
    report->late = false;
    report_give_all(front, true, report->round);
    report_continue(front);
}
