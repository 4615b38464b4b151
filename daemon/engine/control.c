// SPDX-License-Identifier: MIT
// The loop itself. Guarantees: it never waits for a worker, front or the monitor, and for a driver
// (when a key is set) a quarter of a second once, so that a PING is answered whatever a driver does
// to the workers. Must not know how the work is done.
#include "control.h"

#include <errno.h>
#include <event2/thread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control_impl.h"
#include "log.h"
#include "packet.h"

#define MESSAGES_PER_TURN 64   // so that neither front nor the monitor waits for the other
#define STOP_WAIT_MS      1000 // for requests that run

void control_exit(struct control *control, int status)
{
    control->exit_status = status;
    event_base_loopbreak(control->base);
}

// ---------------------------------------------------------------- front

static void handle_front(struct control *control, const struct message *m, int fds[MESSAGE_FDS_MAX])
{
    switch (m->type) {
    case MESSAGE_CHANNEL_ADD:
        control_add_channel(control, m, fds);
        break;
    case MESSAGE_CHANNEL_REMOVE:
        control_remove_channel(control, m);
        break;
    case MESSAGE_ENGINE_OPEN:
        control_open_stream(control, m);
        break;
    case MESSAGE_ENGINE_CLOSE:
        control_close_stream(control, m);
        break;
    case MESSAGE_ENGINE_STATUS:
        control_send_status(control, m->serial);
        break;
    case MESSAGE_ENGINE_CALIBRATE:
        control_calibrate(control, m);
        break;
    default:
        log_error("front sent a %s message", message_info(m->type)->name);
        control_exit(control, 1);
    }
}

static void on_front(evutil_socket_t fd, short what, void *arg)
{
    struct control *control = arg;
    struct message m;

    (void)what;
    for (int i = 0; i < MESSAGES_PER_TURN && !event_base_got_break(control->base); i++) {
        int fds[MESSAGE_FDS_MAX];
        int r = packet_recv(fd, MESSAGE_FRONT_TO_ENGINE, &m, fds);

        if (r == -EAGAIN || r == -EINTR)
            return;
        if (r < 0) {
            if (r == -ENODATA)
                log_notice("front is gone");
            else
                log_error("front: %s", strerror(-r));
            control_exit(control, r == -ENODATA ? 0 : 1);
            return;
        }
        handle_front(control, &m, fds);
        for (size_t k = 0; k < MESSAGE_FDS_MAX; k++)
            if (fds[k] >= 0)
                close(fds[k]);
    }
}

static void on_outbox_error(void *user, int error)
{
    struct control *control = user;

    log_error("cannot send to front: %s", strerror(-error));
    control_exit(control, 1);
}

// ---------------------------------------------------------------- monitor

void control_decide(struct control *control)
{
    offer_decide(control->offer, control->config.offload, control->config.request_min);
    control_send_offer(control);
}

static void apply_fault(struct control *control, const char *fault)
{
    if (strcmp(control->config.fault, fault) == 0)
        return;
    if (offer_reorder(control->offer, fault) < 0) {
        log_error("key 'fault': '%s' is no order; the old one stays", fault);
        return;
    }
    memcpy(control->config.fault, fault, sizeof(control->config.fault));
}

// Of a new configuration only what concerns the engine and needs no new start.
static void apply_config(struct control *control, const struct message_role_config *config)
{
    control->config.log_level = config->log_level;
    control->config.channels_max = config->channels_max;
    control->config.streams_per_channel = config->streams_per_channel;
    control->config.slots_per_channel = config->slots_per_channel;
    control->config.idle_s = config->idle_s;
    control->config.offload = config->offload;
    control->config.request_min = config->request_min;
    control->config.locked_memory_max = config->locked_memory_max;
    control->config.locked_memory_per_uid = config->locked_memory_per_uid;
    control->config.requests_max = config->requests_max;
    control->config.requests_per_uid = config->requests_per_uid;
    control_quota_set_limits(control);
    log_init("engine", config->log_level);
    apply_fault(control, config->fault);
    control_decide(control);
    control_calibrate_missing(control);
}

