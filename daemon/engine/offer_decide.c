// SPDX-License-Identifier: MIT
// What of that which works is offered. Guarantees: each row says why it is in its state, with the
// numbers that decided. Must not know how something is measured.
#include "offer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "role.h"

#define BULK                6u    // index of 64 KiB
#define REQUEST_MIN_DEFAULT 4096u // bytes, where nothing was measured and nothing configured

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

static void grant(struct offer_row *row, uint32_t lanes, uint32_t request_min)
{
    row->state = MESSAGE_STATE_OFFERED;
    row->lanes = lanes & ~MESSAGE_OFFER_KEYSTREAM_DEAR;
    row->hints = lanes & MESSAGE_OFFER_KEYSTREAM_DEAR;
    row->request_min = request_min;
}

// ---------------------------------------------------------------- by measurement

static unsigned mb_per_s(const struct offer_row *row, enum message_cost cost)
{
    const uint64_t took_ns = row->table.costs[cost].ns[BULK];

    return took_ns == MEASURE_NONE || took_ns == 0
               ? 0
               : (unsigned)(MESSAGE_SIZE_AT(BULK) * UINT64_C(1000) / took_ns);
}

static void say_figures(struct offer_row *row)
{
    SAY(row, "MB/s: OpenSSL %u, requests %u, keystream %u made, %u taken",
        mb_per_s(row, MESSAGE_COST_SOFTWARE), mb_per_s(row, MESSAGE_COST_REQUEST),
        mb_per_s(row, MESSAGE_COST_KEYSTREAM), mb_per_s(row, MESSAGE_COST_TAKE));
}

static struct choice choose(const struct offer *offer, const struct offer_row *row,
                            uint32_t request_min)
{
    const struct choice_machine machine = {
        .n_cpus = offer->n_cpus,
        .hardware = row->probe.hardware,
        .no_requests = row->backend->ops == &backend_cpu_ops,
        .request_min = request_min,
    };

    return choice_make(&row->table, &machine);
}

static void decide_measured(struct offer *offer, struct offer_row *row, uint32_t request_min)
{
    struct choice choice;

    if (!offer_row_is_measurable(row)) {
        SAY(row, "OpenSSL in the process is as fast");
    } else if (row->measured == OFFER_UNMEASURED) {
        SAY(row, "being measured");
    } else if (row->measured == OFFER_UNMEASURABLE) {
        SAY(row, "could not be measured: %s",
            row->measure_error == -ETIMEDOUT ? "too slow" : strerror(-row->measure_error));
    } else {
        say_figures(row);
        choice = choose(offer, row, request_min);
        if (choice.lanes != 0)
            grant(row, choice.lanes, choice.request_min);
    }
}

// Without a measurement.
static void decide_always(struct offer *offer, struct offer_row *row, uint32_t request_min)
{
    const char *origin = row->probe.hardware ? "an engine of this machine" : "";
    const struct choice choice = choose(offer, row, request_min);
    const uint32_t lanes = lanes_of(row->probe.makes);

    SAY(row, "%s", row->probe.text[0] != '\0' ? row->probe.text : origin);
    if (request_min == 0)
        request_min = choice.request_min != 0 ? choice.request_min : REQUEST_MIN_DEFAULT;
    grant(row, lanes, (lanes & MESSAGE_LANE_REQUEST) != 0 ? request_min : 0);
}

// ---------------------------------------------------------------- for each row

static void decide_working_row(struct offer *offer, struct offer_row *row, uint32_t offload,
                               uint32_t request_min)
{
    row->state = MESSAGE_STATE_DECLINED;
    if (offload == CONFIG_OFFLOAD_OFF) {
        SAY(row, "switched off (offload = off)");
    } else if (offload == CONFIG_OFFLOAD_ALWAYS) {
        decide_always(offer, row, request_min);
    } else {
        decide_measured(offer, row, request_min);
    }
}

static void decide_row(struct offer *offer, struct offer_row *row, const struct offer_row *serving,
                       uint32_t offload, uint32_t request_min)
{
    row->lanes = row->hints = 0;
    row->request_min = 0;
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
        decide_working_row(offer, row, offload, request_min);
    }
}

void offer_decide(struct offer *offer, uint32_t offload, uint32_t request_min)
{
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        const struct offer_row *serving = NULL;

        for (uint32_t b = 0; b < offer->n_backends; b++) {
            struct offer_row *row = &offer->rows[a][b];

            decide_row(offer, row, serving, offload, request_min);
            if (row->lanes != 0)
                serving = row;
        }
    }
}
