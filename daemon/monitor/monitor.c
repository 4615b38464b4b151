// SPDX-License-Identifier: MIT
// Guarantees that a mistake in the configuration never takes down a daemon that runs, and that
// everything is given back at the end. Ties configuration, listener, supervisor and systemd
// together; must not know what they do inside.
#include "monitor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "calibration_store.h"
#include "config.h"
#include "confine.h"
#include "listener.h"
#include "log.h"
#include "notify.h"
#include "quarantine_store.h"
#include "reach.h"
#include "role.h"
#include "sandbox.h"
#include "spawn.h"
#include "supervise.h"

#define MONITOR_SIGNALS 4

struct monitor {
    const char *config_path;
    struct config config;
    struct listener listener;
    int program_fd;
    struct event_base *base;
    struct event *signal[MONITOR_SIGNALS];
    struct event *watchdog;
    struct calibration_store *store;
    struct quarantine_store *quarantine;
    struct supervisor *supervisor;
    int reach; // reach_try()'s, if the configuration names AF_ALG
    bool reach_known;
    struct message_status_note notes[3]; // for status: the monitor, AF_ALG, the end
};

// What only a new start can change.
static void monitor_warn_unchanged(const struct config *old, const struct config *new)
{
    if (strcmp(old->socket, new->socket) != 0)
        log_warning("key 'socket' is taken over by a restart only");
    if (strcmp(old->state_directory, new->state_directory) != 0)
        log_warning("key 'state_directory' is taken over by a restart only");
    if (memcmp(&old->front_user, &new->front_user, sizeof(old->front_user)) != 0 ||
        memcmp(&old->engine_user, &new->engine_user, sizeof(old->engine_user)) != 0)
        log_warning("keys 'front_user' and 'engine_user' are taken over by a restart only");
    if (old->backends != new->backends || old->workers != new->workers ||
        old->verify != new->verify || strcmp(old->deny_drivers, new->deny_drivers) != 0)
        log_warning("keys of section [engine] are taken over by a restart only");
}

// Looks at the drop-ins again, and at nothing else.
static void monitor_note_reach(struct monitor *m)
{
    struct message_status_note *note = &m->notes[1];

    *note = (struct message_status_note){.topic = "AF_ALG"};
    if (m->reach_known)
        reach_describe(m->reach, REACH_UNITS, note->text, sizeof(note->text));
    else
        snprintf(note->text, sizeof(note->text), "not looked at: no backend afalg");
}

static void monitor_confine(struct monitor *m)
{
    const struct confine_settings settings = {.config_path = m->config_path,
                                              .socket = m->config.socket,
                                              .directory_made = m->listener.made_dir,
                                              .state_directory = m->config.state_directory};
    struct message_status_note *note = &m->notes[0];
    char limit[96];

    confine_monitor(&settings, limit, sizeof(limit));
    *note = (struct message_status_note){.topic = "monitor"};
    snprintf(note->text, sizeof(note->text), "root, %s", limit);
    log_info("sandbox: %s", note->text);
}

static void monitor_reload(struct monitor *m)
{
    char error[CONFIG_ERROR_MAX];
    struct config config;

    notify_reloading();
    if (config_load(m->config_path, &config, NULL, error, sizeof(error)) < 0) {
        log_error("%s; the old configuration stays", error);
    } else {
        monitor_warn_unchanged(&m->config, &config);
        log_init("monitor", config.log_level);
        m->config = config;
        monitor_note_reach(m);
        supervisor_reload(m->supervisor, &config);
        log_notice("configuration read again");
    }
    notify_ready(supervisor_status(m->supervisor));
}

static void monitor_handle_signal(evutil_socket_t number, short what, void *user)
{
    struct monitor *m = user;

    (void)what;
    switch (number) {
    case SIGCHLD:
        supervisor_reap(m->supervisor);
        break;
    case SIGHUP:
        monitor_reload(m);
        break;
    default:
        log_notice("stopping: %s", strsignal((int)number));
        notify_stopping();
        supervisor_stop(m->supervisor);
    }
}

