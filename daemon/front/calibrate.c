// SPDX-License-Identifier: MIT
// Guarantees: only root and the admin group can make the engine measure; a client that leaves
// meanwhile changes nothing.
#include "calibrate.h"

#include "front.h"

#define CALIBRATES_MAX 64u // asked of the engine and not answered, by clients that are gone too

static enum verdict refuse(struct client *client, uint64_t serial, uint32_t reason)
{
    const struct message m = {
        .type = MESSAGE_CALIBRATION_END, .serial = serial, .u.calibration_end = {.reason = reason}};

    return client_send(client, &m) < 0 ? VERDICT_CLOSE : VERDICT_KEEP;
}

enum verdict calibrate_handle(struct client *client, const struct message *m,
                              int fds[MESSAGE_FDS_MAX])
{
    struct front *front = client->front;
    uint64_t serial;
    (void)fds;

    if (client->calibrate.relay_serial != 0)
        return client_violation(client, "CALIBRATE before the last one was answered");
    if (m->u.calibrate.measure > 1)
        return client_violation(client, "CALIBRATE: unknown order %u", m->u.calibrate.measure);
    if (!client->peer.admin)
        return refuse(client, m->serial, MESSAGE_REASON_ACCESS);
    if (front->config.mode != MESSAGE_OK || !relay_is_up(&front->relay))
        return refuse(client, m->serial, MESSAGE_REASON_SOFTWARE);
    if (front->n_calibrates >= CALIBRATES_MAX)
        return refuse(client, m->serial, MESSAGE_REASON_BUSY);
    if (relay_calibrate(&front->relay, m->u.calibrate.measure, &serial) < 0)
        return refuse(client, m->serial, MESSAGE_REASON_INTERNAL);
    front->n_calibrates++;
    client->calibrate.serial = m->serial;
    client->calibrate.relay_serial = serial;
    client_be_patient(client);
    return VERDICT_KEEP;
}

static struct client *find_client(struct front *front, uint64_t relay_serial)
{
    struct client *client = NULL;
    LIST_FOREACH(client, &front->clients, link)
    {
        if (client->state != CLIENT_GONE && client->calibrate.relay_serial == relay_serial &&
            relay_serial != 0)
            return client;
    }
    return NULL;
}

void calibrate_on_message(struct front *front, const struct message *m)
{
    struct client *client = find_client(front, m->serial);
    struct message answer = *m;

    if (m->type == MESSAGE_CALIBRATION_END && front->n_calibrates > 0)
        front->n_calibrates--;
    if (client == NULL)
        return;
    answer.serial = client->calibrate.serial;
    if (m->type == MESSAGE_CALIBRATION_END) {
        client->calibrate = (struct client_calibrate){0};
        client_be_impatient(client);
    }
    if (client_send(client, &answer) < 0)
        client_close(client);
}
