// SPDX-License-Identifier: MIT
// Guarantees: front and engine always belong together; a failure of one ends both; and whatever
// fails, clients are never left waiting. Must not know what the roles do.
#include "supervise.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backoff.h"
#include "child.h"
#include "log.h"
#include "notify.h"
#include "timer.h"
#include "turnaway.h"

#define SUPERVISE_START_LIMIT_MS 60000 // an engine that tries slow hardware takes its time
#define SUPERVISE_TRIAL_LIMIT_MS 10000 // for some MB in one driver
#define SUPERVISE_STOP_KILL_MS   1000
#define SUPERVISE_STOP_LEAVE_MS  5000
#define SUPERVISE_SUSPECT_MS     1000
#define SUPERVISE_ROLES          2

enum supervise_mode { SUPERVISE_FULL, SUPERVISE_SOFTWARE, SUPERVISE_CLOSED };

struct supervisor {
    struct supervisor_settings settings;
    struct config config;
    enum supervise_mode mode;
    struct child *child[SUPERVISE_ROLES]; // index: enum config_role; NULL: does not run
    unsigned n_processes; // forked and not reaped, those that were given up included
    struct event *start, *tick, *stop, *verdict;
    struct turnaway *turnaway;
    struct backoff backoff; // of this mode
    uint32_t restarts;      // in all
    int64_t ready_ms;       // since when all roles have been ready; 0: they are not
    uint64_t started_s;
    bool was_ready, stopping, failed; // was_ready: once at least
    enum config_role suspect;      // exited, and is the cause unless the other one turns out to be
    char suspect_why[64];          // empty: nobody is suspected
    char reason[128], status[192]; // why not FULL; all in words
};

static bool supervise_has_role(const struct supervisor *s, enum config_role role)
{
    return s->mode == SUPERVISE_FULL ||
           (s->mode == SUPERVISE_SOFTWARE && role == CONFIG_ROLE_FRONT);
}

static void supervise_set_status(struct supervisor *s)
{
    if (s->mode == SUPERVISE_CLOSED)
        snprintf(s->status, sizeof(s->status), "No service, clients are closed: %s", s->reason);
    else if (s->ready_ms == 0)
        snprintf(s->status, sizeof(s->status), "Starting (%u restarts)", s->restarts);
    else if (s->mode == SUPERVISE_SOFTWARE)
        snprintf(s->status, sizeof(s->status), "Software only: %s", s->reason);
    else
        snprintf(s->status, sizeof(s->status), "Serving (%u restarts)", s->restarts);
}

// systemd is told "ready" once; a daemon that has given up is up as well, and says so.
static void supervise_notify(struct supervisor *s)
{
    supervise_set_status(s);
    (s->was_ready || s->mode == SUPERVISE_CLOSED ? notify_ready : notify_status)(s->status);
}

static void supervise_fill_config(const struct supervisor *s, enum config_role role,
                                  struct message_role_config *ret)
{
    config_fill_role(&s->config, role, ret);
    ret->mode = s->mode == SUPERVISE_FULL ? MESSAGE_OK : MESSAGE_REASON_SOFTWARE;
    ret->restarts = s->restarts;
    ret->started_s = s->started_s;
    snprintf(ret->text, sizeof(ret->text), "%s", s->reason);
}

// ---------------------------------------------------------------- failures

static void supervise_discard_children(struct supervisor *s)
{
    for (size_t i = 0; i < SUPERVISE_ROLES; i++) {
        child_free(s->child[i]);
        s->child[i] = NULL;
    }
    s->ready_ms = 0;
    if (s->suspect_why[0] != '\0')
        event_del(s->verdict);
    s->suspect_why[0] = '\0';
}

static void supervise_enter_mode(struct supervisor *s, enum supervise_mode mode)
{
    s->mode = mode;
    backoff_init(&s->backoff);
    (mode == SUPERVISE_CLOSED ? turnaway_begin : turnaway_end)(s->turnaway);
}

static void supervise_fail(struct supervisor *s, const char *name, const char *why)
{
    bool too_often = backoff_fail(&s->backoff, timer_now_ms(), s->ready_ms);
    char cause[128];

    snprintf(cause, sizeof(cause), "%s %s", name, why); // why may be the child's
    s->restarts++;
    supervise_discard_children(s);
    if (too_often) {
        snprintf(s->reason, sizeof(s->reason), "%u failures within a minute, the last: %.80s",
                 BACKOFF_FAILURES_MAX, cause);
        supervise_enter_mode(s, s->mode + 1);
        log_error("%s; %s", cause,
                  s->mode == SUPERVISE_SOFTWARE ? "software only from now on"
                                                : "clients are closed at once from now on");
    }
    if (s->mode != SUPERVISE_CLOSED) {
        uint32_t delay_ms = backoff_take_delay(&s->backoff);
        if (!too_often)
            log_warning("%s; starting again in %u ms", cause, delay_ms);
        timer_set(s->start, delay_ms);
    }
    supervise_notify(s);
}

