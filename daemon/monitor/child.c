// SPDX-License-Identifier: MIT
// Guarantees that a failure is reported once, with its first cause, and soon: also if the process
// cannot be killed. Must not know what follows from a failure.
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calibration_store.h"
#include "log.h"
#include "packet.h"
#include "quarantine_store.h"
#include "timer.h"

#define CHILD_WHY_MAX 96
// For the exit status to come. After a kill: a process in D state has none. After it closed its
// descriptor it is most likely about to end, which a sanitizer or a full swap makes slow.
#define CHILD_KILLED_GRACE_MS 500
#define CHILD_CLOSED_GRACE_MS 5000
#define CHILD_MESSAGES_MAX    16

struct child {
    enum config_role role;
    struct child_handlers handlers;
    pid_t pid; // 0: ended
    int fd;    // -1: dismissed
    struct event *readable;
    struct event *grace;
    bool ready;
    bool ending;    // the cause is known
    bool closed;    // the cause is that it closed its descriptor, most likely at its end
    bool unsent;    // `config` waits for room
    uint32_t pings; // due and not answered
    uint32_t ping_limit, start_limit, trial_limit;
    struct message_quarantine trial; // of the driver that the engine tries just now; name "": none
    uint32_t trial_ticks;
    uint64_t ping_serial; // of the last ping
    struct calibration_store *store;
    struct message_role_config config;
    struct quarantine_store *quarantine;
    char why[CHILD_WHY_MAX];
    const struct message_status_note *notes; // the monitor's; NULL: none
};

enum config_role child_role(const struct child *child)
{
    return child->role;
}

bool child_is_ready(const struct child *child)
{
    return child->ready && !child->ending;
}

// A role that is not root any more can be ended by root with CAP_KILL, or by its own user. The
// monitor does without CAP_KILL, with which it could end any process: it takes the role's uid as
// its effective one for a moment. Nobody can reach it meanwhile, because its real and saved ones
// stay root's.
static void child_kill_as_its_user(const struct child *child)
{
    if (seteuid(child->config.uid) < 0) {
        log_error("a role cannot be ended: %s", strerror(errno));
        return;
    }
    (void)kill(child->pid, SIGKILL);
    // The kernel sets it anew at a change of identity, from fs.suid_dumpable.
    if (seteuid(0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
        log_error("cannot become root again: %s", strerror(errno));
        abort();
    }
}

void child_kill(struct child *child)
{
    if (child->pid != 0 && kill(child->pid, SIGKILL) < 0 && errno == EPERM)
        child_kill_as_its_user(child);
}

static void child_fail(struct child *child, bool exited)
{
    event_del(child->readable);
    event_del(child->grace);
    child->handlers.failed(child, child->why, exited, child->handlers.user);
}

// The first cause counts. Its exit status, if that comes in time, says more than the end of the
// descriptor does.
static void child_end(struct child *child, const char *why)
{
    if (child->ending)
        return;
    child->ending = true;
    snprintf(child->why, sizeof(child->why), "%s", why);
    event_del(child->readable);
    timer_set(child->grace, child->closed ? CHILD_CLOSED_GRACE_MS : CHILD_KILLED_GRACE_MS);
    if (!child->closed)
        child_kill(child);
}

static void child_handle_grace(evutil_socket_t fd, short what, void *user)
{
    (void)fd;
    (void)what;
    child_fail(user, false);
}

bool child_take_exit(struct child *child, pid_t pid, int status)
{
    if (child->pid != pid)
        return false;
    child->pid = 0;
    if (!child->ending || child->closed) {
        if (WIFEXITED(status))
            snprintf(child->why, sizeof(child->why), "ended with exit status %d",
                     WEXITSTATUS(status));
        else
            snprintf(child->why, sizeof(child->why), "killed by signal %d (%s)", WTERMSIG(status),
                     strsignal(WTERMSIG(status)));
    }
    child->ending = true;
    child_fail(child, WIFEXITED(status));
    return true;
}

// The engine has logged what it found.
static void child_quarantine(struct child *child, const struct message_quarantine *quarantine)
{
    int r = quarantine_store_add(child->quarantine, quarantine);

    if (r < 0)
        log_warning("a quarantine ends with this engine: %s", strerror(-r));
}

static void child_take_quarantine(struct child *child, const struct message_quarantine *quarantine)
{
    switch (quarantine->kind) {
    case MESSAGE_QUARANTINE_WRONG:
    case MESSAGE_QUARANTINE_HANGS:
        child_quarantine(child, quarantine);
        break;
    case MESSAGE_QUARANTINE_TRIAL:
        child->trial = *quarantine;
        child->trial_ticks = 0;
        break;
    case MESSAGE_QUARANTINE_TRIAL_END:
        child->trial.driver[0] = '\0';
        break;
    default:
        child_end(child, "sent what it must not send");
    }
}

// A process that was stopped is not to be blamed on the driver.
static bool child_is_stopped(const struct child *child)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
}

