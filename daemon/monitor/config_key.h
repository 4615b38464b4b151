// SPDX-License-Identifier: MIT
// The keys of cryptod.conf(5): where each is stored, what it may be. Private to config*.c.
#ifndef CRYPTOD_DAEMON_CONFIG_KEY_H
#define CRYPTOD_DAEMON_CONFIG_KEY_H

#include "config.h"

#define CONFIG_WHY_MAX 256

struct config_key;

// Stores value; a list adds to what it has. 0, or -EINVAL with the reason in ret_why
// (CONFIG_WHY_MAX bytes).
typedef int config_parser(const struct config_key *key, const char *value, struct config *config,
                          char *ret_why);

struct config_key {
    const char *section;
    const char *name;
    config_parser *parse;
    size_t offset; // of the field in struct config
    uint64_t min, max;
    bool list; // may go on over indented lines
};

extern const struct config_key config_keys[];
extern const size_t config_n_keys;

// The key, or NULL.
const struct config_key *config_key_find(const char *section, const char *name);

bool config_section_exists(const char *section);

// Looks up a user by name or number; a number is its own group, without a look-up. Root is refused.
// As parse().
int config_user_find(const char *name, struct config_user *ret, char *ret_why);

// The same for a group.
int config_group_find(const char *name, uint32_t *ret, char *ret_why);

#endif
