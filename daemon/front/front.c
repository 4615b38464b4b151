// SPDX-License-Identifier: MIT
// The process that faces the clients. It has a uid of its own, no root directory, no way to make a
// socket, and no key: keys lie in the shared memory, which it never maps. What it says to the
// engine it makes anew from checked fields. One thread, one event base; nothing here waits for
// anybody.
//
// What it may still call after the sandbox is on, and why: sandbox/policy_front.c.
#include "front.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "log.h"
#include "packet.h"
#include "role.h"
#include "sandbox.h"

// Connections without a channel: they live for seconds, so few are enough. sshd starts many at once
// as root.
#define CONNECTIONS_MAX     256u
#define CONNECTIONS_PER_UID 64u
#define CONNECTIONS_ROOT    64u

// A message with descriptors that finds no room for them looks like one that broke the rules. So
// room is kept, and clients wait in the backlog instead.
#define FDS_OWN   16u // standard ones, monitor, engine, listener, those of the event base
#define FDS_SPARE 8u

uint32_t front_streams_per_channel(const struct front *front)
{
    uint32_t n = front->config.streams_per_channel;
    return n < SHM_STREAMS_MAX ? n : SHM_STREAMS_MAX;
}

uint32_t front_slots_per_channel(const struct front *front)
{
    uint32_t n = front->config.slots_per_channel;
    return n < SHM_SLOTS_MAX ? n : SHM_SLOTS_MAX;
}

bool front_is_short_of_fds(const struct front *front)
{
    uint64_t n = (uint64_t)front->n_fds + 2 * (uint64_t)front->relay.n_queued;
    return n + FDS_OWN + FDS_SPARE >= front->fd_limit;
}

static uint64_t no_limit_if_zero(uint32_t limit)
{
    return limit > 0 ? limit : UINT64_MAX;
}

static void front_set_limits(struct front *front, const struct message_role_config *config)
{
    front->config = *config;
    const struct account_limit connections = {CONNECTIONS_MAX, CONNECTIONS_PER_UID,
                                              CONNECTIONS_ROOT};
    const struct account_limit channels = {config->channels_max, config->channels_per_uid, 0};
    const struct account_limit streams = {no_limit_if_zero(config->streams_max),
                                          no_limit_if_zero(config->streams_per_uid), 0};
    const struct account_limit memory = {no_limit_if_zero(config->shared_memory_max),
                                         no_limit_if_zero(config->shared_memory_per_uid), 0};
    account_set_limit(front->account, ACCOUNT_CONNECTIONS, &connections);
    account_set_limit(front->account, ACCOUNT_CHANNELS, &channels);
    account_set_limit(front->account, ACCOUNT_STREAMS, &streams);
    account_set_limit(front->account, ACCOUNT_SHARED_MEMORY, &memory);
    rate_set_limit(&front->rate, config->connects_max, config->connects_per_uid);
}

// ---------------------------------------------------------------- the monitor

static int monitor_send(struct front *front, enum message_type type, uint64_t serial)
{
    struct message m = {.type = type, .serial = serial};
    return packet_send(front->monitor_fd, &m, NULL, 0);
}

static void monitor_handle(struct front *front, const struct message *m)
{
    switch (m->type) {
    case MESSAGE_PING:
        monitor_send(front, MESSAGE_PONG,
                     m->serial); // a monitor that does not read has its own trouble
        break;
    case MESSAGE_ROLE_CONFIG:
        front_set_limits(front, &m->u.role_config);
        log_init("front", m->u.role_config.log_level);
        log_info("new configuration");
        break;
    case MESSAGE_STATUS_NOTE:
        report_on_note(front, m);
        break;
    default:
        log_error("monitor: unexpected message");
        front_stop(front, EXIT_FAILURE);
        break;
    }
}

static void monitor_on_readable(evutil_socket_t fd, short what, void *data)
{
    struct front *front = data;
    struct message m;
    int fds[MESSAGE_FDS_MAX];
    (void)what;

    int r = packet_recv(fd, MESSAGE_MONITOR_TO_ROLE, &m, fds);
    if (r == 0) {
        monitor_handle(front, &m); // the table gives no message of the monitor a descriptor
    } else if (r == -ENODATA || r == -ECONNRESET) {
        front_stop(front, EXIT_SUCCESS);
    } else if (r != -EAGAIN) {
        log_error("monitor: cannot receive: %s", strerror(-r));
        front_stop(front, EXIT_FAILURE);
    }
}

// Clients are accepted only now: before, they would be told that nothing is offered.
static void front_become_ready(struct front *front)
{
    front->ready = true;
    int r = acceptor_start(&front->acceptor);
    if (r == 0)
        r = monitor_send(front, MESSAGE_ROLE_READY, 0);
    if (r < 0) {
        log_error("cannot start to serve: %s", strerror(-r));
        front_stop(front, EXIT_FAILURE);
    }
}

void front_on_offer(struct front *front, const struct message_engine_offer *offer)
{
    memcpy(front->offers, offer->offer, sizeof(front->offers));
    if (front->config.offload == CONFIG_OFFLOAD_OFF)
        memset(front->offers, 0, sizeof(front->offers));
    if (!front->ready)
        front_become_ready(front);
}