// What the driver has kept is lost, and if the kernel waits for it, cannot even be ended.
static bool child_check_trial(struct child *child)
{
    char why[CHILD_WHY_MAX];

    if (child->ready || child->trial.driver[0] == '\0')
        return false;
    child->trial_ticks = child_is_stopped(child) ? 0 : child->trial_ticks + 1;
    if (child->trial_ticks <= child->trial_limit)
        return false;
    child->trial.kind = MESSAGE_QUARANTINE_HANGS;
    child_quarantine(child, &child->trial);
    snprintf(why, sizeof(why), "hangs in driver %s", child->trial.driver);
    child_end(child, why);
    return true;
}

static void child_take_message(struct child *child, const struct message *m)
{
    switch (m->type) {
    case MESSAGE_ROLE_READY:
        if (!child->ready) {
            child->ready = true;
            child->pings = 0;
            child->handlers.ready(child, child->handlers.user);
        }
        break;
    case MESSAGE_PONG:
        if (m->serial <= child->ping_serial)
            child->pings = (uint32_t)(child->ping_serial - m->serial);
        break;
    case MESSAGE_QUARANTINE:
        if (child->role == CONFIG_ROLE_ENGINE)
            child_take_quarantine(child, &m->u.quarantine);
        else
            child_end(child, "sent what it must not send");
        break;
    default:
        if (!child->store || calibration_store_take(child->store, m) < 0)
            child_end(child, "sent what it must not send");
    }
}

static void child_handle_readable(evutil_socket_t fd, short what, void *user)
{
    struct child *child = user;
    int fds[MESSAGE_FDS_MAX];
    struct message m;

    (void)what;
    for (int i = 0; i < CHILD_MESSAGES_MAX && !child->ending; i++) {
        int r = packet_recv(fd, MESSAGE_ROLE_TO_MONITOR, &m, fds);

        if (r == 0) {
            child_take_message(child, &m);
        } else if (r == -EAGAIN || r == -EINTR) {
            return;
        } else {
            child->closed = r == -ENODATA || r == -ECONNRESET;
            child_end(child, child->closed ? "closed its descriptor" : "sent what is no message");
        }
    }
}

// After the configuration, which says how many messages these are. In a new socket there is room.
static void child_send_calibration(struct child *child)
{
    struct message m = {0};

    for (uint32_t i = 0; i < child->config.calibrations; i++) {
        calibration_store_get_message(child->store, i, &m);
        int r = packet_send(child->fd, &m, NULL, 0);
        if (r < 0)
            log_warning("%s: calibration not sent: %s", spawn_role_name(child->role), strerror(-r));
    }
    child->config.calibrations = 0; // not when the configuration is sent again
}

static void child_send_config(struct child *child)
{
    struct message m = {.type = MESSAGE_ROLE_CONFIG, .u.role_config = child->config};
    int r;

    snprintf(m.u.role_config.quarantined, sizeof(m.u.role_config.quarantined), "%s",
             quarantine_store_list(child->quarantine));
    r = packet_send(child->fd, &m, NULL, 0);
    child->unsent = r == -EAGAIN;
    if (r < 0 && r != -EAGAIN)
        log_debug("%s: configuration not sent: %s", spawn_role_name(child->role), strerror(-r));
}

