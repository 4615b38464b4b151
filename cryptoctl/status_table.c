// SPDX-License-Identifier: MIT
// The status for people: three lines and two tables (libsmartcols). Nothing is cut:
// what does not fit a terminal's line goes on in the next.
#include "status.h"

#include <errno.h>
#include <inttypes.h>
#include <libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

// What is said of rows: often the same of many. A row has its number, and the texts follow the
// table in full width.
struct notes {
    const char **texts; // room for one a row
    size_t n;
};

static const char *note_number(struct notes *notes, const char *text, char *buffer, size_t n_buffer)
{
    size_t i = 0;

    if (text[0] == '\0')
        return "-";
    while (i < notes->n && strcmp(notes->texts[i], text) != 0)
        i++;
    if (i == notes->n)
        notes->texts[notes->n++] = text;
    snprintf(buffer, n_buffer, "%zu", i + 1);
    return buffer;
}

static void notes_print(const struct notes *notes)
{
    for (size_t i = 0; i < notes->n; i++)
        printf("%s%4zu  %s\n", i == 0 ? "\nNOTE\n" : "", i + 1, notes->texts[i]);
}

static int print_algorithms(const struct cryptod_status *status)
{
    static const struct table_column columns[] = {
        {"ALGORITHM", 0},
        {"BACKEND", 0},
        {"DRIVER", 0},
        {"STATE", 0},
        {"OPERATIONS", SCOLS_FL_RIGHT},
        {"BYTES", SCOLS_FL_RIGHT},
        {"ERRORS", SCOLS_FL_RIGHT},
        {"LANES", 0},
        {"VERIFIED", SCOLS_FL_RIGHT},
        {"WRONG", SCOLS_FL_RIGHT},
        {"KEYS", SCOLS_FL_RIGHT},
        {"NOTE", SCOLS_FL_RIGHT},
    };
    struct libscols_table *table = table_new(columns, sizeof columns / sizeof columns[0]);
    if (table == NULL)
        return -ENOMEM;
    struct notes notes = {.texts = calloc(status->n_algorithms, sizeof *notes.texts)};
    int r = notes.texts ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < status->n_algorithms; i++) {
        const struct cryptod_status_algorithm *row = &status->algorithms[i];
        char lanes[64], operations[CRYPTOCTL_TEXT_LEN], errors[CRYPTOCTL_TEXT_LEN];
        char bytes[CRYPTOCTL_TEXT_LEN], verified[CRYPTOCTL_TEXT_LEN], wrong[CRYPTOCTL_TEXT_LEN];
        char note[CRYPTOCTL_TEXT_LEN], keys[CRYPTOCTL_TEXT_LEN];
        snprintf(operations, sizeof operations, "%" PRIu64, row->operations);
        snprintf(errors, sizeof errors, "%" PRIu64, row->errors);
        snprintf(verified, sizeof verified, "%" PRIu64, row->verified);
        snprintf(wrong, sizeof wrong, "%" PRIu64, row->mismatches);
        // "128/5": set now, and how often there was no room for another.
        snprintf(keys, sizeof keys, row->key_lacks > 0 ? "%" PRIu32 "/%" PRIu64 : "%" PRIu32,
                 row->keys, row->key_lacks);
        const char *cells[] = {
            row->algorithm,
            row->backend,
            row->driver[0] != '\0' ? row->driver : "-",
            status_state_name(row->state),
            operations,
            text_bytes(row->bytes, bytes),
            errors,
            status_lanes_text(row->lanes, lanes, sizeof lanes),
            verified,
            wrong,
            keys,
            note_number(&notes, row->text, note, sizeof note),
        };
        r = table_add(table, cells, sizeof cells / sizeof cells[0]);
    }
    r = table_print(table, r);
    if (r == 0)
        notes_print(&notes);
    free(notes.texts);
    return r;
}

static int print_channels(const struct cryptod_status *status)
{
    static const struct table_column columns[] = {
        {"SESSION", SCOLS_FL_RIGHT}, {"PID", SCOLS_FL_RIGHT},      {"UID", SCOLS_FL_RIGHT},
        {"STREAMS", SCOLS_FL_RIGHT}, {"AGE", SCOLS_FL_RIGHT},      {"OPERATIONS", SCOLS_FL_RIGHT},
        {"BYTES", SCOLS_FL_RIGHT},   {"SOFTWARE", SCOLS_FL_RIGHT}, {"FALLBACKS", SCOLS_FL_RIGHT},
        {"LEFT", SCOLS_FL_RIGHT},
    };
    struct libscols_table *table = table_new(columns, sizeof columns / sizeof columns[0]);
    if (table == NULL)
        return -ENOMEM;
    int r = 0;
    for (size_t i = 0; r == 0 && i < status->n_channel_rows; i++) {
        const struct cryptod_status_channel *row = &status->channel_rows[i];
        const uint64_t numbers[] = {row->channel,    row->pid,       row->uid,         row->streams,
                                    row->operations, row->fallbacks, row->lane_changes};
        char texts[7][CRYPTOCTL_TEXT_LEN];
        for (size_t k = 0; k < 7; k++)
            snprintf(texts[k], sizeof texts[k], "%" PRIu64, numbers[k]);
        char age[CRYPTOCTL_TEXT_LEN], bytes[CRYPTOCTL_TEXT_LEN], software[CRYPTOCTL_TEXT_LEN];
        const char *cells[] = {
            texts[0],
            texts[1],
            texts[2],
            texts[3],
            text_seconds(row->age_s, age),
            texts[4],
            text_bytes(row->bytes, bytes),
            text_bytes(row->software_bytes, software),
            texts[5],
            texts[6],
        };
        r = table_add(table, cells, sizeof cells / sizeof cells[0]);
    }
    return table_print(table, r);
}

static void print_notes(const struct cryptod_status *status)
{
    for (size_t i = 0; i < status->n_notes; i++)
        printf("%s%-8s %s\n", i == 0 ? "\nSANDBOX\n" : "", status->notes[i].topic,
               status->notes[i].text);
}

int status_print_tables(const struct cryptod_status *status)
{
    char uptime[CRYPTOCTL_TEXT_LEN];
    printf("cryptod %s: %s for %s on Linux %s", status->release, status_mode_name(status),
           text_seconds(status->uptime_s, uptime), status->kernel);
    printf("%s%s\n", status->text[0] != '\0' ? "; " : "", status->text);
    printf("sessions: %" PRIu32 " now (at most %" PRIu32 ", %" PRIu32 " a user), %" PRIu64
           " since start; streams: %" PRIu32 " now, %" PRIu64 " since start\n",
           status->channels, status->channels_max, status->channels_per_uid, status->channels_total,
           status->streams, status->streams_total);
    printf("refused: %" PRIu64 ", closed for breaking the rules: %" PRIu64 ", restarts: %" PRIu32
           "\n",
           status->refused_total, status->violations_total, status->restarts);
    int r = 0;
    if (status->n_algorithms > 0) {
        putchar('\n');
        r = print_algorithms(status);
    }
    if (r == 0 && status->n_channel_rows > 0) {
        putchar('\n');
        r = print_channels(status);
    }
    if (r == 0)
        r = status_print_limits(status);
    if (r == 0)
        print_notes(status);
    return r;
}
