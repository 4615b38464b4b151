// SPDX-License-Identifier: MIT
// Calibration as the main loop sees it: what is measured when, and who is told. Guarantees: the
// loop waits for nothing; a driver that hangs ends the run after a time, with what was measured by
// then, and is quarantined; another thread measures the others. Must not know how something is
// measured.
#include <errno.h>
#include <string.h>

#include "calibration.h"
#include "control_impl.h"
#include "log.h"
#include "packet.h"
#include "role.h"

#define GUARD_MS (2u * CALIBRATION_TIME_MS) // longer takes only what hangs
#define STOP_MS  1000u
// A driver may have been too slow because the machine had much to do, at its start for instance.
#define AGAIN_S   60u // and each time twice as long
#define AGAIN_MAX 5u

// ---------------------------------------------------------------- telling

static void send_end(struct control *control, uint64_t serial, uint32_t reason)
{
    const struct message m = {
        .type = MESSAGE_CALIBRATION_END, .serial = serial, .u.calibration_end = {.reason = reason}};

    outbox_send(&control->outbox, &m);
}

static void send_rows(struct control *control, uint64_t serial)
{
    struct message m = {.type = MESSAGE_CALIBRATION, .serial = serial};

    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        for (uint32_t b = 0; b < control->offer->n_backends; b++) {
            const struct offer_row *row = &control->offer->rows[a][b];

            if (!offer_row_is_measurable(row))
                continue;
            offer_get_calibration(row, &m.u.calibration);
            outbox_send(&control->outbox, &m);
        }
    }
    send_end(control, serial, MESSAGE_OK);
}

static void send_progress(struct control *control, const struct calibration_progress *progress)
{
    const struct message m = {
        .type = MESSAGE_CALIBRATION_PROGRESS,
        .serial = control->calibrating.serial,
        .u.calibration_progress = {.done = progress->done, .total = progress->total},
    };

    if (control->calibrating.serial != 0 && progress->done != control->calibrating.n_told)
        outbox_send(&control->outbox, &m);
    control->calibrating.n_told = progress->done;
}

static int tell_monitor_row(struct control *control, const struct offer_row *row)
{
    struct message m = {.type = MESSAGE_CALIBRATION};

    if (row->measured != OFFER_MEASURED || !offer_row_is_measurable(row))
        return 0;
    offer_get_calibration(row, &m.u.calibration);
    m.u.calibration.state = m.u.calibration.lanes = m.u.calibration.request_min = 0;
    memset(m.u.calibration.text, 0, sizeof(m.u.calibration.text));
    return packet_send(control->monitor_fd, &m, NULL, 0);
}

// Of an incomplete table the monitor keeps nothing.
static void tell_monitor(struct control *control)
{
    struct message m = {.type = MESSAGE_CALIBRATION_KEY, .u.calibration_key = control->key};
    int r = packet_send(control->monitor_fd, &m, NULL, 0);

    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++)
        for (uint32_t b = 0; r == 0 && b < control->offer->n_backends; b++)
            r = tell_monitor_row(control, &control->offer->rows[a][b]);
    m = (struct message){.type = MESSAGE_CALIBRATION_END};
    if (r == 0)
        r = packet_send(control->monitor_fd, &m, NULL, 0);
    if (r < 0)
        log_notice("the calibration cannot be kept: monitor: %s", strerror(-r));
}

// ---------------------------------------------------------------- beginning

static bool is_due(const struct offer_row *row, bool all)
{
    return offer_row_is_measurable(row) &&
           (all || row->measured == OFFER_UNMEASURED ||
            (row->measured == OFFER_UNMEASURABLE &&
             (row->measure_error == -ETIMEDOUT || backend_is_lack(row->measure_error))));
}

