// SPDX-License-Identifier: MIT
// Guarantees: what is in the list can be found by quarantine_has(); no trouble with the file keeps
// the daemon from starting. Must not know who found a driver out.
#include "quarantine_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "quarantine.h"
#include "state_file.h"

#define BOOT_ID_LEN 36u
#define TEXT_MAX    (BOOT_ID_LEN + 1u + LIST_MAX)
#define LIST_MAX    sizeof(((struct message_role_config *)0)->quarantined)

struct quarantine_store {
    char *directory;
    char boot_id[BOOT_ID_LEN + 1];
    char list[LIST_MAX];
};

// ---------------------------------------------------------------- the file

// "?": unknown, and then nothing is taken from a file.
static void read_boot_id(char ret[BOOT_ID_LEN + 1])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, ret, BOOT_ID_LEN) : -1;

    ret[BOOT_ID_LEN] = '\0';
    if (n != (ssize_t)BOOT_ID_LEN)
        (void)snprintf(ret, BOOT_ID_LEN + 1, "?");
    if (fd >= 0)
        close(fd);
}

// text: ends with a NUL; is taken apart. Lines that are no names are left out.
static void parse(struct quarantine_store *store, char *text)
{
    const char *line = strsep(&text, "\n");

    if (strcmp(line, store->boot_id) != 0 || strcmp(line, "?") == 0)
        return;
    while (text && (line = strsep(&text, "\n")))
        if (*line != '\0' && strlen(line) < QUARANTINE_NAME_MAX)
            (void)quarantine_add(store->list, sizeof(store->list), line, QUARANTINE_HANGS);
}

static int load(struct quarantine_store *store)
{
    char text[TEXT_MAX + 1];
    int directory = -1;
    size_t n = 0;
    int r = state_file_open_directory(store->directory, &directory);

    if (r < 0)
        return r;
    r = state_file_read(directory, QUARANTINE_STORE_NAME, text, TEXT_MAX, &n);
    close(directory);
    if (r < 0)
        return r;
    text[n] = '\0';
    parse(store, text);
    return 0;
}

static int save(const struct quarantine_store *store)
{
    char text[TEXT_MAX], hung[LIST_MAX];
    int directory = -1;
    int r = state_file_open_directory(store->directory, &directory);
    size_t n;

    if (r < 0)
        return r;
    quarantine_get_hung(store->list, hung, sizeof(hung));
    for (char *c = hung; *c != '\0'; c++)
        if (*c == ' ')
            *c = '\n';
    n = (size_t)snprintf(text, sizeof(text), "%s\n%s\n", store->boot_id, hung);
    r = state_file_write(directory, QUARANTINE_STORE_NAME, text, n);
    close(directory);
    return r;
}

// ---------------------------------------------------------------- life

int quarantine_store_new(const char *path, struct quarantine_store **ret)
{
    struct quarantine_store *store = calloc(1, sizeof(*store));
    int r;

    if (store)
        store->directory = strdup(path);
    if (!store || !store->directory) {
        free(store);
        return -ENOMEM;
    }
    read_boot_id(store->boot_id);
    r = load(store);
    if (r < 0 && r != -ENOENT)
        log_notice("%s/" QUARANTINE_STORE_NAME ": %s", path, strerror(-r));
    if (store->list[0] != '\0')
        log_notice("not used until the machine is restarted, or %s/" QUARANTINE_STORE_NAME
                   " removed: %s",
                   path, store->list);
    *ret = store;
    return 0;
}

void quarantine_store_free(struct quarantine_store *store)
{
    if (!store)
        return;
    free(store->directory);
    free(store);
}

const char *quarantine_store_list(const struct quarantine_store *store)
{
    return store->list;
}

static int add_hung(struct quarantine_store *store, const char *driver)
{
    int r;

    if (quarantine_has(store->list, driver, QUARANTINE_HANGS))
        return 0;
    r = quarantine_add(store->list, sizeof(store->list), driver, QUARANTINE_HANGS);
    if (r < 0)
        return r;
    log_warning("driver %s hangs: not used until the machine is restarted", driver);
    r = save(store);
    if (r < 0)
        log_warning("%s/" QUARANTINE_STORE_NAME ": %s: a restart of cryptod would try it again",
                    store->directory, strerror(-r));
    return 0;
}

int quarantine_store_add(struct quarantine_store *store, const struct message_quarantine *what)
{
    const struct algorithm_info *info = algorithm_get(what->algorithm);

    if (!info)
        return -EINVAL;
    if (what->kind == MESSAGE_QUARANTINE_HANGS)
        return add_hung(store, what->driver);
    return quarantine_add(store->list, sizeof(store->list), what->driver, info->name);
}
