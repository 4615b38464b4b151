// SPDX-License-Identifier: MIT
// A client may close a stream before the answer to its opening has come, and open one with the same
// number again: the engine handles messages in order, so only the serial tells which opening an
// answer belongs to.
#include "client_stream.h"

#include "front.h"
#include "log.h"

static int reply_send(struct client *client, uint64_t serial, uint32_t stream, uint32_t reason)
{
    struct message m = {
        .type = MESSAGE_STREAM_REPLY,
        .serial = serial,
        .u.stream_reply = {.stream = stream, .reason = reason},
    };
    return client_send(client, &m);
}

static bool algorithm_is_offered(const struct front *front, uint32_t algorithm)
{
    return (front->offers[algorithm].lanes & (MESSAGE_LANE_REQUEST | MESSAGE_LANE_KEYSTREAM)) != 0;
}

static uint32_t stream_over_limit(struct client *client)
{
    complaint_write(&client->front->complaint, LOG_LEVEL_NOTICE,
                    "stream refused: pid %u uid %u: %s (%s)", client->peer.pid, client->peer.uid,
                    message_reason_text(MESSAGE_REASON_LIMIT), client->over_limit);
    return MESSAGE_REASON_LIMIT;
}

enum verdict client_stream_handle_open(struct client *client, const struct message *m,
                                       int fds[MESSAGE_FDS_MAX])
{
    struct front *front = client->front;
    uint32_t index = m->u.stream_open.stream;
    uint32_t algorithm = m->u.stream_open.algorithm;
    uint32_t reason = MESSAGE_OK;
    uint64_t serial = 0;
    (void)fds;

    if (index >= client->n_streams)
        return client_violation(client, "STREAM_OPEN: stream %u out of range", index);
    struct client_stream *stream = &client->streams[index];
    if (stream->state == CLIENT_STREAM_OPENING || stream->state == CLIENT_STREAM_OPEN)
        return client_violation(client, "STREAM_OPEN: stream %u is open", index);
    if (algorithm_get(algorithm) == NULL)
        return client_violation(client, "STREAM_OPEN: unknown algorithm %u", algorithm);
    uint32_t limit = front_streams_per_channel(front);
    if (client->n_pending >= limit)
        return client_violation(client, "STREAM_OPEN: %u openings without waiting for an answer",
                                limit + 1);

    if (!algorithm_is_offered(front, algorithm))
        reason = MESSAGE_REASON_ALGORITHM;
    else if (client->charge.n[ACCOUNT_STREAMS] >= limit)
        reason = MESSAGE_REASON_LIMIT; // its own: no news to anybody else
    else if (client_charge(client, ACCOUNT_STREAMS, 1) < 0)
        reason = stream_over_limit(client);
    else if (relay_stream_open(&front->relay, client->channel, index, algorithm, &serial) < 0) {
        account_charge_sub(&client->charge, ACCOUNT_STREAMS);
        reason = MESSAGE_REASON_INTERNAL;
    }
    if (reason != MESSAGE_OK) {
        stream->state = CLIENT_STREAM_REFUSED;
        return reply_send(client, m->serial, index, reason) < 0 ? VERDICT_CLOSE : VERDICT_KEEP;
    }
    *stream = (struct client_stream){.state = CLIENT_STREAM_OPENING, .serial = serial};
    client->pending[client->n_pending++] =
        (struct client_pending){.serial = serial, .client_serial = m->serial, .stream = index};
    return VERDICT_KEEP;
}

enum verdict client_stream_handle_close(struct client *client, const struct message *m,
                                        int fds[MESSAGE_FDS_MAX])
{
    uint32_t index = m->u.stream_close.stream;
    (void)fds;

    if (index >= client->n_streams)
        return client_violation(client, "STREAM_CLOSE: stream %u out of range", index);
    struct client_stream *stream = &client->streams[index];
    switch (stream->state) {
    case CLIENT_STREAM_CLOSED:
        return client_violation(client, "STREAM_CLOSE: stream %u is not open", index);
    case CLIENT_STREAM_OPENING:
    case CLIENT_STREAM_OPEN:
        relay_stream_close(&client->front->relay, client->channel, index);
        account_charge_sub(&client->charge, ACCOUNT_STREAMS);
        break;
    case CLIENT_STREAM_REFUSED:
        break;
    }
    *stream = (struct client_stream){.state = CLIENT_STREAM_CLOSED};
    return VERDICT_KEEP;
}

// Takes the opening with that serial off the client's list. false: there is none.
static bool pending_take(struct client *client, uint64_t serial, struct client_pending *ret)
{
    for (uint32_t i = 0; i < client->n_pending; i++) {
        if (client->pending[i].serial == serial) {
            *ret = client->pending[i];
            client->pending[i] = client->pending[--client->n_pending];
            return true;
        }
    }
    return false;
}

void client_stream_on_reply(struct front *front, const struct message *m)
{
    const struct message_engine_stream *answer = &m->u.engine_stream;
    uint32_t reason =
        answer->reason < MESSAGE_REASON_COUNT ? answer->reason : (uint32_t)MESSAGE_REASON_INTERNAL;
    struct client *client = client_find_channel(front, answer->channel);
    struct client_pending pending;

    if (client == NULL || !pending_take(client, m->serial, &pending)) {
        log_debug("engine: answer for channel %u that nobody waits for", answer->channel);
        return;
    }
    if (client->state == CLIENT_GONE) {
        client_settle(client);
        return;
    }
    struct client_stream *stream = &client->streams[pending.stream];
    if (stream->state == CLIENT_STREAM_OPENING && stream->serial == pending.serial) {
        if (reason == MESSAGE_OK) {
            stream->state = CLIENT_STREAM_OPEN;
            front->streams_total++;
        } else {
            stream->state = CLIENT_STREAM_REFUSED;
            account_charge_sub(&client->charge, ACCOUNT_STREAMS);
        }
    }
    if (reply_send(client, pending.client_serial, pending.stream, reason) < 0)
        client_close(client);
}