static void supervise_blame(struct supervisor *s, enum config_role role, const char *why,
                            bool exited)
{
    const char *name = spawn_role_name(role);

    if (exited && s->restarts == 0 && !s->was_ready) {
        // A role that cannot start says why and ends: a mistake in the set-up, which no new start
        // would mend.
        log_error("cannot start: %s %s; the lines above say why", name, why);
        s->failed = true;
        supervisor_stop(s);
        return;
    }
    supervise_fail(s, name, why);
}

// A role that exits may do so only because the other one is gone, and the exit may be seen first.
static void supervise_suspect(struct supervisor *s, struct child *child, const char *why)
{
    s->suspect = child_role(child);
    snprintf(s->suspect_why, sizeof(s->suspect_why), "%s", why);
    s->child[s->suspect] = NULL;
    child_free(child);
    timer_set(s->verdict, SUPERVISE_SUSPECT_MS);
}

static void supervise_handle_verdict(evutil_socket_t fd, short what, void *user)
{
    struct supervisor *s = user;

    (void)fd;
    (void)what;
    supervise_blame(s, s->suspect, s->suspect_why, true);
}

static void supervise_handle_failed(struct child *child, const char *why, bool exited, void *user)
{
    struct supervisor *s = user;

    if (s->stopping)
        return;
    if (exited && s->child[1 - child_role(child)] != NULL)
        supervise_suspect(s, child, why);
    else if (exited && s->suspect_why[0] != '\0')
        supervise_blame(s, s->suspect, s->suspect_why, true);
    else
        supervise_blame(s, child_role(child), why, exited);
}

// ---------------------------------------------------------------- start

static void supervise_handle_ready(struct child *child, void *user)
{
    struct supervisor *s = user;

    log_debug("%s is ready", spawn_role_name(child_role(child)));
    for (enum config_role role = 0; role < SUPERVISE_ROLES; role++)
        if (supervise_has_role(s, role) &&
            (s->child[role] == NULL || !child_is_ready(s->child[role])))
            return;
    s->ready_ms = timer_now_ms();
    s->was_ready = true;
    supervise_notify(s);
    log_notice("%s", s->status);
}

static int supervise_start_child(struct supervisor *s, enum config_role role, int peer_fd)
{
    struct child_handlers handlers = {
        .ready = supervise_handle_ready, .failed = supervise_handle_failed, .user = s};
    struct child_settings settings = {
        .base = s->settings.base,
        .program_fd = s->settings.program_fd,
        .peer_fd = peer_fd,
        .quarantine = s->settings.quarantine,
        .listener_fd = role == CONFIG_ROLE_FRONT ? s->settings.listener_fd : -1,
        .ping_limit = s->config.ping_limit,
        .notes = role == CONFIG_ROLE_FRONT ? s->settings.notes : NULL,
        .store = role == CONFIG_ROLE_ENGINE ? s->settings.store : NULL,
        .start_limit = SUPERVISE_START_LIMIT_MS / s->config.ping_interval_ms + s->config.ping_limit,
        .trial_limit = SUPERVISE_TRIAL_LIMIT_MS / s->config.ping_interval_ms + 1,
    };
    struct message_role_config config;

    supervise_fill_config(s, role, &config);
    int r = child_start(role, &settings, &config, &handlers, &s->child[role]);
    s->n_processes += r == 0;
    return r;
}

