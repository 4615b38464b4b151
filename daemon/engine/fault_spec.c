// SPDX-License-Identifier: MIT
// Guarantees: what is not exactly in the documented form is refused whole.
#include "fault_spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAULT_DELAY_MAX_MS  60000u
#define FAULT_JITTER_MAX_US 1000000u

static int parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
    unsigned long long value;
    char *end;

    if (*text < '0' || *text > '9')
        return -EINVAL;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < min || value > max)
        return -EINVAL;
    *ret = value;
    return 0;
}

// name=N
static int parse_count(struct fault_spec *spec, const char *name, const char *value)
{
    const struct {
        const char *name;
        uint64_t min, max;
        uint64_t *field;
    } counts[] = {
        {"error_after", 0, FAULT_NEVER - 1, &spec->error_after},
        {"error_every", 1, FAULT_NEVER - 1, &spec->error_every},
        {"wrong_after", 0, FAULT_NEVER - 1, &spec->wrong_after},
        {"wrong_every", 1, FAULT_NEVER - 1, &spec->wrong_every},
        {"hang_after", 0, FAULT_NEVER - 1, &spec->hang_after},
        {"short", 0, FAULT_NEVER - 1, &spec->n_short},
        {"if_over", 0, FAULT_NEVER - 1, &spec->if_over},
        {"if_size", 1, FAULT_NEVER - 1, &spec->if_size},
        {"keys", 0, FAULT_NEVER - 1, &spec->n_keys},
        {"hang_ms", 1, FAULT_DELAY_MAX_MS, &spec->hang_ms},
        {"jitter_us", 1, FAULT_JITTER_MAX_US, &spec->jitter_us},
    };

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if (strcmp(name, counts[i].name) == 0)
            return parse_number(value, counts[i].min, counts[i].max, counts[i].field);
    return -EINVAL;
}

// A name alone.
static int parse_flag(struct fault_spec *spec, const char *name)
{
    const struct {
        const char *name;
        bool *field;
    } flags[] = {
        {"open_error", &spec->open_error},     {"open_hangs", &spec->open_hangs},
        {"if_unaligned", &spec->if_unaligned}, {"if_chained", &spec->if_chained},
        {"selftest", &spec->selftest},
    };

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (strcmp(name, flags[i].name) == 0) {
            *flags[i].field = true;
            return 0;
        }
    }
    return -EINVAL;
}

static int parse_item(struct fault_spec *spec, const char *name, const char *value)
{
    uint64_t number;

    if (!value)
        return parse_flag(spec, name);
    if (strcmp(name, "delay_ms") == 0) {
        int r = parse_number(value, 0, FAULT_DELAY_MAX_MS, &number);

        if (r == 0)
            spec->delay_ms = (uint32_t)number;
        return r;
    }
    if (strcmp(name, "algorithm") == 0) {
        spec->algorithm = algorithm_find(value);
        return spec->algorithm ? 0 : -EINVAL;
    }
    return parse_count(spec, name, value);
}

int fault_spec_parse(const char *text, struct fault_spec *ret)
{
    struct fault_spec spec = {.error_after = FAULT_NEVER,
                              .wrong_after = FAULT_NEVER,
                              .hang_after = FAULT_NEVER,
                              .n_keys = FAULT_NEVER,
                              .n_short = FAULT_NEVER};
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
