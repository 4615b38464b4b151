// SPDX-License-Identifier: MIT
// Guarantees: no trouble with the file keeps the daemon from starting. Must not know what the
// figures say.
#include "calibration_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "state_file.h"

struct calibration_store {
    char *directory;
    struct calibration_table kept;
    struct calibration_table coming;
    bool begun;
};

// ---------------------------------------------------------------- reading

static int load(int directory, struct calibration_table *ret)
{
    char *text = calloc(1, CALIBRATION_TEXT_MAX + 1);
    size_t n = 0;
    int r;

    if (!text)
        return -ENOMEM;
    r = state_file_read(directory, CALIBRATION_STORE_NAME, text, CALIBRATION_TEXT_MAX, &n);
    if (r == 0)
        r = calibration_file_parse(text, n, ret);
    free(text);
    return r;
}

int calibration_store_new(const char *path, struct calibration_store **ret)
{
    struct calibration_store *store = calloc(1, sizeof(*store));
    int directory = -1, r;

    if (store)
        store->directory = strdup(path);
    if (!store || !store->directory) {
        free(store);
        return -ENOMEM;
    }
    r = state_file_open_directory(store->directory, &directory);
    if (r == 0)
        r = load(directory, &store->kept);
    if (directory < 0)
        log_notice("%s: %s: what is measured is not kept", path, strerror(-r));
    else if (r == -EBADMSG || r == -EFBIG)
        log_notice("%s/" CALIBRATION_STORE_NAME ": damaged: measured again", path);
    else if (r < 0 && r != -ENOENT)
        log_notice("%s/" CALIBRATION_STORE_NAME ": %s: measured again", path, strerror(-r));
    if (directory >= 0)
        close(directory);
    *ret = store;
    return 0;
}

void calibration_store_free(struct calibration_store *store)
{
    if (!store)
        return;
    free(store->directory);
    free(store);
}

uint32_t calibration_store_count_messages(const struct calibration_store *store)
{
    return store->kept.n_rows > 0 ? 1 + store->kept.n_rows : 0; // the key comes first
}

void calibration_store_get_message(const struct calibration_store *store, uint32_t i,
                                   struct message *ret)
{
    if (i == 0)
        *ret =
            (struct message){.type = MESSAGE_CALIBRATION_KEY, .u.calibration_key = store->kept.key};
    else
        *ret =
            (struct message){.type = MESSAGE_CALIBRATION, .u.calibration = store->kept.rows[i - 1]};
}

// ---------------------------------------------------------------- writing

static int save(const struct calibration_store *store)
{
    char *text = malloc(CALIBRATION_TEXT_MAX);
    int directory = -1, r = -ENOMEM;
    size_t n = 0;

    if (text)
        r = calibration_file_print(&store->kept, text, &n);
    if (r == 0)
        r = state_file_open_directory(store->directory, &directory);
    if (r == 0)
        r = state_file_write(directory, CALIBRATION_STORE_NAME, text, n);
    if (directory >= 0)
        close(directory);
    free(text);
    return r;
}

// ---------------------------------------------------------------- the engine's messages

static int take_row(struct calibration_store *store, const struct message_calibration *row)
{
    struct calibration_table *coming = &store->coming;

    if (!store->begun || coming->n_rows == CALIBRATION_ROWS_MAX || !calibration_file_takes_row(row))
        return -EBADMSG;
    coming->rows[coming->n_rows++] = *row;
    return 0;
}

static int take_end(struct calibration_store *store)
{
    int r;

    if (!store->begun)
        return -EBADMSG;
    store->begun = false;
    store->kept = store->coming;
    r = save(store);
    if (r < 0)
        log_notice("%s/" CALIBRATION_STORE_NAME ": %s: what was measured is not kept",
                   store->directory, strerror(-r));
    else
        log_debug("%s/" CALIBRATION_STORE_NAME ": written", store->directory);
    return 0;
}

int calibration_store_take(struct calibration_store *store, const struct message *m)
{
    switch (m->type) {
    case MESSAGE_CALIBRATION_KEY:
        if (!calibration_file_takes_key(&m->u.calibration_key))
            return -EBADMSG;
        store->coming.key = m->u.calibration_key;
        store->coming.n_rows = 0;
        store->begun = true;
        return 0;
    case MESSAGE_CALIBRATION:
        return take_row(store, &m->u.calibration);
    case MESSAGE_CALIBRATION_END:
        return take_end(store);
    default:
        return -EBADMSG;
    }
}