static void monitor_handle_watchdog(evutil_socket_t fd, short what, void *user)
{
    (void)fd;
    (void)what;
    (void)user;
    notify_watchdog();
}

static int monitor_add_watchdog(struct monitor *m)
{
    uint64_t us = notify_watchdog_interval_us();
    struct timeval tv = {.tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000)};

    if (us == 0)
        return 0;
    m->watchdog = event_new(m->base, -1, EV_PERSIST, monitor_handle_watchdog, m);
    if (m->watchdog == NULL || event_add(m->watchdog, &tv) < 0)
        return -ENOMEM;
    return 0;
}

static int monitor_add_events(struct monitor *m)
{
    static const int numbers[MONITOR_SIGNALS] = {SIGCHLD, SIGHUP, SIGINT, SIGTERM};

    signal(SIGPIPE, SIG_IGN);
    m->base = event_base_new();
    if (m->base == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < MONITOR_SIGNALS; i++) {
        m->signal[i] = evsignal_new(m->base, numbers[i], monitor_handle_signal, m);
        if (m->signal[i] == NULL || event_add(m->signal[i], NULL) < 0)
            return -ENOMEM;
    }
    return monitor_add_watchdog(m);
}

static void monitor_fini(struct monitor *m)
{
    supervisor_free(m->supervisor);
    calibration_store_free(m->store);
    quarantine_store_free(m->quarantine);
    for (size_t i = 0; i < MONITOR_SIGNALS; i++)
        if (m->signal[i] != NULL)
            event_free(m->signal[i]);
    if (m->watchdog != NULL)
        event_free(m->watchdog);
    if (m->base != NULL)
        event_base_free(m->base);
    listener_close(&m->listener);
    if (m->program_fd >= 0)
        close(m->program_fd);
}

// 0, or a negative errno after one line in the log.
static int monitor_init(struct monitor *m)
{
    char error[CONFIG_ERROR_MAX];
    int r = config_load(m->config_path, &m->config, NULL, error, sizeof(error));

    if (r < 0) {
        log_error("%s", error);
        return r;
    }
    log_init("monitor", m->config.log_level);
    r = listener_open(m->config.socket, &m->listener, error);
    if (r < 0) {
        log_error("%s", error);
        return r;
    }
    r = sandbox_harden_process();
    if (r == 0)
        r = spawn_open_program(&m->program_fd);
    if (r == 0)
        r = monitor_add_events(m);
    if (r == 0)
        r = calibration_store_new(m->config.state_directory, &m->store);
    if (r == 0)
        r = quarantine_store_new(m->config.state_directory, &m->quarantine);
    if (r == 0) {
        m->reach_known = (m->config.backends & CONFIG_BACKEND_AFALG) != 0;
        m->reach = m->reach_known ? reach_try() : 0;
        monitor_note_reach(m);
        monitor_confine(m);
        struct supervisor_settings settings = {.base = m->base,
                                               .program_fd = m->program_fd,
                                               .listener_fd = m->listener.fd,
                                               .store = m->store,
                                               .quarantine = m->quarantine,
                                               .notes = m->notes};
        r = supervisor_new(&settings, &m->config, &m->supervisor);
    }
    if (r < 0)
        log_error("cannot start: %s", strerror(-r));
    return r;
}

int monitor_main(const char *config_path)
{
    struct monitor m = {.config_path = config_path, .listener = LISTENER_EMPTY, .program_fd = -1};
    int r;

    log_init("monitor", LOG_LEVEL_NOTICE);
    if (geteuid() != 0) {
        log_error("must be started as root; its roles give that up");
        return 1;
    }
    r = monitor_init(&m);
    if (r == 0 && event_base_dispatch(m.base) < 0)
        r = -EIO;
    if (m.supervisor != NULL && supervisor_has_failed(m.supervisor))
        r = -ECHILD;
    monitor_fini(&m);
    return r < 0;
}