static void on_monitor(evutil_socket_t fd, short what, void *arg)
{
    struct control *control = arg;
    int fds[MESSAGE_FDS_MAX];
    struct message m;
    int r = packet_recv(fd, MESSAGE_MONITOR_TO_ROLE, &m, fds);

    (void)what;
    if (r == -EAGAIN || r == -EINTR)
        return;
    if (r < 0) {
        const bool gone = r == -ENODATA || r == -ECONNRESET; // with messages of ours unread

        if (!gone)
            log_error("monitor: %s", strerror(-r));
        control_exit(control, gone ? 0 : 1);
    } else if (m.type == MESSAGE_PING) {
        m.type = MESSAGE_PONG;              // with the same serial
        (void)packet_send(fd, &m, NULL, 0); // a monitor that does not read needs no answer
    } else if (m.type == MESSAGE_ROLE_CONFIG) {
        apply_config(control, &m.u.role_config);
    } else {
        log_error("monitor sent a %s message", message_info(m.type)->name);
        control_exit(control, 1);
    }
}

// ---------------------------------------------------------------- workers

static void on_fault_event(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    control_report_faults(arg);
}

static void on_distrust_event(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    control_report_distrust(arg);
}

static void on_tend_event(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    control_tend_channels(arg);
}

// In a worker's thread.
static void on_worker_fault(void *user)
{
    struct control *control = user;

    event_active(&control->fault, EV_READ, 0);
}

// In a worker's thread.
static void on_worker_distrust(void *user)
{
    struct control *control = user;

    event_active(&control->distrust, EV_READ, 0);
}

// In a worker's thread.
static void on_worker_busy(void *user)
{
    control_watch_begin(user);
}

// ---------------------------------------------------------------- life

static int make_loop(struct control *control)
{
    if (evthread_use_pthreads() < 0)
        return -ENOMEM;
    control->base = event_base_new();
    if (!control->base)
        return -ENOMEM;
    if (evutil_make_socket_nonblocking(control->front_fd) < 0 ||
        evutil_make_socket_nonblocking(control->monitor_fd) < 0)
        return -EBADF;
    if (event_assign(&control->from_front, control->base, control->front_fd, EV_READ | EV_PERSIST,
                     on_front, control) < 0 ||
        event_assign(&control->from_monitor, control->base, control->monitor_fd,
                     EV_READ | EV_PERSIST, on_monitor, control) < 0 ||
        event_assign(&control->fault, control->base, -1, 0, on_fault_event, control) < 0 ||
        event_assign(&control->distrust, control->base, -1, 0, on_distrust_event, control) < 0 ||
        evtimer_assign(&control->tend, control->base, on_tend_event, control) < 0 ||
        event_add(&control->from_front, NULL) < 0 || event_add(&control->from_monitor, NULL) < 0)
        return -EIO;
    return 0;
}

int control_new(const struct control_settings *settings, struct control **ret)
{
    struct control *control = calloc(1, sizeof(*control));
    const struct worker_settings workers = {
        .n_workers = settings->n_workers,
        .spin_us = settings->config->spin_us,
        .on_fault = on_worker_fault,
        .verify = settings->config->verify,
        .on_distrust = on_worker_distrust,
        .on_busy = on_worker_busy,
        .user = control,
    };
    int r;

    if (!control)
        return -ENOMEM;
    control->config = *settings->config;
    control->offer = settings->offer;
    control->key = *settings->key;
    control->front_fd = settings->front_fd;
    control->monitor_fd = settings->monitor_fd;
    r = make_loop(control);
    if (r == 0)
        r = outbox_init(&control->outbox, control->base, control->front_fd, on_outbox_error,
                        control);
    control->outbox_ready = r == 0;
    if (r == 0)
        r = control_watch_init(control);
    if (r == 0)
        r = control_calibration_init(control);
    if (r == 0)
        r = worker_pool_new(&workers, &control->pool);
    if (r == 0)
        r = control_quota_init(control);
    if (r < 0) {
        control_free(control);
        return r;
    }
    *ret = control;
    return 0;
}

int control_start(struct control *control)
{
    return worker_pool_start(control->pool);
}

int control_run(struct control *control)
{
    control_send_offer(control);
    control_calibrate_missing(control);
    if (event_base_dispatch(control->base) < 0)
        return 1;
    return control->exit_status;
}

bool control_stop(struct control *control)
{
    const bool measures = !control_calibration_stop(control);

    control_remove_all(control);
    return worker_pool_stop(control->pool, STOP_WAIT_MS) && !measures;
}

void control_free(struct control *control)
{
    if (!control)
        return;
    worker_pool_free(control->pool);
    control_calibration_fini(control);
    if (control->outbox_ready)
        outbox_fini(&control->outbox);
    if (control->base)
        event_base_free(control->base);
    free(control);
}
