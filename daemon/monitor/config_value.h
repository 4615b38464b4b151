// SPDX-License-Identifier: MIT
// How the values of cryptod.conf(5) are read: parsers for struct config_key. Private to config*.c.
#ifndef CRYPTOD_DAEMON_CONFIG_VALUE_H
#define CRYPTOD_DAEMON_CONFIG_VALUE_H

#include "config_key.h"

// Each as config_key.parse.
config_parser config_parse_number, config_parse_power, config_parse_size, config_parse_size_or_auto,
    config_parse_log_level, config_parse_offload, config_parse_socket, config_parse_directory,
    config_parse_text, config_parse_user, config_parse_group, config_parse_verify;
// Lists: each adds to what it has.
config_parser config_parse_users, config_parse_groups, config_parse_backends, config_parse_drivers;

static inline void *config_field(const struct config_key *key, struct config *config)
{
    return (char *)config + key->offset;
}

// Decimal digits, and what follows them in *ret_rest.
bool config_read_digits(const char *text, uint64_t *ret, const char **ret_rest);

struct config_word {
    const char *word;
    uint32_t value;
};

// The value of the word in a table that ends with a NULL word. As parse().
int config_find_word(const struct config_word *words, const char *value, uint32_t *ret,
                     char *ret_why);

#endif
