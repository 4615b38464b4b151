// SPDX-License-Identifier: MIT
// The rows' tables: what is measured, kept and told. Guarantees: a row that was kept by an earlier
// process is taken only if it is of the same driver, and whole. Must not decide anything.
#include <stdio.h>
#include <string.h>

#include "offer.h"

#define SET_TEXT(field, text) (void)snprintf((field), sizeof(field), "%s", (text))

bool offer_row_is_measurable(const struct offer_row *row)
{
    return row->probe.error == 0 && (row->backend->ops != &backend_cpu_ops ||
                                     (row->probe.makes & BACKEND_MAKES_KEYSTREAM) != 0);
}

void offer_put_table(struct offer_row *row, int error, const struct measure_table *table)
{
    if (error == 0) {
        row->table = *table;
        row->measured = OFFER_MEASURED;
    } else if (row->measured != OFFER_MEASURED) {
        row->measured = OFFER_UNMEASURABLE;
    }
    row->measure_error = error;
}

static struct offer_row *find_row(struct offer *offer, const struct message_calibration *kept)
{
    for (uint32_t b = 0; kept->algorithm < ALGORITHM_COUNT && b < offer->n_backends; b++) {
        struct offer_row *row = &offer->rows[kept->algorithm][b];

        if (strcmp(row->backend->ops->name, kept->backend) == 0 &&
            strcmp(row->probe.driver, kept->driver) == 0)
            return row;
    }
    return NULL;
}

bool offer_take_kept(struct offer *offer, const struct message_calibration *kept)
{
    struct offer_row *row = find_row(offer, kept);

    if (!row || !offer_row_is_measurable(row))
        return false;
    row->table.wake_ns = kept->wake_ns;
    row->table.wake_cpu_ns = kept->wake_cpu_ns;
    memcpy(row->table.costs, kept->costs, sizeof(row->table.costs));
    row->measured = OFFER_MEASURED;
    return true;
}

void offer_get_calibration(const struct offer_row *row, struct message_calibration *ret)
{
    *ret = (struct message_calibration){
        .algorithm = row->info->id,
        .state = row->state,
        .lanes = row->lanes,
        .request_min = row->request_min,
        .wake_ns = row->table.wake_ns,
        .wake_cpu_ns = row->table.wake_cpu_ns,
    };
    memcpy(ret->costs, row->table.costs, sizeof(ret->costs));
    SET_TEXT(ret->backend, row->backend->ops->name);
    SET_TEXT(ret->driver, row->probe.driver);
    SET_TEXT(ret->text, row->text);
}
