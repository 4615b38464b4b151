// SPDX-License-Identifier: MIT
// Guarantees: messages leave in the order in which they were sent; a front that does not read costs
// a bounded amount of memory. Must not know what the messages mean.
#include "outbox.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>

#include "packet.h"

// One status of a full daemon is some 200 messages; front asks for a new one only after the last.
#define OUTBOX_ITEMS_MAX 8192u

struct outbox_item {
    struct outbox_item *next;
    struct message message;
};

static void fail(struct outbox *outbox, int error)
{
    outbox->on_error(outbox->user, error);
}

static void drop_first(struct outbox *outbox)
{
    struct outbox_item *item = outbox->first;

    outbox->first = item->next;
    outbox->n_items--;
    free(item);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct outbox *outbox = arg;
    int r = 0;

    (void)what;
    while (outbox->first && (r = packet_send(fd, &outbox->first->message, NULL, 0)) == 0)
        drop_first(outbox);
    if (r < 0 && r != -EAGAIN)
        fail(outbox, r);
    else if (outbox->first && event_add(&outbox->writable, NULL) < 0)
        fail(outbox, -EIO);
}

int outbox_init(struct outbox *outbox, struct event_base *base, int fd,
                void (*on_error)(void *user, int error), void *user)
{
    *outbox = (struct outbox){.fd = fd, .on_error = on_error, .user = user};
    return event_assign(&outbox->writable, base, fd, EV_WRITE, on_writable, outbox) < 0 ? -EIO : 0;
}

void outbox_fini(struct outbox *outbox)
{
    (void)event_del(&outbox->writable);
    while (outbox->first)
        drop_first(outbox);
}

static int append(struct outbox *outbox, const struct message *m)
{
    struct outbox_item *item;

    if (outbox->n_items == OUTBOX_ITEMS_MAX)
        return -ENOBUFS;
    item = malloc(sizeof(*item));
    if (!item)
        return -ENOMEM;
    item->next = NULL;
    item->message = *m;
    if (outbox->first)
        outbox->last->next = item;
    else
        outbox->first = item;
    outbox->last = item;
    outbox->n_items++;
    return event_add(&outbox->writable, NULL) < 0 ? -EIO : 0;
}

void outbox_send(struct outbox *outbox, const struct message *m)
{
    int r = outbox->first ? -EAGAIN : packet_send(outbox->fd, m, NULL, 0);

    if (r == -EAGAIN)
        r = append(outbox, m);
    if (r < 0)
        fail(outbox, r);
}
