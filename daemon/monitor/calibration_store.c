// SPDX-License-Identifier: MIT
// Guarantees: the file is the old one or the new one, whole, whatever happens meanwhile; no trouble
// with it keeps the daemon from starting. Must not know what the figures say.
#include "calibration_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

#define NAME_NEW CALIBRATION_STORE_NAME ".new"

struct calibration_store {
    char *directory;
    struct calibration_table kept;
    struct calibration_table coming;
    bool begun;
};

// ---------------------------------------------------------------- reading

static int read_all(int fd, char *text, size_t n_max, size_t *ret_n)
{
    size_t n = 0;

    while (n < n_max) {
        ssize_t got = read(fd, text + n, n_max - n);

        if (got < 0 && errno != EINTR)
            return -errno;
        if (got == 0)
            break;
        n += got > 0 ? (size_t)got : 0;
    }
    *ret_n = n;
    return n < n_max ? 0 : -EFBIG;
}

// No link, no device: a name in a directory that somebody else could have written to.
static int open_file(int directory, int *ret_fd)
{
    struct stat st;
    int fd =
        openat(directory, CALIBRATION_STORE_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return -EBADMSG;
    }
    *ret_fd = fd;
    return 0;
}

static int load(int directory, struct calibration_table *ret)
{
    char *text = calloc(1, CALIBRATION_TEXT_MAX + 1);
    size_t n = 0;
    int fd = -1, r;

    if (!text)
        return -ENOMEM;
    r = open_file(directory, &fd);
    if (r == 0)
        r = read_all(fd, text, CALIBRATION_TEXT_MAX, &n);
    if (r == 0)
        r = calibration_file_parse(text, n, ret);
    if (fd >= 0)
        close(fd);
    free(text);
    return r;
}

static int open_directory(const struct calibration_store *store, int *ret_fd)
{
    int fd = open(store->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
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
    r = open_directory(store, &directory);
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

static int write_all(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t put = write(fd, text, n);

        if (put < 0 && errno != EINTR)
            return -errno;
        if (put > 0) {
            text += put;
            n -= (size_t)put;
        }
    }
    return fsync(fd) < 0 ? -errno : 0;
}

static int write_file(int directory, const char *text, size_t n)
{
    int fd, r;

    (void)unlinkat(directory, NAME_NEW, 0); // of a monitor that was killed while it wrote
    fd = openat(directory, NAME_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    r = write_all(fd, text, n);
    if (close(fd) < 0 && r == 0)
        r = -errno;
    if (r == 0 && renameat(directory, NAME_NEW, directory, CALIBRATION_STORE_NAME) < 0)
        r = -errno;
    if (r < 0)
        (void)unlinkat(directory, NAME_NEW, 0);
    else if (fsync(directory) < 0)
        r = -errno;
    return r;
}

static int save(const struct calibration_store *store)
{
    char *text = malloc(CALIBRATION_TEXT_MAX);
    int directory = -1, r = -ENOMEM;
    size_t n = 0;

    if (text)
        r = calibration_file_print(&store->kept, text, &n);
    if (r == 0)
        r = open_directory(store, &directory);
    if (r == 0)
        r = write_file(directory, text, n);
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
