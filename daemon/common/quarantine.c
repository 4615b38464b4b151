// SPDX-License-Identifier: MIT
// Guarantees: what is in the list was printable and is found again. Must not know who fills it.
#include "quarantine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_good(char c)
{
    return c > ' ' && c < 0x7f;
}

void quarantine_make_name(const char *driver, char ret[QUARANTINE_NAME_MAX])
{
    (void)snprintf(ret, QUARANTINE_NAME_MAX, "%s", driver[0] != '\0' ? driver : "-");
    for (char *c = ret; *c != '\0'; c++)
        if (!is_good(*c))
            *c = '_';
}

static bool has_pair(const char *list, const char *name, const char *algorithm)
{
    while (*list != '\0') {
        const size_t n_name = strcspn(list, " ");
        const char *second = list + n_name + (list[n_name] == ' ');
        const size_t n_second = strcspn(second, " ");

        if (n_name == strlen(name) && memcmp(list, name, n_name) == 0 &&
            n_second == strlen(algorithm) && memcmp(second, algorithm, n_second) == 0)
            return true;
        list = second + n_second + (second[n_second] == ' ');
    }
    return false;
}

bool quarantine_has(const char *list, const char *driver, const char *algorithm)
{
    char name[QUARANTINE_NAME_MAX];

    quarantine_make_name(driver, name);
    return has_pair(list, name, algorithm);
}

int quarantine_add(char *list, size_t n_list, const char *name, const char *algorithm)
{
    const size_t n = strlen(list);
    int n_more;

    for (const char *c = name; *c != '\0'; c++)
        if (!is_good(*c))
            return -EINVAL;
    if (name[0] == '\0')
        return -EINVAL;
    if (has_pair(list, name, algorithm))
        return 0;
    n_more = snprintf(list + n, n_list - n, "%s%s %s", n > 0 ? " " : "", name, algorithm);
    if (n_more < 0 || (size_t)n_more >= n_list - n) {
        list[n] = '\0';
        return -ENOSPC;
    }
    return 0;
}
