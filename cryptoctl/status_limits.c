// SPDX-License-Identifier: MIT
// The tables of limits: what is used of each, in all and, for those who may know, by each user.
#include "status.h"

#include <errno.h>
#include <inttypes.h>
#include <libsmartcols.h>
#include <stdio.h>

#include "table.h"

static bool counts_bytes(size_t limit)
{
    return limit == CRYPTOD_LIMIT_SHARED_MEMORY || limit == CRYPTOD_LIMIT_LOCKED_MEMORY;
}

static const char *text_amount(size_t limit, uint64_t n, char buffer[CRYPTOCTL_TEXT_LEN])
{
    if (counts_bytes(limit))
        return text_bytes(n, buffer);
    snprintf(buffer, CRYPTOCTL_TEXT_LEN, "%" PRIu64, n);
    return buffer;
}

static const char *text_most(size_t limit, uint64_t n, char buffer[CRYPTOCTL_TEXT_LEN])
{
    return n == 0 ? "-" : text_amount(limit, n, buffer);
}

static const char *const names[CRYPTOD_LIMIT_COUNT] = {
    [CRYPTOD_LIMIT_CHANNELS] = "sessions",
    [CRYPTOD_LIMIT_STREAMS] = "streams",
    [CRYPTOD_LIMIT_SHARED_MEMORY] = "shared memory",
    [CRYPTOD_LIMIT_LOCKED_MEMORY] = "locked memory",
    [CRYPTOD_LIMIT_REQUESTS] = "requests in flight",
    [CRYPTOD_LIMIT_CONNECTS] = "connects a second",
};

static int print_all(const struct cryptod_status *status)
{
    static const struct table_column columns[] = {
        {"LIMIT", 0},
        {"USED", SCOLS_FL_RIGHT},
        {"AT MOST", SCOLS_FL_RIGHT},
        {"A USER", SCOLS_FL_RIGHT},
        {"REFUSED", SCOLS_FL_RIGHT},
    };
    struct libscols_table *table = table_new(columns, sizeof columns / sizeof columns[0]);
    if (table == NULL)
        return -ENOMEM;
    int r = 0;
    for (size_t i = 0; r == 0 && i < CRYPTOD_LIMIT_COUNT; i++) {
        const struct cryptod_status_limit *limit = &status->limits[i];
        char used[CRYPTOCTL_TEXT_LEN], in_all[CRYPTOCTL_TEXT_LEN], per_uid[CRYPTOCTL_TEXT_LEN];
        char refused[CRYPTOCTL_TEXT_LEN];
        snprintf(refused, sizeof refused, "%" PRIu64, limit->refused);
        const char *cells[] = {
            names[i],
            text_amount(i, limit->used, used),
            text_most(i, limit->in_all, in_all),
            text_most(i, limit->per_uid, per_uid),
            refused,
        };
        r = table_add(table, cells, sizeof cells / sizeof cells[0]);
    }
    return table_print(table, r);
}

static int print_users(const struct cryptod_status *status)
{
    static const struct table_column columns[] = {
        {"UID", SCOLS_FL_RIGHT},      {"SESSIONS", SCOLS_FL_RIGHT}, {"STREAMS", SCOLS_FL_RIGHT},
        {"SHARED", SCOLS_FL_RIGHT},   {"LOCKED", SCOLS_FL_RIGHT},   {"REQUESTS", SCOLS_FL_RIGHT},
        {"CONNECTS", SCOLS_FL_RIGHT},
    };
    struct libscols_table *table = table_new(columns, sizeof columns / sizeof columns[0]);
    if (table == NULL)
        return -ENOMEM;
    int r = 0;
    for (size_t i = 0; r == 0 && i < status->n_user_rows; i++) {
        const struct cryptod_status_user *row = &status->user_rows[i];
        char texts[CRYPTOD_LIMIT_COUNT + 1][CRYPTOCTL_TEXT_LEN];
        const char *cells[CRYPTOD_LIMIT_COUNT + 1] = {texts[0]};
        snprintf(texts[0], sizeof texts[0], "%" PRIu32, row->uid);
        for (size_t k = 0; k < CRYPTOD_LIMIT_COUNT; k++)
            cells[k + 1] = text_amount(k, row->used[k], texts[k + 1]);
        r = table_add(table, cells, sizeof cells / sizeof cells[0]);
    }
    return table_print(table, r);
}

int status_print_limits(const struct cryptod_status *status)
{
    putchar('\n');
    int r = print_all(status);
    if (r == 0 && status->n_user_rows > 0) {
        putchar('\n');
        r = print_users(status);
    }
    return r;
}
