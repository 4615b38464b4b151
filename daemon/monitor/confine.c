// SPDX-License-Identifier: MIT
// Guarantees: what a role needs to be executed again can be reached as long as it stays in the
// directories where it was at the start, so that an upgrade of a library does not end the service.
// Must not know what is read there.
#include "confine.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "log.h"
#include "sandbox.h"

#define PLACES_MAX 64

struct places {
    struct sandbox_place place[PLACES_MAX];
    char path[PLACES_MAX][PATH_MAX];
    size_t n;
};

static void place_add(struct places *places, enum sandbox_use use, const char *path, size_t n_path)
{
    size_t i = places->n;

    if (n_path == 0 || n_path >= PATH_MAX)
        return;
    for (size_t k = 0; k < i; k++)
        if (places->place[k].use == use && strlen(places->path[k]) == n_path &&
            memcmp(places->path[k], path, n_path) == 0)
            return;
    if (i == PLACES_MAX) {
        log_warning("Landlock: no room for %.*s", (int)n_path, path);
        return;
    }
    memcpy(places->path[i], path, n_path);
    places->path[i][n_path] = '\0';
    places->place[i] = (struct sandbox_place){.path = places->path[i], .use = use};
    places->n++;
}

static void directory_add(struct places *places, enum sandbox_use use, const char *file)
{
    const char *slash = strrchr(file, '/');

    if (!slash)
        place_add(places, use, ".", 1);
    else if (slash > file) // else in the root directory, which is everything
        place_add(places, use, file, (size_t)(slash - file));
}

// So that the socket's directory can be removed, its own directory.
static void socket_directory_add(struct places *places, const char *socket)
{
    char *directory = strdup(socket);

    if (!directory)
        return;
    *strrchr(directory, '/') = '\0'; // absolute, since the directory could be made
    directory_add(places, SANDBOX_USE_CLEAR, directory);
    free(directory);
}

// Where the program's libraries are, the loader among them: a role needs them when it is executed.
static void libraries_add(struct places *places)
{
    FILE *in = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128];

    while (in && fgets(line, sizeof(line), in)) {
        char *path = strchr(line, '/');

        line[strcspn(line, "\n")] = '\0';
        if (path && strstr(path, ".so"))
            directory_add(places, SANDBOX_USE_RUN, path);
    }
    if (in)
        fclose(in);
}

static void config_add(struct places *places, const char *path)
{
    char *target;

    if (!path)
        path = CONFIG_DEFAULT_PATH;
    directory_add(places, SANDBOX_USE_READ, path);
    target = realpath(path, NULL);
    if (target)
        directory_add(places, SANDBOX_USE_READ, target);
    free(target);
}

void confine_monitor(const struct confine_settings *settings, char *ret, size_t n)
{
    // /etc: users and groups, whose files are replaced by name. The rest is what the C library,
    // OpenSSL and the engine's look at the kernel read.
    static const char *const read[] = {"/etc", "/proc", "/sys/devices/system/cpu", "/dev/urandom"};
    struct places *places = calloc(1, sizeof(*places));
    int limit;

    if (!places) {
        snprintf(ret, n, "no Landlock (no memory)");
        return;
    }
    config_add(places, settings->config_path);
    libraries_add(places);
    for (size_t i = 0; i < sizeof(read) / sizeof(read[0]); i++)
        place_add(places, SANDBOX_USE_READ, read[i], strlen(read[i]));
    place_add(places, SANDBOX_USE_RUN, "/proc/self/exe", strlen("/proc/self/exe"));
    place_add(places, SANDBOX_USE_WRITE, "/dev/null", strlen("/dev/null"));
    place_add(places, SANDBOX_USE_KEEP, settings->state_directory,
              strlen(settings->state_directory));
    directory_add(places, SANDBOX_USE_KEEP, settings->socket);
    if (settings->directory_made)
        socket_directory_add(places, settings->socket);
    limit = sandbox_limit_files(places->place, places->n);
    sandbox_describe_limit(limit, ret, n);
    free(places);
}