static int supervise_start_children(struct supervisor *s)
{
    int pair[2] = {-1, -1}, r = 0;

    if (s->mode == SUPERVISE_FULL &&
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    for (enum config_role role = 0; r == 0 && role < SUPERVISE_ROLES; role++)
        if (supervise_has_role(s, role))
            r = supervise_start_child(s, role, pair[role]);
    for (size_t i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
    return r;
}

static void supervise_handle_start(evutil_socket_t fd, short what, void *user)
{
    struct supervisor *s = user;
    int r = supervise_start_children(s);

    (void)fd;
    (void)what;
    if (r < 0)
        supervise_fail(s, "monitor", strerror(-r));
}

// ---------------------------------------------------------------- events

static void supervise_handle_tick(evutil_socket_t fd, short what, void *user)
{
    struct supervisor *s = user;

    (void)fd;
    (void)what;
    for (size_t i = 0; i < SUPERVISE_ROLES; i++)
        if (s->child[i] != NULL)
            child_tick(s->child[i]);
    if (s->mode == SUPERVISE_CLOSED && !s->stopping)
        turnaway_begin(s->turnaway); // it may have paused
}

static void supervise_handle_stop(evutil_socket_t fd, short what, void *user)
{
    struct supervisor *s = user;
    bool killed = false;

    (void)fd;
    (void)what;
    for (size_t i = 0; i < SUPERVISE_ROLES; i++) {
        killed = killed || s->child[i] != NULL;
        child_free(s->child[i]);
        s->child[i] = NULL;
    }
    if (killed) {
        timer_set(s->stop, SUPERVISE_STOP_LEAVE_MS - SUPERVISE_STOP_KILL_MS);
        return;
    }
    log_warning("left behind, because they cannot be killed: %u processes", s->n_processes);
    event_base_loopbreak(s->settings.base);
}

void supervisor_reap(struct supervisor *s)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        s->n_processes -= s->n_processes > 0;
        for (size_t i = 0; i < SUPERVISE_ROLES; i++)
            if (s->child[i] != NULL && child_take_exit(s->child[i], pid, status))
                break;
    }
    if (s->stopping && s->n_processes == 0)
        event_base_loopbreak(s->settings.base);
}

// ---------------------------------------------------------------- life

void supervisor_stop(struct supervisor *s)
{
    if (s->stopping)
        return;
    s->stopping = true;
    event_del(s->start);
    event_del(s->verdict);
    turnaway_end(s->turnaway);
    for (size_t i = 0; i < SUPERVISE_ROLES; i++)
        if (s->child[i] != NULL)
            child_dismiss(s->child[i]);
    if (s->n_processes == 0)
        event_base_loopbreak(s->settings.base);
    timer_set(s->stop, SUPERVISE_STOP_KILL_MS);
}

void supervisor_reload(struct supervisor *s, const struct config *config)
{
    struct message_role_config role_config;

    s->config = *config;
    timer_set(s->tick, config->ping_interval_ms);
    if (s->stopping)
        return;
    if (s->mode != SUPERVISE_FULL) {
        log_notice("trying front and engine again");
        supervise_discard_children(s);
        supervise_enter_mode(s, SUPERVISE_FULL);
        s->reason[0] = '\0';
        timer_set(s->start, 0);
        return;
    }
    for (enum config_role role = 0; role < SUPERVISE_ROLES; role++)
        if (s->child[role] != NULL) {
            supervise_fill_config(s, role, &role_config);
            child_configure(s->child[role], &role_config, config->ping_limit);
        }
}

bool supervisor_has_failed(const struct supervisor *s)
{
    return s->failed;
}

const char *supervisor_status(const struct supervisor *s)
{
    return s->status;
}

int supervisor_new(const struct supervisor_settings *settings, const struct config *config,
                   struct supervisor **ret)
{
    struct supervisor *s = calloc(1, sizeof(*s));
    struct timespec now;
    int r = -ENOMEM;

    if (s == NULL)
        return r;
    clock_gettime(CLOCK_BOOTTIME, &now);
    s->started_s = (uint64_t)now.tv_sec;
    s->settings = *settings;
    s->config = *config;
    backoff_init(&s->backoff);
    s->start = evtimer_new(settings->base, supervise_handle_start, s);
    s->stop = evtimer_new(settings->base, supervise_handle_stop, s);
    s->verdict = evtimer_new(settings->base, supervise_handle_verdict, s);
    s->tick = event_new(settings->base, -1, EV_PERSIST, supervise_handle_tick, s);
    if (s->start != NULL && s->stop != NULL && s->verdict != NULL && s->tick != NULL)
        r = turnaway_new(settings->base, settings->listener_fd, &s->turnaway);
    if (r == 0) {
        timer_set(s->tick, config->ping_interval_ms);
        supervise_set_status(s);
        r = supervise_start_children(s);
    }
    if (r < 0) {
        supervisor_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void supervisor_free(struct supervisor *s)
{
    if (s == NULL)
        return;
    supervise_discard_children(s);
    struct event *events[] = {s->start, s->stop, s->tick, s->verdict};
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        if (events[i] != NULL)
            event_free(events[i]);
    turnaway_free(s->turnaway);
    free(s);
}
