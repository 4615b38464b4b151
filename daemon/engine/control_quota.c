// SPDX-License-Identifier: MIT
// Limits of what channels take while they work. Guarantees: who meets a limit costs at most one
// line in the log and one wake-up a second, however often. Must not take anything itself.
#include <errno.h>

#include "control.h"
#include "control_impl.h"
#include "log.h"

static const char *const names[QUOTA_KIND_COUNT][2] = {
    [QUOTA_MEMORY] = {"locked_memory_max", "locked_memory_per_uid"},
    [QUOTA_REQUESTS] = {"requests_max", "requests_per_uid"},
};

static struct quota *quota_of(struct control *control)
{
    return fair_queue_quota(worker_pool_queue(control->pool));
}

// In a worker's thread; not again before quota_rearm().
static void on_refusal(void *user, uint32_t uid, enum quota_kind kind, int error)
{
    struct control *control = user;

    control->quota.uid = uid;
    control->quota.kind = kind;
    control->quota.error = error;
    event_active(&control->quota.refused, EV_READ, 0);
}

static void on_refused(evutil_socket_t fd, short what, void *arg)
{
    const struct timeval second = {.tv_sec = 1};
    struct control *control = arg;

    (void)fd;
    (void)what;
    evtimer_add(&control->quota.later, &second);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
    struct control *control = arg;
    struct control_quota *quota = &control->quota;
    uint64_t n = 0;

    (void)fd;
    (void)what;
    for (unsigned kind = 0; kind < QUOTA_KIND_COUNT; kind++)
        n += atomic_load(&quota_of(control)->n_refused[kind]);
    log_notice(
        "requests refused: uid %u is at a limit (%s); %llu requests since the last such line",
        quota->uid, names[quota->kind][quota->error == -EDQUOT],
        (unsigned long long)(n - quota->n_logged));
    quota->n_logged = n;
    quota_rearm(quota_of(control));
}

static uint64_t no_limit_if_zero(uint32_t limit)
{
    return limit > 0 ? limit : QUOTA_NO_LIMIT;
}

void control_quota_set_limits(struct control *control)
{
    const struct message_role_config *config = &control->config;

    quota_set_limit(quota_of(control), QUOTA_MEMORY, no_limit_if_zero(config->locked_memory_max),
                    no_limit_if_zero(config->locked_memory_per_uid));
    quota_set_limit(quota_of(control), QUOTA_REQUESTS, no_limit_if_zero(config->requests_max),
                    no_limit_if_zero(config->requests_per_uid));
}

int control_quota_init(struct control *control)
{
    struct control_quota *quota = &control->quota;

    if (event_assign(&quota->refused, control->base, -1, 0, on_refused, control) < 0 ||
        evtimer_assign(&quota->later, control->base, on_later, control) < 0)
        return -EIO;
    quota_set_listener(quota_of(control), on_refusal, control);
    control_quota_set_limits(control);
    return 0;
}
