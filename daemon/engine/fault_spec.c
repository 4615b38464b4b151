// SPDX-License-Identifier: MIT
// Guarantees: what is not exactly in the documented form is refused whole.
#include "fault_spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAULT_DELAY_MAX_MS 60000u

static int parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
    unsigned long long value;
    char *end;

    if (!text || *text < '0' || *text > '9')
        return -EINVAL;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < min || value > max)
        return -EINVAL;
    *ret = value;
    return 0;
}

static int parse_item(struct fault_spec *spec, const char *name, const char *value)
{
    uint64_t number;

    if (strcmp(name, "error_after") == 0)
        return parse_number(value, 0, FAULT_NEVER - 1, &spec->error_after);
    if (strcmp(name, "error_every") == 0)
        return parse_number(value, 1, FAULT_NEVER - 1, &spec->error_every);
    if (strcmp(name, "wrong_every") == 0)
        return parse_number(value, 1, FAULT_NEVER - 1, &spec->wrong_every);
    if (strcmp(name, "hang_after") == 0)
        return parse_number(value, 0, FAULT_NEVER - 1, &spec->hang_after);
    if (strcmp(name, "delay_ms") == 0) {
        int r = parse_number(value, 0, FAULT_DELAY_MAX_MS, &number);

        if (r == 0)
            spec->delay_ms = (uint32_t)number;
        return r;
    }
    if (strcmp(name, "open_error") == 0 && !value) {
        spec->open_error = true;
        return 0;
    }
    if (strcmp(name, "algorithm") == 0 && value) {
        spec->algorithm = algorithm_find(value);
        return spec->algorithm ? 0 : -EINVAL;
    }
    return -EINVAL;
}

int fault_spec_parse(const char *text, struct fault_spec *ret)
{
    struct fault_spec spec = {.error_after = FAULT_NEVER, .hang_after = FAULT_NEVER};
    char *copy = strdup(text), *rest = copy, *item;
    int r = copy ? 0 : -ENOMEM;

    while (r == 0 && *text != '\0' && (item = strsep(&rest, ","))) {
        char *value = strchr(item, '=');

        if (value)
            *value++ = '\0';
        r = parse_item(&spec, item, value);
    }
    free(copy);
    if (r == 0)
        *ret = spec;
    return r;
}
