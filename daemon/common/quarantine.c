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

struct pair {
    const char *name;
    const char *algorithm;
    size_t n_name;
    size_t n_algorithm;
};

// The pair at the list's beginning; returns what follows.
static const char *take_pair(const char *list, struct pair *ret)
{
    ret->name = list;
    ret->n_name = strcspn(list, " ");
    ret->algorithm = list + ret->n_name + (list[ret->n_name] == ' ');
    ret->n_algorithm = strcspn(ret->algorithm, " ");
    return ret->algorithm + ret->n_algorithm + (ret->algorithm[ret->n_algorithm] == ' ');
}

static bool is_word(const char *word, size_t n_word, const char *text)
{
    return n_word == strlen(text) && memcmp(word, text, n_word) == 0;
}

static bool has_pair(const char *list, const char *name, const char *algorithm)
{
    struct pair pair;

    while (*list != '\0') {
        list = take_pair(list, &pair);
        if (is_word(pair.name, pair.n_name, name) &&
            is_word(pair.algorithm, pair.n_algorithm, algorithm))
            return true;
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

void quarantine_get_hung(const char *list, char *ret, size_t n_ret)
{
    struct pair pair;
    size_t n = 0;

    ret[0] = '\0';
    while (*list != '\0') {
        list = take_pair(list, &pair);
        if (is_word(pair.algorithm, pair.n_algorithm, QUARANTINE_HANGS) &&
            pair.n_name + 1 < n_ret - n)
            n += (size_t)snprintf(ret + n, n_ret - n, "%s%.*s", n > 0 ? " " : "", (int)pair.n_name,
                                  pair.name);
    }
}