// OpenSSL first: a driver that hangs then leaves its own rows unmeasured and no others.
static uint32_t list_rows(struct control *control, bool all)
{
    uint32_t n = 0;

    for (int last = 0; last < 2; last++)
        for (uint32_t a = 0; a < ALGORITHM_COUNT; a++)
            for (uint32_t b = 0; b < control->offer->n_backends; b++) {
                struct offer_row *row = &control->offer->rows[a][b];
                const bool is_cpu = row->backend->ops == &backend_cpu_ops;

                if (is_cpu == (last == 0) && is_due(row, all) && n < CALIBRATION_JOBS_MAX)
                    control->calibrating.rows[n++] = row;
            }
    return n;
}

// serial: of the client that asked; 0: nobody. 0, or a negative errno.
static int begin(struct control *control, bool all, uint64_t serial)
{
    const struct timeval guard = {.tv_sec = GUARD_MS / 1000,
                                  .tv_usec = (suseconds_t)(GUARD_MS % 1000) * 1000};
    struct measure_subject jobs[CALIBRATION_JOBS_MAX];
    uint32_t n;
    int r;

    if (control->calibrating.given_up) // its rows are still those of that run
        return -EBUSY;
    n = list_rows(control, all);
    for (uint32_t i = 0; i < n; i++) {
        const struct offer_row *row = control->calibrating.rows[i];

        jobs[i] = (struct measure_subject){
            .ops = row->backend->ops,
            .backend = row->backend->instance,
            .software_ops = control->offer->reference.ops,
            .software = control->offer->reference.instance,
            .algorithm = row->info->id,
            .makes = row->probe.makes,
            .driver = row->probe.driver,
        };
    }
    control->calibrating.n_rows = n;
    control->calibrating.n_told = 0;
    r = n > 0 ? calibration_start(control->calibrating.thread, jobs, n) : -ENOENT;
    control->calibrating.runs = r == 0;
    control->calibrating.serial = r == 0 ? serial : 0;
    if (r == 0 && event_add(&control->calibrating.guard, &guard) < 0)
        log_warning("a calibration that hangs would not be noticed");
    return r;
}

static uint32_t count_due(const struct control *control)
{
    uint32_t n = 0;

    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++)
        for (uint32_t b = 0; b < control->offer->n_backends; b++)
            n += is_due(&control->offer->rows[a][b], false);
    return n;
}

void control_calibrate_missing(struct control *control)
{
    int r;

    if (control->config.offload != CONFIG_OFFLOAD_AUTO || control->calibrating.runs ||
        control->calibrating.given_up)
        return;
    r = begin(control, false, 0);
    if (r == 0 || r == -ENOENT)
        return;
    log_warning("cannot measure: %s", strerror(-r));
    for (uint32_t i = 0; i < control->calibrating.n_rows; i++)
        offer_put_table(control->calibrating.rows[i], r, NULL);
    control_decide(control);
}

// ---------------------------------------------------------------- ending

static void answer_next(struct control *control)
{
    const uint64_t serial = control->calibrating.waiting;
    int r;

    control->calibrating.waiting = 0;
    if (serial == 0)
        return;
    r = begin(control, true, serial);
    if (r == -ENOENT)
        send_rows(control, serial);
    else if (r < 0)
        send_end(control, serial, r == -EBUSY ? MESSAGE_REASON_ENGINE : MESSAGE_REASON_INTERNAL);
}

static void come_again(struct control *control)
{
    const struct timeval delay = {.tv_sec = (time_t)AGAIN_S << control->calibrating.n_again};

    if (control->config.offload != CONFIG_OFFLOAD_AUTO ||
        control->calibrating.n_again == AGAIN_MAX || count_due(control) == 0)
        return;
    control->calibrating.n_again++;
    (void)event_add(&control->calibrating.again, &delay);
}

static void take_results(struct control *control, bool hangs)
{
    const uint32_t n = control->calibrating.n_rows;
    struct measure_table table;
    uint32_t n_measured = 0;

    for (uint32_t i = 0; i < n; i++) {
        int r = calibration_get_result(control->calibrating.thread, i, &table);

        offer_put_table(control->calibrating.rows[i], r, &table);
        n_measured += r == 0;
    }
    log_write(n_measured == n ? LOG_LEVEL_INFO : LOG_LEVEL_NOTICE,
              "calibration: %u of %u rows measured%s", n_measured, n,
              hangs ? "; a driver does not answer in time" : "");
    control_decide(control);
    tell_monitor(control);
}

