// SPDX-License-Identifier: MIT
// What goes to the engine is made here, field by field, from checked numbers: no byte of a client
// travels on.
//
// How long the queue can get when the engine stands still: each channel has at most SHM_STREAMS_MAX
// unanswered ENGINE_OPENs, the CLOSEs of those and of as many open streams, one ADD and one REMOVE;
// a new channel needs an answer of the engine first. So at most 100 items a channel, and 64
// ENGINE_CALIBRATEs.
#include "relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calibrate.h"
#include "front.h"
#include "hello.h"
#include "log.h"
#include "packet.h"
#include "client_stream.h"

#define QUEUE_MAX       65536u // items; the default 128 channels cannot reach a fifth of it
#define READS_PER_EVENT 64

struct relay_item { // a message that waits; small, because many may
    STAILQ_ENTRY(relay_item) link;
    enum message_type type;
    uint64_t serial;
    int fds[2]; // owned; -1: none
    union {
        struct message_channel_add channel_add;
        struct message_channel channel;
        struct message_engine_stream engine_stream;
        struct message_calibrate calibrate;
    } u;
};

// error 0: there is no more to say.
static void relay_fail(struct relay *relay, const char *what, int error)
{
    if (error == 0)
        log_error("the engine %s", what);
    else
        log_error("the engine %s: %s", what, strerror(-error));
    front_stop(relay->front, EXIT_FAILURE);
}

static void item_close(struct relay_item *item)
{
    for (size_t i = 0; i < 2; i++) {
        if (item->fds[i] >= 0)
            close(item->fds[i]);
        item->fds[i] = -1;
    }
}

static int item_send(const struct relay *relay, const struct relay_item *item)
{
    struct message m = {.type = item->type, .serial = item->serial};
    switch (item->type) {
    case MESSAGE_CHANNEL_ADD:
        m.u.channel_add = item->u.channel_add;
        break;
    case MESSAGE_CHANNEL_REMOVE:
        m.u.channel = item->u.channel;
        break;
    case MESSAGE_ENGINE_OPEN:
    case MESSAGE_ENGINE_CLOSE:
        m.u.engine_stream = item->u.engine_stream;
        break;
    case MESSAGE_ENGINE_CALIBRATE:
        m.u.calibrate = item->u.calibrate;
        break;
    default: // ENGINE_STATUS has no fields
        break;
    }
    return packet_send(relay->fd, &m, item->fds, item->fds[0] >= 0 ? 2 : 0);
}

// Takes the item's descriptors, on failure too.
static int relay_put(struct relay *relay, struct relay_item *item)
{
    int r = STAILQ_EMPTY(&relay->queue) ? item_send(relay, item) : -EAGAIN;
    if (r != -EAGAIN) {
        item_close(item);
        return r;
    }
    struct relay_item *copy = relay->n_queued < QUEUE_MAX ? malloc(sizeof(*copy)) : NULL;
    if (copy == NULL || event_add(&relay->write_event, NULL) < 0) {
        free(copy);
        item_close(item);
        return -ENOBUFS;
    }
    *copy = *item;
    STAILQ_INSERT_TAIL(&relay->queue, copy, link);
    relay->n_queued++;
    return 0;
}

static void relay_drop_head(struct relay *relay)
{
    struct relay_item *item = STAILQ_FIRST(&relay->queue);
    STAILQ_REMOVE_HEAD(&relay->queue, link);
    relay->n_queued--;
    item_close(item);
    free(item);
}

static void relay_on_writable(evutil_socket_t fd, short what, void *data)
{
    struct relay *relay = data;
    (void)fd;
    (void)what;
    while (!STAILQ_EMPTY(&relay->queue)) {
        int r = item_send(relay, STAILQ_FIRST(&relay->queue));
        if (r == -EAGAIN)
            return;
        if (r < 0) {
            relay_fail(relay, "cannot be told anything", r);
            return;
        }
        relay_drop_head(relay);
    }
    event_del(&relay->write_event);
}

static void relay_on_offer(struct front *front, const struct message *m)
{
    front_on_offer(front, &m->u.engine_offer);
}

static const struct {
    enum message_type type;
    void (*handle)(struct front *front, const struct message *m);
} handlers[] = {
    {MESSAGE_CHANNEL_REPLY, hello_on_reply},
    {MESSAGE_CHANNEL_FAULT, hello_on_fault},
    {MESSAGE_ENGINE_REPLY, client_stream_on_reply},
    {MESSAGE_ENGINE_OFFER, relay_on_offer},
    {MESSAGE_ENGINE_SUMMARY, report_on_summary},
    {MESSAGE_STATUS_ALGORITHM, report_on_algorithm},
    {MESSAGE_ENGINE_CHANNEL, report_on_channel},
    {MESSAGE_STATUS_END, report_on_end},
    {MESSAGE_CALIBRATION, calibrate_on_message},
    {MESSAGE_CALIBRATION_END, calibrate_on_message},
    {MESSAGE_CALIBRATION_PROGRESS, calibrate_on_message},
    {MESSAGE_STATUS_NOTE, report_on_note},
};

