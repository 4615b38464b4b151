// SPDX-License-Identifier: MIT
// Channels and streams, as front orders them. Guarantees: every order that has an answer gets
// exactly one; a key stays in the shared memory and on the stack no longer than it takes to set it.
// Must not know sockets of clients.
#include "control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control_impl.h"
#include "log.h"

static struct control_channel **find_link(struct control *control, uint32_t number)
{
    struct control_channel **link = &control->channels;

    while (*link && (*link)->number != number)
        link = &(*link)->next;
    return link;
}

static struct channel *find_channel(struct control *control, uint32_t number)
{
    struct control_channel *entry = *find_link(control, number);

    return entry ? entry->channel : NULL;
}

static void let_go(struct control *control, struct control_channel **link)
{
    struct control_channel *entry = *link;

    *link = entry->next;
    control->n_channels--;
    channel_kill(entry->channel);
    channel_close_streams(entry->channel);
    worker_pool_remove(entry->seat);
    channel_unref(entry->channel);
    free(entry);
}

// ---------------------------------------------------------------- channels

static enum message_reason reason_of_channel_error(int r)
{
    switch (r) {
    case 0:
        return MESSAGE_OK;
    case -EMEDIUMTYPE:
    case -ERANGE:
    case -ENOSPC:
        return MESSAGE_REASON_MEMORY;
    case -EPROTOTYPE:
        return MESSAGE_REASON_BELL;
    case -EUSERS:
        return MESSAGE_REASON_LIMIT;
    case -EFBIG:
        return MESSAGE_REASON_SIZE;
    case -EEXIST:
        return MESSAGE_REASON_MALFORMED;
    default:
        return MESSAGE_REASON_INTERNAL;
    }
}

static int check_limits(struct control *control, const struct message_channel_add *add,
                        const int fds[2])
{
    const struct message_role_config *config = &control->config;

    if (fds[0] < 0 || fds[1] < 0)
        return -EMFILE; // PACKET_FDS_LOST
    if (*find_link(control, add->channel))
        return -EEXIST;
    if (control->n_channels >= config->channels_max || control->n_channels >= CONTROL_CHANNELS_MAX)
        return -EUSERS;
    return add->n_slots > config->slots_per_channel ? -EFBIG : 0;
}

static void expect_tending(struct control *control)
{
    const struct timeval later = {.tv_sec = (time_t)control->config.idle_s};

    if (control->channels && !evtimer_pending(&control->tend, NULL))
        evtimer_add(&control->tend, &later);
}

static int make_channel(struct control *control, const struct message_channel_add *add, int fds[2])
{
    struct control_channel *entry;
    int r = check_limits(control, add, fds);

    if (r < 0)
        return r;
    entry = calloc(1, sizeof(*entry));
    if (!entry)
        return -ENOMEM;
    r = channel_new(add, fds[0], fds[1], worker_pool_queue(control->pool), &entry->channel);
    if (r < 0) {
        free(entry);
        return r;
    }
    fds[0] = fds[1] = -1; // the channel's now
    r = worker_pool_add(control->pool, entry->channel, &entry->seat);
    if (r < 0) {
        channel_unref(entry->channel);
        free(entry);
        return r;
    }
    entry->number = add->channel;
    entry->next = control->channels;
    control->channels = entry;
    control->n_channels++;
    expect_tending(control);
    return 0;
}

void control_add_channel(struct control *control, const struct message *m, int fds[2])
{
    const struct message_channel_add *add = &m->u.channel_add;
    int r = make_channel(control, add, fds);
    const struct message reply = {
        .type = MESSAGE_CHANNEL_REPLY,
        .serial = m->serial,
        .u.channel = {.channel = add->channel, .reason = reason_of_channel_error(r)},
    };

    if (r < 0)
        log_write(reply.u.channel.reason == MESSAGE_REASON_INTERNAL ? LOG_LEVEL_WARNING
                                                                    : LOG_LEVEL_INFO,
                  "channel %u (uid %u, pid %u): refused: %s", add->channel, add->uid, add->pid,
                  strerror(-r));
    else
        log_debug("channel %u (uid %u, pid %u): added", add->channel, add->uid, add->pid);
    outbox_send(&control->outbox, &reply);
}

// A channel that is not there any more: it broke the rules, and front has not heard of it yet.
void control_remove_channel(struct control *control, const struct message *m)
{
    struct control_channel **link = find_link(control, m->u.channel.channel);

    if (!*link)
        return;
    log_debug("channel %u: removed", m->u.channel.channel);
    let_go(control, link);
}

