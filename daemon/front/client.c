// SPDX-License-Identifier: MIT
// Guarantees that nothing of a client outlives it: one function gives back all that it had,
// whatever its state.
#include "client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dispatch.h"
#include "front.h"
#include "log.h"
#include "packet.h"
#include "refusal.h"

#define SILENCE_S     10 // without a channel
#define SLOW_READER_S 10 // without taking a single row

static void client_on_readable(evutil_socket_t fd, short what, void *data)
{
    struct client *client = data;
    (void)fd;
    if ((what & EV_TIMEOUT) != 0) {
        log_debug("client closed: pid %u uid %u: silent", client->peer.pid, client->peer.uid);
        client_close(client);
        return;
    }
    if (dispatch_receive(client) == VERDICT_CLOSE)
        client_close(client);
}

static void client_on_writable(evutil_socket_t fd, short what, void *data)
{
    struct client *client = data;
    (void)fd;
    if ((what & EV_TIMEOUT) != 0)
        client_violation(client, "does not read its answers");
    else if (report_flush(client) == 0)
        return;
    client_close(client);
}

static int client_watch(struct client *client)
{
    const struct timeval silence = {.tv_sec = SILENCE_S};
    struct event_base *base = client->front->base;

    if (event_assign(&client->read_event, base, client->fd, EV_READ | EV_PERSIST,
                     client_on_readable, client) < 0 ||
        event_assign(&client->write_event, base, client->fd, EV_WRITE | EV_PERSIST,
                     client_on_writable, client) < 0 ||
        event_add(&client->read_event, &silence) < 0)
        return -ENOMEM;
    return 0;
}

static void client_free(struct client *client)
{
    account_charge_fini(&client->charge);
    LIST_REMOVE(client, link);
    free(client);
}

static void client_admit(struct client *client, const struct timespec *now)
{
    uint64_t now_ns = (uint64_t)now->tv_sec * 1000000000u + (uint64_t)now->tv_nsec;
    int r = rate_take(&client->front->rate, client->peer.uid, now_ns);

    if (r == 0)
        return;
    client->refusal = MESSAGE_REASON_CONNECTS;
    client->over_limit = r == -EDQUOT ? "connects_per_uid" : "connects_max";
}

int client_new(struct front *front, int fd)
{
    struct timespec now;
    struct client *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        close(fd);
        return -ENOMEM;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    client->front = front;
    client->fd = fd;
    client->state = CLIENT_NEW;
    client->opened_s = now.tv_sec;
    LIST_INSERT_HEAD(&front->clients, client, link);
    front->n_fds++;

    int r = access_identify(fd, &front->config, &client->peer);
    if (r == 0)
        r = account_charge_init(front->account, client->peer.uid, &client->charge);
    if (r == 0) {
        client_admit(client, &now);
        r = client_charge(client, ACCOUNT_CONNECTIONS, 1);
        if (r < 0)
            refusal_part(client, MESSAGE_REASON_CONNECTS);
    }
    if (r == 0)
        r = client_watch(client);
    if (r < 0) {
        if (client->refusal == MESSAGE_OK)
            complaint_write(&front->complaint, LOG_LEVEL_NOTICE,
                            "client refused: pid %u uid %u: %s", client->peer.pid, client->peer.uid,
                            strerror(-r));
        client_close(client);
    }
    return r;
}

int client_charge(struct client *client, enum account_kind kind, uint64_t n)
{
    int r = account_charge_add_many(&client->charge, kind, n);

    if (r < 0)
        client->over_limit = account_limit_name(kind, r);
    return r;
}

void client_close(struct client *client)
{
    struct front *front = client->front;

    report_forget(client);
    if (event_initialized(&client->read_event))
        event_del(&client->read_event);
    if (event_initialized(&client->write_event))
        event_del(&client->write_event);
    close(client->fd);
    client->fd = -1;
    front->n_fds--;
    if (client->channel != 0)
        relay_channel_remove(&front->relay, client->channel);
    client->state = CLIENT_GONE;
    client_settle(client);
    acceptor_wake(&front->acceptor);
}

void client_settle(struct client *client)
{
    if (client->state == CLIENT_GONE && client->add_serial == 0 && client->n_pending == 0)
        client_free(client);
}

struct client *client_find_channel(struct front *front, uint32_t channel)
{
    struct client *client = NULL;
    LIST_FOREACH(client, &front->clients, link)
    {
        if (client->channel == channel && channel != 0)
            return client;
    }
    return NULL;
}

int client_send(struct client *client, const struct message *m)
{
    int r = packet_send(client->fd, m, NULL, 0);
    if (r == -EAGAIN)
        client_violation(client, "does not read its answers");
    return r;
}

enum verdict client_violation(struct client *client, const char *reason, ...)
{
    char text[256];
    va_list args;

    va_start(args, reason);
    vsnprintf(text, sizeof(text), reason, args);
    va_end(args);
    client->front->violations_total++;
    complaint_write(&client->front->complaint, LOG_LEVEL_WARNING,
                    "client closed: pid %u uid %u: %s", client->peer.pid, client->peer.uid, text);
    return VERDICT_CLOSE;
}

int client_want_write(struct client *client, bool on)
{
    const struct timeval patience = {.tv_sec = SLOW_READER_S};
    int r = on ? event_add(&client->write_event, &patience) : event_del(&client->write_event);
    return r < 0 ? -ENOMEM : 0;
}

void client_be_patient(struct client *client)
{
    event_remove_timer(&client->read_event);
}

void client_be_impatient(struct client *client)
{
    const struct timeval silence = {.tv_sec = SILENCE_S};

    if (client->channel == 0)
        (void)event_add(&client->read_event, &silence); // it is pending: nothing can fail
}