// The thread that hangs keeps its own. Its late end is nobody's concern.
static void leave_thread(struct control *control)
{
    struct control_calibrating *calibrating = &control->calibrating;
    struct calibration_progress progress;

    calibration_get_progress(calibrating->thread, &progress);
    control_watch_blame(control, calibrating->rows[progress.job]);
    calibrating->given_up = calibrating->n_hung + 1 == CONTROL_CALIBRATIONS;
    if (!calibrating->given_up)
        calibrating->thread = calibrating->threads[++calibrating->n_hung];
}

static void end_run(struct control *control, bool hangs)
{
    event_del(&control->calibrating.guard);
    control->calibrating.runs = false;
    take_results(control, hangs);
    if (hangs)
        leave_thread(control);
    if (control->calibrating.serial != 0)
        send_rows(control, control->calibrating.serial);
    control->calibrating.serial = 0;
    come_again(control);
    answer_next(control);
}

static void on_change_event(evutil_socket_t fd, short what, void *arg)
{
    struct control *control = arg;
    struct calibration_progress progress;

    (void)fd;
    (void)what;
    calibration_get_progress(control->calibrating.thread, &progress);
    if (control->calibrating.runs)
        send_progress(control, &progress);
    if (!progress.ended || !calibration_finish(control->calibrating.thread))
        return;
    // A run that was given up may end after all.
    if (control->calibrating.given_up) {
        control->calibrating.given_up = false;
        take_results(control, false);
    } else if (control->calibrating.runs) {
        end_run(control, false);
    }
}

static void on_again_event(evutil_socket_t fd, short what, void *arg)
{
    struct control *control = arg;

    (void)fd;
    (void)what;
    control_calibrate_missing(control);
}

static void on_guard_event(evutil_socket_t fd, short what, void *arg)
{
    struct control *control = arg;

    (void)fd;
    (void)what;
    if (control->calibrating.runs)
        end_run(control, true);
}

// ---------------------------------------------------------------- front

void control_calibrate(struct control *control, const struct message *m)
{
    const bool busy = control->calibrating.serial != 0 || control->calibrating.waiting != 0;

    if (!m->u.calibrate.measure) {
        send_rows(control, m->serial);
    } else if (busy) {
        send_end(control, m->serial, MESSAGE_REASON_BUSY);
    } else {
        control->calibrating.waiting = m->serial;
        if (!control->calibrating.runs)
            answer_next(control);
    }
}

// ---------------------------------------------------------------- life

// In the calibration's thread.
static void on_change(void *user)
{
    struct control *control = user;

    event_active(&control->calibrating.change, EV_READ, 0);
}

int control_calibration_init(struct control *control)
{
    if (event_assign(&control->calibrating.change, control->base, -1, 0, on_change_event, control) <
            0 ||
        evtimer_assign(&control->calibrating.guard, control->base, on_guard_event, control) < 0 ||
        evtimer_assign(&control->calibrating.again, control->base, on_again_event, control) < 0)
        return -EIO;
    // All now: their bells cannot be made in the sandbox.
    for (uint32_t i = 0; i < CONTROL_CALIBRATIONS; i++) {
        int r = calibration_new(on_change, control, &control->calibrating.threads[i]);

        if (r < 0)
            return r;
    }
    control->calibrating.thread = control->calibrating.threads[0];
    return 0;
}

bool control_calibration_stop(struct control *control)
{
    struct control_calibrating *calibrating = &control->calibrating;
    bool all = true;

    for (uint32_t i = 0; calibrating->thread && i <= calibrating->n_hung; i++)
        all = calibration_stop(calibrating->threads[i], STOP_MS) && all;
    return all;
}

void control_calibration_fini(struct control *control)
{
    for (uint32_t i = 0; i < CONTROL_CALIBRATIONS; i++)
        calibration_free(control->calibrating.threads[i]);
}
