// SPDX-License-Identifier: MIT
// Workers that hang in a driver. Guarantees: nothing wakes up while no worker runs anything; the
// engine gives up itself only if it cannot replace a worker. Must not know what workers run.
#include <errno.h>
#include <string.h>

#include "control_impl.h"
#include "log.h"

// A worker that has not moved for so many looks hangs. Clients have long gone on in software then;
// a driver that needs so long for 64 KiB serves nobody.
#define LOOKS_MAX         4u
#define LOOK_INTERVAL_MIN 500u // ms

static void expect_look(struct control *control)
{
    const uint32_t deadline_ms = control->config.deadline_ms;
    const uint32_t ms = deadline_ms > LOOK_INTERVAL_MIN ? deadline_ms : LOOK_INTERVAL_MIN;
    const struct timeval delay = {.tv_sec = (time_t)(ms / 1000),
                                  .tv_usec = (suseconds_t)(ms % 1000) * 1000};

    if (evtimer_add(&control->watch.look, &delay) < 0)
        log_warning("a driver that hangs would not be noticed");
}

static void replace(struct control *control, uint32_t worker)
{
    int r = worker_pool_replace(control->pool, worker);

    if (r == 0) {
        log_notice("worker %u hangs in a driver: another thread has its work", worker);
    } else if (r != -EALREADY) {
        log_error("worker %u hangs in a driver, and cannot be replaced: %s", worker, strerror(-r));
        control_exit(control, 1);
    }
}

// Keepers set and close keys. Nobody waits for one that hangs, so it need not be replaced.
static bool look_at_keepers(struct control *control, bool *any_hung)
{
    struct offer *offer = control->offer;
    bool again = false;

    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        for (uint32_t b = 0; b < offer->n_backends; b++) {
            struct offer_row *row = &offer->rows[a][b];

            if (!offer_row_is_first_of_room(offer, a, b) || verify_hangs(&row->trust))
                continue;
            const uint32_t n_looks = keeper_look(key_room_keeper(row->room));
            again = again || n_looks > 0;
            if (n_looks > LOOKS_MAX && offer_distrust_hung(offer, &row->trust))
                *any_hung = true;
        }
    }
    return again;
}

void control_watch_keys(struct control *control)
{
    if (!evtimer_pending(&control->watch.look, NULL))
        expect_look(control);
}

static void on_look_event(evutil_socket_t fd, short what, void *arg)
{
    struct control *control = arg;
    bool again = false, any_hung = false;

    (void)fd;
    (void)what;
    for (uint32_t i = 0; i < worker_pool_size(control->pool); i++) {
        struct worker_look look;

        worker_pool_look(control->pool, i, &look);
        again = again || look.again;
        if (look.n_looks < LOOKS_MAX || !offer_distrust_hung(control->offer, look.trust))
            continue;
        replace(control, i);
        any_hung = true;
    }
    again = look_at_keepers(control, &any_hung) || again;
    if (any_hung)
        control_report_distrust(control);
    if (again || !worker_pool_rest(control->pool))
        expect_look(control);
}

static void on_busy_event(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    expect_look(arg);
}

void control_watch_begin(struct control *control)
{
    event_active(&control->watch.busy, EV_READ, 0);
}

void control_watch_blame(struct control *control, const struct offer_row *row)
{
    if (offer_distrust_hung(control->offer, &row->trust))
        control_report_distrust(control);
}

int control_watch_init(struct control *control)
{
    if (event_assign(&control->watch.busy, control->base, -1, 0, on_busy_event, control) < 0 ||
        evtimer_assign(&control->watch.look, control->base, on_look_event, control) < 0)
        return -EIO;
    return 0;
}
