// SPDX-License-Identifier: MIT
// The only place where bytes of a client are parsed: packet_recv() checks the layout, the table
// here the state.
#include "dispatch.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "calibrate.h"
#include "hello.h"
#include "packet.h"
#include "refusal.h"
#include "client_stream.h"

#define READS_PER_EVENT 8 // so that one busy client does not starve the others

static const struct {
    enum message_type type;
    unsigned states; // bits of enum client_state
    enum verdict (*handle)(struct client *client, const struct message *m,
                           int fds[MESSAGE_FDS_MAX]);
} handlers[] = {
    {MESSAGE_HELLO, CLIENT_NEW, hello_handle},
    {MESSAGE_STREAM_OPEN, CLIENT_OPEN, client_stream_handle_open},
    {MESSAGE_STREAM_CLOSE, CLIENT_OPEN, client_stream_handle_close},
    {MESSAGE_STATUS, CLIENT_NEW | CLIENT_ASKED | CLIENT_OPEN, report_handle_status},
    {MESSAGE_CALIBRATE, CLIENT_NEW | CLIENT_ASKED | CLIENT_OPEN, calibrate_handle},
};

static enum verdict dispatch_message(struct client *client, const struct message *m,
                                     int fds[MESSAGE_FDS_MAX])
{
    for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
        if (handlers[i].type != m->type)
            continue;
        if ((handlers[i].states & client->state) == 0)
            return client_violation(client, "%s out of order", message_info(m->type)->name);
        if (client->refusal != MESSAGE_OK)
            return refusal_answer(client, m);
        return handlers[i].handle(client, m, fds);
    }
    return client_violation(client, "message type %d not served", (int)m->type);
}

// A peer that may not open a channel has no use for descriptors.
static bool may_pass_fds(const struct client *client)
{
    return client->peer.allowed && client->refusal == MESSAGE_OK;
}

enum verdict dispatch_receive(struct client *client)
{
    for (int i = 0; i < READS_PER_EVENT; i++) {
        struct message m = {0};
        int fds[MESSAGE_FDS_MAX] = {-1, -1};
        int r = may_pass_fds(client) ? packet_recv(client->fd, MESSAGE_CLIENT_TO_FRONT, &m, fds)
                                     : refusal_read(client->fd, &m);
        if (r == -EAGAIN || r == -EINTR)
            return VERDICT_KEEP;
        if (r == -ENODATA || r == -ECONNRESET)
            return VERDICT_CLOSE; // it has left
        if (r == -EBADMSG)
            return client_violation(client, "malformed message or wrong descriptors");
        if (r < 0)
            return client_violation(client, "cannot receive: %s", strerror(-r));

        enum verdict verdict = dispatch_message(client, &m, fds);
        for (size_t j = 0; j < MESSAGE_FDS_MAX; j++) {
            if (fds[j] >= 0)
                close(fds[j]);
        }
        if (verdict != VERDICT_KEEP)
            return verdict;
    }
    return VERDICT_KEEP;
}