static void relay_dispatch(struct relay *relay, const struct message *m)
{
    for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
        if (handlers[i].type == m->type) {
            handlers[i].handle(relay->front, m);
            return;
        }
    }
    relay_fail(relay, "sends what it must not", 0);
}

static void relay_on_readable(evutil_socket_t fd, short what, void *data)
{
    struct relay *relay = data;
    (void)what;
    for (int i = 0; i < READS_PER_EVENT; i++) {
        struct message m;
        int fds[MESSAGE_FDS_MAX];
        int r = packet_recv(fd, MESSAGE_ENGINE_TO_FRONT, &m, fds);
        if (r == -EAGAIN)
            return;
        if (r < 0) {
            relay_fail(relay, r == -ENODATA ? "is gone" : "cannot be understood",
                       r == -ENODATA ? 0 : r);
            return;
        }
        relay_dispatch(relay, &m); // the table gives no message of the engine a descriptor
    }
}

int relay_init(struct relay *relay, struct front *front, int fd)
{
    *relay = (struct relay){.front = front, .fd = fd};
    STAILQ_INIT(&relay->queue);
    if (fd < 0)
        return 0;
    if (evutil_make_socket_nonblocking(fd) < 0)
        return -errno;
    if (event_assign(&relay->read_event, front->base, fd, EV_READ | EV_PERSIST, relay_on_readable,
                     relay) < 0 ||
        event_assign(&relay->write_event, front->base, fd, EV_WRITE | EV_PERSIST, relay_on_writable,
                     relay) < 0 ||
        event_add(&relay->read_event, NULL) < 0)
        return -ENOMEM;
    return 0;
}

void relay_fini(struct relay *relay)
{
    if (event_initialized(&relay->read_event))
        event_del(&relay->read_event);
    if (event_initialized(&relay->write_event))
        event_del(&relay->write_event);
    while (!STAILQ_EMPTY(&relay->queue))
        relay_drop_head(relay);
    if (relay->fd >= 0)
        close(relay->fd);
    relay->fd = -1;
}

bool relay_is_up(const struct relay *relay)
{
    return relay->fd >= 0;
}

int relay_channel_add(struct relay *relay, const struct message_channel_add *add, int fds[2],
                      uint64_t *ret_serial)
{
    struct relay_item item = {
        .type = MESSAGE_CHANNEL_ADD,
        .serial = ++relay->serial,
        .fds = {fds[0], fds[1]},
        .u.channel_add = *add,
    };
    fds[0] = fds[1] = -1;
    int r = relay_put(relay, &item);
    if (r == 0)
        *ret_serial = item.serial;
    return r;
}

int relay_stream_open(struct relay *relay, uint32_t channel, uint32_t stream, uint32_t algorithm,
                      uint64_t *ret_serial)
{
    struct relay_item item = {
        .type = MESSAGE_ENGINE_OPEN,
        .serial = ++relay->serial,
        .fds = {-1, -1},
        .u.engine_stream = {.channel = channel, .stream = stream, .algorithm = algorithm},
    };
    int r = relay_put(relay, &item);
    if (r == 0)
        *ret_serial = item.serial;
    return r;
}

int relay_status(struct relay *relay, uint64_t *ret_serial)
{
    struct relay_item item = {
        .type = MESSAGE_ENGINE_STATUS,
        .serial = ++relay->serial,
        .fds = {-1, -1},
    };
    int r = relay_put(relay, &item);
    if (r == 0)
        *ret_serial = item.serial;
    return r;
}

int relay_calibrate(struct relay *relay, uint32_t measure, uint64_t *ret_serial)
{
    struct relay_item item = {
        .type = MESSAGE_ENGINE_CALIBRATE,
        .serial = ++relay->serial,
        .fds = {-1, -1},
        .u.calibrate = {.measure = measure},
    };
    int r = relay_put(relay, &item);
    if (r == 0)
        *ret_serial = item.serial;
    return r;
}

void relay_channel_remove(struct relay *relay, uint32_t channel)
{
    struct relay_item item = {
        .type = MESSAGE_CHANNEL_REMOVE,
        .serial = ++relay->serial,
        .fds = {-1, -1},
        .u.channel = {.channel = channel},
    };
    int r = relay_put(relay, &item);
    if (r < 0)
        relay_fail(relay, "cannot be told to remove a channel", r);
}

void relay_stream_close(struct relay *relay, uint32_t channel, uint32_t stream)
{
    struct relay_item item = {
        .type = MESSAGE_ENGINE_CLOSE,
        .serial = ++relay->serial,
        .fds = {-1, -1},
        .u.engine_stream = {.channel = channel, .stream = stream},
    };
    int r = relay_put(relay, &item);
    if (r < 0)
        relay_fail(relay, "cannot be told to close a stream", r);
}
