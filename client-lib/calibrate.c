// SPDX-License-Identifier: MIT
// The daemon's calibration, on a connection of its own. Guarantees: a daemon that answers without
// end, or not at all, costs bounded memory and time.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "cryptod.h"
#include "wire.h"

_Static_assert(CRYPTOD_CALIBRATION_SIZES == MESSAGE_SIZES, "protocol");
_Static_assert(CRYPTOD_CALIBRATION_SIZE(7) == MESSAGE_SIZE_AT(7), "protocol");
_Static_assert(CRYPTOD_NOT_MEASURED == MESSAGE_NOT_MEASURED, "protocol");
_Static_assert(sizeof(struct cryptod_calibration_cost) == sizeof(struct message_costs), "protocol");

#define CALIBRATE_ROWS_MAX     256u // more than any daemon has
#define CALIBRATE_MESSAGES_MAX 65536u

// What the caller gets, and what its pointers point to.
struct calibrate {
    struct cryptod_calibration public;    // first: cryptod_calibration_free() gets a pointer to it
    struct message_calibration *messages; // the texts; CALIBRATE_ROWS_MAX
    struct cryptod_calibration_row *rows; // the same number
    void (*progress)(void *user, unsigned done, unsigned total);
    void *user;
};

static void calibrate_copy(struct cryptod_calibration_cost *to, const struct message_costs *from)
{
    memcpy(to->ns, from->ns, sizeof(to->ns));
    memcpy(to->cpu_ns, from->cpu_ns, sizeof(to->cpu_ns));
}

static int calibrate_add(struct calibrate *c, const struct message_calibration *m)
{
    const struct algorithm_info *info = algorithm_get(m->algorithm);
    const size_t n = c->public.n_rows;

    if (n == CALIBRATE_ROWS_MAX)
        return -EMSGSIZE;
    if (!info || m->state >= MESSAGE_STATE_COUNT)
        return 0; // of a newer daemon; not for us
    c->messages[n] = *m;
    c->rows[n] = (struct cryptod_calibration_row){
        .algorithm = info->name,
        .backend = c->messages[n].backend,
        .driver = c->messages[n].driver,
        .text = c->messages[n].text,
        .state = (enum cryptod_state)m->state,
        .lanes = m->lanes,
        .request_min = m->request_min,
    };
    calibrate_copy(&c->rows[n].software, &m->costs[MESSAGE_COST_SOFTWARE]);
    calibrate_copy(&c->rows[n].request, &m->costs[MESSAGE_COST_REQUEST]);
    calibrate_copy(&c->rows[n].keystream, &m->costs[MESSAGE_COST_KEYSTREAM]);
    calibrate_copy(&c->rows[n].take, &m->costs[MESSAGE_COST_TAKE]);
    if (m->wake_ns > c->public.wake_ns)
        c->public.wake_ns = m->wake_ns;
    c->public.n_rows++;
    return 0;
}

// 0: more is to come; 1: that was the end.
static int calibrate_take(struct calibrate *c, const struct message *m)
{
    switch (m->type) {
    case MESSAGE_CALIBRATION_PROGRESS:
        if (c->progress)
            c->progress(c->user, m->u.calibration_progress.done, m->u.calibration_progress.total);
        return 0;
    case MESSAGE_CALIBRATION:
        return calibrate_add(c, &m->u.calibration);
    case MESSAGE_CALIBRATION_END:
        if (m->u.calibration_end.reason != MESSAGE_OK)
            return wire_reason_error(m->u.calibration_end.reason);
        return 1;
    default:
        return -EBADMSG;
    }
}

static int calibrate_ask(struct calibrate *c, const char *path, unsigned timeout_ms, bool measure)
{
    const struct message question = {
        .type = MESSAGE_CALIBRATE, .serial = 1, .u.calibrate = {.measure = measure}};
    struct message m;
    int fd = -1;

    int r = wire_connect(path, &fd);
    if (r < 0)
        return r;
    r = wire_ask(fd, &question, NULL, 0);
    for (uint32_t n = 0; r == 0; n++) {
        r = n < CALIBRATE_MESSAGES_MAX ? wire_receive(fd, clock_now_ms() + timeout_ms, &m)
                                       : -EMSGSIZE;
        if (r == 0)
            r = m.serial == question.serial ? calibrate_take(c, &m) : -EBADMSG;
    }
    close(fd);
    return r < 0 ? r : 0;
}

static int calibrate_run(struct calibrate *c, const char *path, unsigned timeout_ms, bool measure)
{
    char resolved[WIRE_PATH_SIZE];
    int r = wire_find_path(path, resolved);

    if (r < 0)
        return r;
    c->messages = calloc(CALIBRATE_ROWS_MAX, sizeof(*c->messages));
    c->rows = calloc(CALIBRATE_ROWS_MAX, sizeof(*c->rows));
    if (!c->messages || !c->rows)
        return -ENOMEM;
    c->public.rows = c->rows;
    return calibrate_ask(c, resolved, timeout_ms, measure);
}

static int calibrate_get(const char *path, unsigned timeout_ms, bool measure,
                         void (*progress)(void *user, unsigned done, unsigned total), void *user,
                         struct cryptod_calibration **ret)
{
    struct calibrate *c = calloc(1, sizeof(*c));

    if (!c)
        return -ENOMEM;
    c->progress = progress;
    c->user = user;
    int r = calibrate_run(c, path, timeout_ms, measure);
    if (r < 0) {
        cryptod_calibration_free(&c->public);
        return r;
    }
    *ret = &c->public;
    return 0;
}

int cryptod_calibrate(const char *path, unsigned timeout_ms,
                      void (*progress)(void *user, unsigned done, unsigned total), void *user,
                      struct cryptod_calibration **ret)
{
    return calibrate_get(path, timeout_ms, true, progress, user, ret);
}

int cryptod_calibration_get(const char *path, unsigned timeout_ms, struct cryptod_calibration **ret)
{
    return calibrate_get(path, timeout_ms, false, NULL, NULL, ret);
}

void cryptod_calibration_free(struct cryptod_calibration *public)
{
    struct calibrate *c = (struct calibrate *)(void *)public;

    if (!c)
        return;
    free(c->messages);
    free(c->rows);
    free(c);
}
