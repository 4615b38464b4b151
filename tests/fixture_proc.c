// SPDX-License-Identifier: MIT
// Guarantees answers about processes that exist at that moment, from /proc alone.
#include "fixture_proc.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct proc_stat {
    char name[64];
    char state;
    pid_t parent;
    unsigned long long started;
};

static bool proc_read_stat(pid_t pid, struct proc_stat *ret)
{
    char path[64], text[1024];

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *in = fopen(path, "re");
    if (in == NULL)
        return false;
    size_t n = fread(text, 1, sizeof(text) - 1, in);
    fclose(in);
    text[n] = '\0';
    // pid (name) state ppid ... starttime is field 22; the name may contain anything, so look for
    // its last ')'.
    char *name = strchr(text, '('), *end = strrchr(text, ')');
    if (name == NULL || end == NULL)
        return false;
    *end = '\0';
    snprintf(ret->name, sizeof(ret->name), "%s", name + 1);
    return sscanf(end + 2,
                  "%c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                  &ret->state, &ret->parent, &ret->started) == 3;
}

static bool proc_title_begins(pid_t pid, const char *title)
{
    char path[64], text[256];

    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    FILE *in = fopen(path, "re");
    if (in == NULL)
        return false;
    size_t n = fread(text, 1, sizeof(text) - 1, in);
    fclose(in);
    text[n] = '\0';
    return strncmp(text, title, strlen(title)) == 0;
}

static bool proc_is_dead(const struct proc_stat *st)
{
    return st->state == 'Z' || st->state == 'X';
}

bool fixture_proc_lives(pid_t pid)
{
    struct proc_stat st;

    return proc_read_stat(pid, &st) && !proc_is_dead(&st);
}

pid_t fixture_proc_find_child(pid_t parent, const char *title)
{
    unsigned long long youngest = 0;
    struct dirent *entry;
    DIR *proc = opendir("/proc");
    pid_t found = 0;

    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        struct proc_stat st;

        if (pid <= 0 || !proc_read_stat(pid, &st) || st.parent != parent)
            continue;
        if (proc_is_dead(&st)) {
            if (parent == getpid() && strncmp(st.name, "cryptod", 7) == 0)
                waitpid(pid, NULL, WNOHANG);
        } else if (st.started >= youngest && proc_title_begins(pid, title)) {
            youngest = st.started;
            found = pid;
        }
    }
    if (proc != NULL)
        closedir(proc);
    return found;
}

unsigned fixture_proc_count_descriptors(pid_t pid)
{
    char path[64];
    unsigned n = 0;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    if (dir == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}
