// SPDX-License-Identifier: MIT
// What the engine tells front about itself. Guarantees: a status is whole and ends with its END.
// Must not change anything.
#include "control.h"

#include <stdio.h>

#include "control_impl.h"

#define SET_TEXT(field, text) (void)snprintf((field), sizeof(field), "%s", (text))

void control_send_offer(struct control *control)
{
    struct message m = {.type = MESSAGE_ENGINE_OFFER};

    offer_get_message(control->offer, &m.u.engine_offer);
    outbox_send(&control->outbox, &m);
}

void control_send_note(struct control *control, const char *topic, const char *text)
{
    struct message m = {.type = MESSAGE_STATUS_NOTE};

    SET_TEXT(m.u.status_note.topic, topic);
    SET_TEXT(m.u.status_note.text, text);
    outbox_send(&control->outbox, &m);
}

static void send_algorithm(struct control *control, uint64_t serial, struct offer_row *row)
{
    struct message m = {.type = MESSAGE_STATUS_ALGORITHM, .serial = serial};
    struct message_status_algorithm *status = &m.u.status_algorithm;

    status->algorithm = row->info->id;
    status->state = row->state;
    status->lanes = row->lanes;
    status->operations = statistics_get(&row->statistics.operations);
    status->bytes = statistics_get(&row->statistics.bytes);
    status->errors = statistics_get(&row->statistics.errors);
    status->verified = statistics_get(&row->trust.n_verified);
    status->mismatches = statistics_get(&row->trust.n_mismatches);
    status->keys = atomic_load_explicit(&row->keys.n_set, memory_order_relaxed);
    status->key_lacks = statistics_get(&row->keys.n_lacks);
    SET_TEXT(status->backend, row->backend->ops->name);
    SET_TEXT(status->driver, row->probe.driver);
    SET_TEXT(status->text, row->text);
    outbox_send(&control->outbox, &m);
}

// Returns how many streams are open.
static uint32_t count_streams(struct control *control)
{
    uint32_t n = 0;

    for (struct control_channel *entry = control->channels; entry; entry = entry->next)
        n += channel_count_streams(entry->channel);
    return n;
}

static void send_summary(struct control *control, uint64_t serial)
{
    struct message m = {.type = MESSAGE_ENGINE_SUMMARY, .serial = serial};
    struct message_engine_summary *summary = &m.u.engine_summary;
    const struct quota *quota = fair_queue_quota(worker_pool_queue(control->pool));

    summary->channels = control->n_channels;
    summary->streams = count_streams(control);
    summary->afalg_errno = (uint32_t)-control->offer->afalg_error;
    summary->workers = worker_pool_size(control->pool);
    SET_TEXT(summary->text, control->offer->afalg_text);
    summary->locked_memory = atomic_load(&quota->n[QUOTA_MEMORY]);
    summary->requests = atomic_load(&quota->n[QUOTA_REQUESTS]);
    summary->locked_memory_refused = atomic_load(&quota->n_refused[QUOTA_MEMORY]);
    summary->requests_refused = atomic_load(&quota->n_refused[QUOTA_REQUESTS]);
    outbox_send(&control->outbox, &m);
}

void control_send_status(struct control *control, uint64_t serial)
{
    struct offer *offer = control->offer;
    struct message m = {.serial = serial};

    send_summary(control, serial);
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++)
        for (uint32_t b = 0; b < offer->n_backends; b++)
            send_algorithm(control, serial, &offer->rows[a][b]);
    for (struct control_channel *entry = control->channels; entry; entry = entry->next) {
        m.type = MESSAGE_ENGINE_CHANNEL;
        channel_report(entry->channel, &m.u.engine_channel);
        outbox_send(&control->outbox, &m);
    }
    m = (struct message){.type = MESSAGE_STATUS_END, .serial = serial};
    m.u.status_end.reason = MESSAGE_OK;
    outbox_send(&control->outbox, &m);
}
