// SPDX-License-Identifier: MIT
// See trust_rows.h.
#include "trust_rows.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"

struct trust_row trust_row_get(const char *algorithm, const char *backend)
{
    struct trust_row found = {.driver = ""};
    struct cryptod_status *status = NULL;
    bool any = false;

    cr_assert_eq(cryptod_status_get(NULL, 5000, &status), 0);
    for (size_t i = 0; i < status->n_algorithms; i++) {
        const struct cryptod_status_algorithm *row = &status->algorithms[i];

        if (strcmp(row->algorithm, algorithm) != 0 || strcmp(row->backend, backend) != 0)
            continue;
        any = true;
        found = (struct trust_row){.state = row->state,
                                   .operations = row->operations,
                                   .errors = row->errors,
                                   .keys = row->keys,
                                   .key_lacks = row->key_lacks,
                                   .verified = row->verified,
                                   .mismatches = row->mismatches};
        snprintf(found.driver, sizeof(found.driver), "%s", row->driver);
        snprintf(found.text, sizeof(found.text), "%s", row->text);
    }
    cryptod_status_free(status);
    cr_assert(any, "no row for %s by %s", algorithm, backend);
    return found;
}

struct trust_row trust_row_wait(const char *algorithm, const char *backend,
                                enum cryptod_state state)
{
    struct trust_row row = trust_row_get(algorithm, backend);

    for (int i = 0; i < 2000 && row.state != state; i++) {
        usleep(10000);
        row = trust_row_get(algorithm, backend);
    }
    cr_assert_eq(row.state, state, "%s by %s: %s", algorithm, backend, row.text);
    return row;
}

char *trust_cryptoctl(const char *options)
{
    static char text[65536];
    char command[512];

    snprintf(command, sizeof(command), "%s %s status", fixture_built("cryptoctl"), options);
    FILE *out = popen(command, "re");
    cr_assert_not_null(out);
    size_t n = fread(text, 1, sizeof(text) - 1, out);
    text[n] = '\0';
    cr_assert_eq(pclose(out), 0, "%s", text);
    return strdup(text);
}

const char *trust_find_line(const char *text, const char *part, const char *other)
{
    static char line[1024];

    while (*text != '\0') {
        size_t n = strcspn(text, "\n");

        snprintf(line, sizeof(line), "%.*s", (int)n, text);
        if (strstr(line, part) && strstr(line, other))
            return line;
        text += n + (text[n] == '\n');
    }
    cr_assert_fail("no line with '%s' and '%s'", part, other);
    return NULL;
}

size_t trust_count(const char *text, const char *part)
{
    size_t n = 0;

    for (; (text = strstr(text, part)); text += strlen(part))
        n++;
    return n;
}
