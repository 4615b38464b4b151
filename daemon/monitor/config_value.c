// SPDX-License-Identifier: MIT
// Guarantees that a value is stored only if all of it was understood and is in its range.
// Must not know files or line numbers.
#include "config_value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

bool config_read_digits(const char *text, uint64_t *ret, const char **ret_rest)
{
    char *rest;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *ret = strtoull(text, &rest, 10);
    *ret_rest = rest;
    return errno == 0;
}

int config_parse_number(const struct config_key *key, const char *value, struct config *config,
                        char *ret_why)
{
    const char *rest;
    uint64_t n;

    if (!config_read_digits(value, &n, &rest) || *rest != '\0' || n < key->min || n > key->max) {
        snprintf(ret_why, CONFIG_WHY_MAX, "'%.40s' is not a number from %" PRIu64 " to %" PRIu64,
                 value, key->min, key->max);
        return -EINVAL;
    }
    *(uint32_t *)config_field(key, config) = (uint32_t)n;
    return 0;
}

int config_parse_power(const struct config_key *key, const char *value, struct config *config,
                       char *ret_why)
{
    struct config parsed;
    uint32_t n;

    if (config_parse_number(key, value, &parsed, ret_why) < 0)
        return -EINVAL;
    n = *(uint32_t *)config_field(key, &parsed);
    if ((n & (n - 1)) != 0) {
        snprintf(ret_why, CONFIG_WHY_MAX, "%" PRIu32 " is not a power of two", n);
        return -EINVAL;
    }
    *(uint32_t *)config_field(key, config) = n;
    return 0;
}

int config_parse_size(const struct config_key *key, const char *value, struct config *config,
                      char *ret_why)
{
    const char *rest;
    uint64_t n, unit = 1;
    bool good = config_read_digits(value, &n, &rest);

    if (good && (*rest == 'K' || *rest == 'M'))
        unit = *rest++ == 'K' ? 1024 : 1024 * 1024;
    if (!good || *rest != '\0' || n > key->max / unit || n * unit < key->min) {
        snprintf(ret_why, CONFIG_WHY_MAX,
                 "'%.40s' is not a size from %" PRIu64 " to %" PRIu64
                 " bytes (suffix K: 1024, M: 1048576)",
                 value, key->min, key->max);
        return -EINVAL;
    }
    *(uint32_t *)config_field(key, config) = (uint32_t)(n * unit);
    return 0;
}

// 0 stands for "auto".
int config_parse_size_or_auto(const struct config_key *key, const char *value,
                              struct config *config, char *ret_why)
{
    if (strcmp(value, "auto") != 0)
        return config_parse_size(key, value, config, ret_why);
    *(uint32_t *)config_field(key, config) = 0;
    return 0;
}

int config_find_word(const struct config_word *words, const char *value, uint32_t *ret,
                     char *ret_why)
{
    size_t n;

    for (const struct config_word *w = words; w->word != NULL; w++)
        if (strcmp(w->word, value) == 0) {
            *ret = w->value;
            return 0;
        }
    n = (size_t)snprintf(ret_why, CONFIG_WHY_MAX, "'%.40s' is not one of", value);
    for (const struct config_word *w = words; w->word != NULL; w++)
        n += (size_t)snprintf(ret_why + n, CONFIG_WHY_MAX - n, " %s", w->word);
    return -EINVAL;
}

int config_parse_log_level(const struct config_key *key, const char *value, struct config *config,
                           char *ret_why)
{
    static const struct config_word words[] = {
        {"error", LOG_LEVEL_ERROR}, {"warning", LOG_LEVEL_WARNING}, {"notice", LOG_LEVEL_NOTICE},
        {"info", LOG_LEVEL_INFO},   {"debug", LOG_LEVEL_DEBUG},     {NULL, 0},
    };
    return config_find_word(words, value, config_field(key, config), ret_why);
}

int config_parse_offload(const struct config_key *key, const char *value, struct config *config,
                         char *ret_why)
{
    static const struct config_word words[] = {
        {"auto", CONFIG_OFFLOAD_AUTO},
        {"always", CONFIG_OFFLOAD_ALWAYS},
        {"off", CONFIG_OFFLOAD_OFF},
        {NULL, 0},
    };
    return config_find_word(words, value, config_field(key, config), ret_why);
}

// off, all or 1/N.
int config_parse_verify(const struct config_key *key, const char *value, struct config *config,
                        char *ret_why)
{
    uint32_t *verify = config_field(key, config);
    const char *rest;
    uint64_t n;

    if (strcmp(value, "off") == 0) {
        *verify = 0;
    } else if (strcmp(value, "all") == 0) {
        *verify = 1;
    } else if (strncmp(value, "1/", 2) == 0 && config_read_digits(value + 2, &n, &rest) &&
               *rest == '\0' && n >= key->min && n <= key->max) {
        *verify = (uint32_t)n;
    } else {
        snprintf(ret_why, CONFIG_WHY_MAX,
                 "'%.40s' is not one of off all 1/N, with N from %" PRIu64 " to %" PRIu64, value,
                 key->min, key->max);
        return -EINVAL;
    }
    return 0;
}

// An absolute path of what, into a field of n_field bytes.
static int config_parse_path(const struct config_key *key, const char *value, const char *what,
                             size_t n_field, struct config *config, char *ret_why)
{
    size_t n = strlen(value);

    if (value[0] != '/' || value[n - 1] == '/' || n >= n_field) {
        snprintf(ret_why, CONFIG_WHY_MAX,
                 "'%.120s' is not an absolute path of a %s, of at most %zu bytes", value, what,
                 n_field - 1);
        return -EINVAL;
    }
    memcpy(config_field(key, config), value, n + 1);
    return 0;
}

int config_parse_socket(const struct config_key *key, const char *value, struct config *config,
                        char *ret_why)
{
    return config_parse_path(key, value, "file", sizeof(config->socket), config, ret_why);
}

int config_parse_directory(const struct config_key *key, const char *value, struct config *config,
                           char *ret_why)
{
    return config_parse_path(key, value, "directory", sizeof(config->state_directory), config,
                             ret_why);
}

int config_parse_text(const struct config_key *key, const char *value, struct config *config,
                      char *ret_why)
{
    size_t n = strlen(value);

    if (n >= key->max) {
        snprintf(ret_why, CONFIG_WHY_MAX, "longer than %zu bytes", (size_t)key->max - 1);
        return -EINVAL;
    }
    memcpy(config_field(key, config), value, n + 1);
    return 0;
}
