// SPDX-License-Identifier: MIT
// What of that which works is offered. Guarantees: each row says why it is in its state, with the
// numbers that decided. Must not know how something is measured.
#include "offer.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "role.h"

#define SAY(row, ...) (void)snprintf((row)->text, sizeof((row)->text), __VA_ARGS__)

static bool row_works(const struct offer_row *row)
{
    return row->probe.error == 0;
}

static uint32_t lanes_of(uint32_t makes)
{
    return (makes & BACKEND_MAKES_REQUESTS ? MESSAGE_LANE_REQUEST : 0) |
           (makes & BACKEND_MAKES_KEYSTREAM ? MESSAGE_LANE_KEYSTREAM : 0);
}

static void grant(struct offer_row *row, uint32_t lanes)
{
    row->state = MESSAGE_STATE_OFFERED;
    row->lanes = lanes;
}

// ---------------------------------------------------------------- by measurement

static void measure_row(struct offer *offer, struct offer_row *row)
{
    int r;

    if (row->measured)
        return;
    r = measure_run(row->backend->ops, row->backend->instance, offer->reference.ops,
                    offer->reference.instance, row->info->id, row->probe.makes, &row->measure);
    row->measured = r == 0;
    if (r < 0)
        log_warning("%s by %s: cannot be measured: %s", row->info->name, row->backend->ops->name,
                    strerror(-r));
}

static unsigned mb_per_s(uint64_t took_ns)
{
    if (took_ns == MEASURE_NONE)
        return 0;
    return (unsigned)(MEASURE_SIZE * UINT64_C(1000) / (took_ns > 0 ? took_ns : 1));
}

// Whether any measurement could end with a lane: the CPU that asks is no faster in another thread.
static bool is_worth_measuring(const struct offer_row *row)
{
    return row->backend->ops == &backend_afalg_ops ||
           (row->probe.makes & BACKEND_MAKES_KEYSTREAM) != 0;
}

static void decide_measured(struct offer *offer, struct offer_row *row)
{
    const long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    const struct measure *m = &row->measure;
    uint32_t lanes = 0;

    if (!is_worth_measuring(row)) {
        SAY(row, "OpenSSL in the process is as fast");
        return;
    }
    measure_row(offer, row);
    if (!row->measured) {
        SAY(row, "could not be measured");
        return;
    }
    if (measure_request_gains(m) && row->backend->ops == &backend_afalg_ops)
        lanes |= MESSAGE_LANE_REQUEST;
    if (measure_keystream_gains(m, n_cpus > 0 ? (uint32_t)n_cpus : 1, row->probe.hardware))
        lanes |= MESSAGE_LANE_KEYSTREAM;
    SAY(row, "MB/s: OpenSSL %u, requests %u, keystream %u made, %u taken", mb_per_s(m->software_ns),
        mb_per_s(m->request_ns), mb_per_s(m->keystream_ns), mb_per_s(m->take_ns));
    if (lanes != 0)
        grant(row, lanes);
}

// ---------------------------------------------------------------- for each row

static void decide_working_row(struct offer *offer, struct offer_row *row, uint32_t offload)
{
    row->state = MESSAGE_STATE_DECLINED;
    if (offload == CONFIG_OFFLOAD_OFF) {
        SAY(row, "switched off (offload = off)");
    } else if (offload == CONFIG_OFFLOAD_ALWAYS) {
        const char *origin = row->probe.hardware ? "an engine of this machine" : "";

        SAY(row, "%s", row->probe.text[0] != '\0' ? row->probe.text : origin);
        grant(row, lanes_of(row->probe.makes));
    } else {
        decide_measured(offer, row);
    }
}

static void decide_row(struct offer *offer, struct offer_row *row, const struct offer_row *serving,
                       uint32_t offload)
{
    row->lanes = 0;
    if (!row_works(row)) {
        row->state = row->probe.denied ? MESSAGE_STATE_DENIED
                     : row->wrong      ? MESSAGE_STATE_QUARANTINED
                                       : MESSAGE_STATE_ABSENT;
        _Static_assert(sizeof(row->text) == sizeof(row->probe.text), "one text, two places");
        memcpy(row->text, row->probe.text, sizeof(row->text));
    } else if (serving) {
        row->state = MESSAGE_STATE_DECLINED;
        SAY(row, "backend %s serves it", serving->backend->ops->name);
    } else {
        decide_working_row(offer, row, offload);
    }
}

void offer_decide(struct offer *offer, uint32_t offload, uint32_t request_min)
{
    offer->request_min = request_min;
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        const struct offer_row *serving = NULL;

        for (uint32_t b = 0; b < offer->n_backends; b++) {
            struct offer_row *row = &offer->rows[a][b];

            decide_row(offer, row, serving, offload);
            if (row->lanes != 0)
                serving = row;
        }
    }
}
