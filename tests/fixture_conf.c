// SPDX-License-Identifier: MIT
// Guarantees a file without duplicate keys, whatever the test overrides. Must not know what the
// keys mean.
#include "fixture_conf.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define CONF_ENTRIES_MAX 64

struct conf_entry {
    char section[32];
    char key[64];
    char value[512];
};

struct conf {
    struct conf_entry entry[CONF_ENTRIES_MAX];
    size_t n;
};

static struct conf_entry *conf_find(struct conf *conf, const struct conf_entry *wanted)
{
    for (size_t i = 0; i < conf->n; i++)
        if (strcmp(conf->entry[i].section, wanted->section) == 0 &&
            strcmp(conf->entry[i].key, wanted->key) == 0)
            return &conf->entry[i];
    return conf->n < CONF_ENTRIES_MAX ? &conf->entry[conf->n++] : NULL;
}

static int conf_merge(struct conf *conf, const char *text)
{
    while (*text != '\0') {
        struct conf_entry e = {0};
        size_t n = strcspn(text, "\n");

        if (n > 0) {
            char line[640];
            snprintf(line, sizeof(line), "%.*s", (int)n, text);
            if (sscanf(line, "%31[^.=].%63[^=]=%511[^\n]", e.section, e.key, e.value) < 2 ||
                strchr(line, '=') == NULL)
                return -EINVAL;
            struct conf_entry *to = conf_find(conf, &e);
            if (to == NULL)
                return -E2BIG;
            *to = e;
        }
        text += n + (text[n] == '\n');
    }
    return 0;
}

static bool conf_is_first_of_section(const struct conf *conf, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (strcmp(conf->entry[j].section, conf->entry[i].section) == 0)
            return false;
    return true;
}

int fixture_conf_write(const char *path, const char *defaults, const char *extra)
{
    struct conf conf = {0};
    int r = conf_merge(&conf, defaults);

    if (r == 0 && extra != NULL)
        r = conf_merge(&conf, extra);
    if (r < 0)
        return r;
    FILE *out = fopen(path, "we");
    if (out == NULL)
        return -errno;
    for (size_t i = 0; i < conf.n; i++) {
        if (!conf_is_first_of_section(&conf, i))
            continue;
        fprintf(out, "[%s]\n", conf.entry[i].section);
        for (size_t j = i; j < conf.n; j++)
            if (strcmp(conf.entry[j].section, conf.entry[i].section) == 0 &&
                conf.entry[j].value[0] != '\0')
                fprintf(out, "%s = %s\n", conf.entry[j].key, conf.entry[j].value);
    }
    return fclose(out) == 0 ? 0 : -errno;
}
