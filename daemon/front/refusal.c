// SPDX-License-Identifier: MIT
// Each question has an answer with a reason in it; which one is the table here.
#include "refusal.h"

#include <errno.h>
#include <unistd.h>

#include "front.h"
#include "log.h"
#include "packet.h"

int refusal_read(int fd, struct message *ret)
{
    uint8_t buf[MESSAGE_LEN_MAX + 1]; // one more: what is too long does not look as if it were not
    ssize_t n = read(fd, buf, sizeof(buf));
    if (n < 0)
        return -errno;
    return n == 0 ? -ENODATA : message_decode(buf, (size_t)n, MESSAGE_CLIENT_TO_FRONT, ret);
}

void refusal_note(struct client *client, uint32_t reason)
{
    const bool is_limit = reason == MESSAGE_REASON_LIMIT || reason == MESSAGE_REASON_SIZE ||
                          reason == MESSAGE_REASON_CONNECTS;
    const char *limit = is_limit ? client->over_limit : NULL;

    client->front->refused_total++;
    complaint_write(&client->front->complaint,
                    reason == MESSAGE_REASON_SOFTWARE ? LOG_LEVEL_DEBUG : LOG_LEVEL_NOTICE,
                    "client refused: pid %u uid %u: %s%s%s%s", client->peer.pid, client->peer.uid,
                    message_reason_text(reason), limit != NULL ? " (" : "",
                    limit != NULL ? limit : "", limit != NULL ? ")" : "");
}

void refusal_send(struct client *client, const struct message *question, uint32_t reason)
{
    struct message m = {.type = MESSAGE_HELLO_REPLY, .serial = question->serial};

    switch (question->type) {
    case MESSAGE_STATUS:
        m.type = MESSAGE_STATUS_END;
        m.u.status_end.reason = reason;
        break;
    case MESSAGE_CALIBRATE:
        m.type = MESSAGE_CALIBRATION_END;
        m.u.calibration_end.reason = reason;
        break;
    default:
        m.u.hello_reply.reason = reason;
        break;
    }
    (void)packet_send(client->fd, &m, NULL, 0);
}

enum verdict refusal_answer(struct client *client, const struct message *question)
{
    refusal_note(client, client->refusal);
    refusal_send(client, question, client->refusal);
    return VERDICT_CLOSE;
}

void refusal_part(struct client *client, uint32_t reason)
{
    struct message question;

    if (refusal_read(client->fd, &question) < 0)
        question = (struct message){.type = MESSAGE_HELLO};
    client->refusal = reason;
    (void)refusal_answer(client, &question);
}