// ---------------------------------------------------------------- life

static int front_make_base(struct front *front)
{
    struct event_config *config = event_config_new();
    if (config == NULL)
        return -ENOMEM;
    // No locks: one thread. No environment: it must not choose how we wait. No precise timers: they
    // take a timerfd.
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV);
    front->base = event_base_new_with_config(config);
    event_config_free(config);
    return front->base != NULL ? 0 : -ENOMEM;
}

int front_init(struct front *front, const struct message_role_config *config, int monitor_fd,
               int engine_fd, int listener_fd)
{
    struct utsname system;
    struct rlimit limit;

    // Whatever fails below, front_fini() closes all three.
    *front = (struct front){
        .monitor_fd = monitor_fd,
        .relay.fd = engine_fd,
        .acceptor.fd = listener_fd,
    };
    LIST_INIT(&front->clients);
    STAILQ_INIT(&front->relay.queue);
    front->fd_limit = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
    if (uname(&system) == 0)
        memcpy(front->kernel, system.release, strnlen(system.release, sizeof(front->kernel) - 1));

    int r = front_make_base(front);
    if (r == 0)
        r = relay_init(&front->relay, front, engine_fd);
    if (r == 0)
        r = acceptor_init(&front->acceptor, front, listener_fd);
    if (r == 0)
        r = account_new(&front->account);
    if (r == 0)
        r = report_init(&front->report, front);
    if (r < 0)
        return r;
    front_set_limits(front, config);
    if (evutil_make_socket_nonblocking(monitor_fd) < 0)
        return -errno;
    if (event_assign(&front->monitor_event, front->base, monitor_fd, EV_READ | EV_PERSIST,
                     monitor_on_readable, front) < 0 ||
        event_add(&front->monitor_event, NULL) < 0)
        return -ENOMEM;
    return 0;
}

void front_fini(struct front *front)
{
    struct client *client = NULL;

    // The engine gives everything up when the link ends; it is not told, and its answers do not
    // come any more.
    while ((client = LIST_FIRST(&front->clients)) != NULL) {
        client->channel = 0;
        client->add_serial = 0;
        client->n_pending = 0;
        if (client->state == CLIENT_GONE)
            client_settle(client);
        else
            client_close(client);
    }
    report_fini(&front->report);
    acceptor_fini(&front->acceptor);
    relay_fini(&front->relay);
    if (event_initialized(&front->monitor_event))
        event_del(&front->monitor_event);
    if (front->monitor_fd >= 0)
        close(front->monitor_fd);
    account_free(front->account);
    if (front->base != NULL)
        event_base_free(front->base);
}

int front_run(struct front *front)
{
    if (!relay_is_up(&front->relay))
        front_become_ready(front);
    if (front->exit_status == 0 && event_base_dispatch(front->base) < 0)
        front->exit_status = EXIT_FAILURE;
    return front->exit_status;
}

void front_stop(struct front *front, int exit_status)
{
    front->exit_status = exit_status;
    event_base_loopbreak(front->base);
}

static int front_enter_sandbox(struct front *front)
{
    char limit[96], note[192];
    int r =
        sandbox_drop_privileges(SANDBOX_ROOT_NOWHERE, front->config.uid, front->config.gid, false);
    if (r < 0)
        return r;
    sandbox_describe_limit(sandbox_limit_files(NULL, 0), limit, sizeof(limit));
    snprintf(note, sizeof(note), "seccomp, empty root, %s, %s", limit,
             sandbox_describe_capabilities());
    report_set_note(&front->report, "front", note);
    log_info("sandbox: %s", note);
    return sandbox_load(SANDBOX_FRONT, sandbox_action_get());
}

// Room for a client's descriptor, and for two more that wait on the way to a busy engine, for each
// channel.
static void front_raise_fd_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit); // if it fails the acceptor rests more often
    }
}

int front_main(void)
{
    struct message_role_config config = {0};
    struct front front;

    int r = sandbox_harden_process();
    if (r == 0)
        r = role_receive_config(ROLE_FD_LISTENER + 1, &config);
    if (r < 0) {
        log_error("cannot start: %s", strerror(-r));
        return EXIT_FAILURE;
    }
    log_init("front", config.log_level);
    signal(SIGPIPE, SIG_IGN); // a reader of our log that is gone
    signal(SIGINT, SIG_IGN);  // a terminal tells the whole group; the monitor decides
    signal(SIGHUP, SIG_IGN);
    front_raise_fd_limit();

    r = front_init(&front, &config, ROLE_FD_MONITOR, config.mode == MESSAGE_OK ? ROLE_FD_PEER : -1,
                   ROLE_FD_LISTENER);
    if (r == 0)
        r = front_enter_sandbox(&front);
    int status = EXIT_FAILURE;
    if (r < 0)
        log_error("cannot start: %s", strerror(-r));
    else
        status = front_run(&front);
    front_fini(&front);
    return status;
}