// A note that finds no room is of no loss to anybody but who asks for status.
static void child_send_notes(struct child *child)
{
    struct message m = {.type = MESSAGE_STATUS_NOTE};

    for (const struct message_status_note *n = child->notes; n && n->topic[0] != '\0'; n++) {
        m.u.status_note = *n;
        int r = packet_send(child->fd, &m, NULL, 0);
        if (r < 0)
            log_debug("%s: note not sent: %s", spawn_role_name(child->role), strerror(-r));
    }
}

void child_configure(struct child *child, const struct message_role_config *config,
                     uint32_t ping_limit)
{
    child->config = *config;
    child->ping_limit = ping_limit;
    if (child->ending)
        return;
    child_send_config(child);
    child_send_notes(child);
}

void child_tick(struct child *child)
{
    struct message m = {.type = MESSAGE_PING, .serial = child->ping_serial + 1};
    char why[CHILD_WHY_MAX];

    if (child->ending || child->fd < 0 || child_check_trial(child))
        return;
    if (child->pings >= (child->ready ? child->ping_limit : child->start_limit)) {
        snprintf(why, sizeof(why), child->ready ? "did not answer %u pings" : "not ready in time",
                 child->pings);
        child_end(child, why);
        return;
    }
    child->pings++;
    if (child->unsent)
        child_send_config(child);
    // Until it is ready it reads nothing. A full queue means that it reads nothing either: both
    // count as no answer.
    if (child->ready && packet_send(child->fd, &m, NULL, 0) == 0)
        child->ping_serial++;
}

void child_dismiss(struct child *child)
{
    event_del(child->readable);
    event_del(child->grace);
    child->ending = true;
    if (child->fd >= 0)
        close(child->fd);
    child->fd = -1;
}

void child_free(struct child *child)
{
    if (child == NULL)
        return;
    child_kill(child);
    if (child->readable != NULL)
        event_free(child->readable);
    if (child->grace != NULL)
        event_free(child->grace);
    if (child->fd >= 0)
        close(child->fd);
    free(child);
}

static int child_spawn(struct child *child, const struct child_settings *settings)
{
    int pair[2], r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    child->fd = pair[0];
    r = fcntl(child->fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0 ? -errno : 0;
    if (r == 0) {
        struct spawn_fds fds = {
            .monitor = pair[1], .peer = settings->peer_fd, .listener = settings->listener_fd};
        r = spawn_role(settings->program_fd, child->role, &fds, &child->pid);
    }
    close(pair[1]);
    if (r < 0)
        return r;
    child->readable =
        event_new(settings->base, child->fd, EV_READ | EV_PERSIST, child_handle_readable, child);
    child->grace = evtimer_new(settings->base, child_handle_grace, child);
    if (child->readable == NULL || child->grace == NULL || event_add(child->readable, NULL) < 0)
        return -ENOMEM;
    if (child->store)
        child->config.calibrations = calibration_store_count_messages(child->store);
    child_send_config(child);
    child_send_calibration(child);
    child_send_notes(child);
    return 0;
}

int child_start(enum config_role role, const struct child_settings *settings,
                const struct message_role_config *config, const struct child_handlers *handlers,
                struct child **ret)
{
    struct child *child = calloc(1, sizeof(*child));
    int r;

    if (child == NULL)
        return -ENOMEM;
    child->role = role;
    child->handlers = *handlers;
    child->fd = -1;
    child->ping_limit = settings->ping_limit;
    child->start_limit = settings->start_limit;
    child->store = settings->store;
    child->config = *config;
    child->trial_limit = settings->trial_limit;
    child->quarantine = settings->quarantine;
    child->notes = settings->notes;
    r = child_spawn(child, settings);
    if (r < 0) {
        child_free(child);
        return r;
    }
    *ret = child;
    return 0;
}
