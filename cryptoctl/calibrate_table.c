// SPDX-License-Identifier: MIT
// A calibration for people: MB/s by size, and what was decided.
#include <errno.h>
#include <inttypes.h>
#include <libsmartcols.h>
#include <stdio.h>
#include <string.h>

#include "calibrate_print.h"
#include "status.h"
#include "table.h"

#define N_COLUMNS (3u + CRYPTOD_CALIBRATION_SIZES)

static const char *text_speed(uint64_t ns, unsigned size, char buffer[CRYPTOCTL_TEXT_LEN])
{
    if (ns == CRYPTOD_NOT_MEASURED || ns == 0)
        return "-";
    const double speed = (double)size * 1000.0 / (double)ns;
    snprintf(buffer, CRYPTOCTL_TEXT_LEN, speed < 10 ? "%.1f" : "%.0f", speed);
    return buffer;
}

// A lane's line; algorithm and driver stand in the row's first one alone.
static int add_line(struct libscols_table *table, const struct cryptod_calibration_row *row,
                    bool first, const char *lane, const struct cryptod_calibration_cost *cost)
{
    char speeds[CRYPTOD_CALIBRATION_SIZES][CRYPTOCTL_TEXT_LEN];
    const char *cells[N_COLUMNS] = {first ? row->algorithm : "", first ? row->driver : "", lane};
    bool measured = false;

    for (unsigned i = 0; i < CRYPTOD_CALIBRATION_SIZES; i++) {
        cells[3 + i] = text_speed(cost->ns[i], CRYPTOD_CALIBRATION_SIZE(i), speeds[i]);
        measured = measured || cost->ns[i] != CRYPTOD_NOT_MEASURED;
    }
    return measured || first ? table_add(table, cells, N_COLUMNS) : 0;
}

static int print_speeds(const struct cryptod_calibration *calibration)
{
    static const struct table_column columns[N_COLUMNS] = {
        {"ALGORITHM", 0},
        {"DRIVER", 0},
        {"MB/S", 0},
        {"16", SCOLS_FL_RIGHT},
        {"64", SCOLS_FL_RIGHT},
        {"256", SCOLS_FL_RIGHT},
        {"1K", SCOLS_FL_RIGHT},
        {"4K", SCOLS_FL_RIGHT},
        {"16K", SCOLS_FL_RIGHT},
        {"64K", SCOLS_FL_RIGHT},
        {"256K", SCOLS_FL_RIGHT},
    };
    struct libscols_table *table = table_new(columns, N_COLUMNS);
    int r = table != NULL ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < calibration->n_rows; i++) {
        const struct cryptod_calibration_row *row = &calibration->rows[i];

        r = add_line(table, row, true, "software", &row->software);
        if (r == 0)
            r = add_line(table, row, false, "request", &row->request);
        if (r == 0)
            r = add_line(table, row, false, "keystream", &row->keystream);
        if (r == 0)
            r = add_line(table, row, false, "taking it", &row->take);
    }
    return table != NULL ? table_print(table, r) : r;
}

static int print_decisions(const struct cryptod_calibration *calibration)
{
    static const struct table_column columns[] = {
        {"ALGORITHM", 0},
        {"DRIVER", 0},
        {"STATE", 0},
        {"LANES", 0},
        {"FROM", SCOLS_FL_RIGHT},
        {"NOTE", SCOLS_FL_TRUNC},
    };
    const size_t n_columns = sizeof columns / sizeof columns[0];
    struct libscols_table *table = table_new(columns, n_columns);
    int r = table != NULL ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < calibration->n_rows; i++) {
        const struct cryptod_calibration_row *row = &calibration->rows[i];
        char lanes[64], from[CRYPTOCTL_TEXT_LEN];
        const char *cells[] = {
            row->algorithm,
            row->driver,
            status_state_name(row->state),
            status_lanes_text(row->lanes, lanes, sizeof lanes),
            row->request_min > 0 ? text_bytes(row->request_min, from) : "-",
            row->text,
        };
        r = table_add(table, cells, n_columns);
    }
    return table != NULL ? table_print(table, r) : r;
}

int calibrate_print_tables(const struct cryptod_calibration *calibration)
{
    if (calibration->n_rows == 0) {
        puts("No backend has a lane that could gain: nothing is measured.");
        return 0;
    }
    int r = print_speeds(calibration);
    if (r == 0) {
        printf("\nwaking the daemon and being woken: %.1f us, counted in each request\n\n",
               (double)calibration->wake_ns / 1000.0);
        r = print_decisions(calibration);
    }
    return r;
}