void control_report_faults(struct control *control)
{
    struct control_channel **link = &control->channels;

    while (*link) {
        const struct channel *channel = (*link)->channel;
        const char *fault = channel_fault(channel);
        const struct message m = {
            .type = MESSAGE_CHANNEL_FAULT,
            .u.channel = {.channel = (*link)->number, .reason = MESSAGE_REASON_MALFORMED},
        };

        if (!fault) {
            link = &(*link)->next;
            continue;
        }
        // Front warns, and limits how often; this is the detail.
        log_info("channel %u (uid %u, pid %u): %s: dropped", channel_number(channel),
                 channel_uid(channel), channel_pid(channel), fault);
        let_go(control, link);
        outbox_send(&control->outbox, &m);
    }
}

void control_tend_channels(struct control *control)
{
    for (struct control_channel *entry = control->channels; entry; entry = entry->next)
        if (channel_holds_keystream(entry->channel))
            worker_pool_tend(entry->seat);
    expect_tending(control);
}

void control_remove_all(struct control *control)
{
    while (control->channels)
        let_go(control, &control->channels);
}

// ---------------------------------------------------------------- streams

static enum message_reason reason_of_stream_error(int r)
{
    switch (r) {
    case 0:
        return MESSAGE_OK;
    case -ENODEV:
    case -ERANGE:
    case -EBUSY:
        return MESSAGE_REASON_MALFORMED;
    case -EOPNOTSUPP:
        return MESSAGE_REASON_ALGORITHM;
    case -EUSERS:
        return MESSAGE_REASON_LIMIT;
    case -ENOMEM:
    case -EMFILE:
    case -ENFILE:
        return MESSAGE_REASON_INTERNAL;
    default:
        return MESSAGE_REASON_ENGINE;
    }
}

static int open_key(struct control *control, struct offer_row *row, const uint8_t *bytes,
                    struct key **ret)
{
    const struct offer_backend *reference = &control->offer->reference;
    const bool is_watched = row->probe.is_watched && control->config.verify != VERIFY_OFF;
    const struct key_source source = {
        .info = row->info,
        .ops = row->backend->ops,
        .backend = row->backend->instance,
        .reference_ops = reference->ops,
        .reference = is_watched ? reference->instance : NULL,
        .statistics = &row->statistics,
        .trust = &row->trust,
        .may_hang = row->probe.is_watched,
        .room = row->room,
        .count = &row->keys,
    };

    return key_open(&source, bytes, ret);
}

// The key is taken, and so wiped from the shared memory, whatever follows.
static int open_stream(struct control *control, const struct message_engine_stream *asked)
{
    struct channel *channel = find_channel(control, asked->channel);
    struct offer_row *row = offer_find_row(control->offer, asked->algorithm);
    uint8_t bytes[ALGORITHM_KEY_MAX] = {0};
    struct key *key = NULL;
    int r;

    if (!channel) // front does not know yet that it is gone
        return -ENODEV;
    r = channel_take_key(channel, asked->stream, bytes, row ? row->info->n_key : 0);
    if (r == 0 && channel_count_streams(channel) >= control->config.streams_per_channel)
        r = -EUSERS;
    if (r == 0 && !row)
        r = -EOPNOTSUPP;
    if (r == 0)
        r = open_key(control, row, bytes, &key);
    if (r == -ETIMEDOUT)
        control_watch_keys(control);
    explicit_bzero(bytes, sizeof(bytes));
    if (r == 0)
        channel_set_stream(channel, asked->stream, key);
    return r;
}

void control_open_stream(struct control *control, const struct message *m)
{
    const struct message_engine_stream *asked = &m->u.engine_stream;
    int r = open_stream(control, asked);
    const struct message reply = {
        .type = MESSAGE_ENGINE_REPLY,
        .serial = m->serial,
        .u.engine_stream = {.channel = asked->channel,
                            .stream = asked->stream,
                            .reason = reason_of_stream_error(r)},
    };

    if (r < 0)
        log_write(reply.u.engine_stream.reason == MESSAGE_REASON_ENGINE ||
                          reply.u.engine_stream.reason == MESSAGE_REASON_INTERNAL
                      ? LOG_LEVEL_WARNING
                      : LOG_LEVEL_INFO,
                  "channel %u: stream %u refused: %s", asked->channel, asked->stream, strerror(-r));
    outbox_send(&control->outbox, &reply);
}

void control_close_stream(struct control *control, const struct message *m)
{
    struct channel *channel = find_channel(control, m->u.engine_stream.channel);

    if (channel)
        channel_close_stream(channel, m->u.engine_stream.stream);
}
