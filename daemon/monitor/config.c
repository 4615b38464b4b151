// SPDX-License-Identifier: MIT
// Guarantees: a configuration is taken whole or not at all, and the first mistake is named with
// file and line. libinih does the syntax; this file counts lines for it, because its handler is not
// told them.
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_key.h"
#include "log.h"

#define CONFIG_DEFAULT_SOCKET      "/run/cryptod/cryptod.sock"
#define CONFIG_DEFAULT_STATE       "/var/lib/cryptod"
#define CONFIG_DEFAULT_FRONT_USER  "cryptod-front"
#define CONFIG_DEFAULT_ENGINE_USER "cryptod-engine"
#define CONFIG_DEFAULT_GROUP       "cryptod"

#define MIB (1024u * 1024u)

struct config_reader {
    const char *path;
    FILE *in;
    struct config config;
    unsigned line;           // of what is being read, from 1 on
    bool indented;           // the line begins with a blank: libinih calls it a continuation
    unsigned error_line;     // 0: no mistake yet
    unsigned first_line[64]; // where each key was given; index as in config_keys
    char error[CONFIG_ERROR_MAX];
};

__attribute__((format(printf, 2, 3))) static void config_fail(struct config_reader *reader,
                                                              const char *format, ...)
{
    va_list args;
    int n;

    if (reader->error_line != 0)
        return;
    reader->error_line = reader->line;
    n = snprintf(reader->error, sizeof(reader->error), "%.200s:%u: ", reader->path, reader->line);
    va_start(args, format);
    vsnprintf(reader->error + n, sizeof(reader->error) - (size_t)n, format, args);
    va_end(args);
}

// A section without keys never reaches the handler, so its name is looked at here.
static void config_check_section(struct config_reader *reader, const char *line)
{
    char section[64];

    if (sscanf(line, "[%63[^]\n]]", section) == 1 && !config_section_exists(section))
        config_fail(reader, "section [%s]: unknown", section);
}

// ini_reader: like fgets(), but a line that does not fit or contains a NUL is a mistake, and a
// mistake ends it all.
static char *config_read_line(char *buf, int n_buf, void *user)
{
    struct config_reader *reader = user;
    int c, n = 0;

    if (reader->error_line != 0)
        return NULL;
    reader->line++;
    while ((c = getc(reader->in)) != EOF && c != '\n') {
        if (c == '\0' || n == n_buf - 2) {
            config_fail(reader, c == '\0' ? "contains a NUL byte" : "longer than %d bytes",
                        n_buf - 2);
            return NULL;
        }
        buf[n++] = (char)c;
    }
    if (c == EOF && n == 0)
        return NULL;
    buf[n++] = '\n';
    buf[n] = '\0';
    reader->indented = isspace((unsigned char)buf[0]) && n > 1;
    if (buf[0] == '[')
        config_check_section(reader, buf);
    return buf;
}

static bool config_take_value(struct config_reader *reader, const struct config_key *key,
                              const char *value)
{
    unsigned *first_line = &reader->first_line[key - config_keys];
    char why[CONFIG_WHY_MAX];

    if (*first_line != 0 && !reader->indented) {
        config_fail(reader, "key '%s': given before, on line %u", key->name, *first_line);
        return false;
    }
    if (*first_line != 0 && !key->list) {
        config_fail(reader, "key '%s': goes on over an indented line, which only lists may",
                    key->name);
        return false;
    }
    if (*first_line == 0)
        *first_line = reader->line;
    if (key->parse(key, value, &reader->config, why) < 0) {
        config_fail(reader, "key '%s': %s", key->name, why);
        return false;
    }
    return true;
}

// ini_handler: 1 if the value was taken.
static int config_handle(void *user, const char *section, const char *name, const char *value)
{
    struct config_reader *reader = user;
    const struct config_key *key = config_key_find(section, name);

    if (key != NULL)
        return config_take_value(reader, key, value);
    if (section[0] == '\0')
        config_fail(reader, "key '%s': stands before the first [section]", name);
    else if (!config_section_exists(section))
        config_fail(reader, "key '%s': unknown section [%s]", name, section);
    else
        config_fail(reader, "key '%s': unknown in section [%s]", name, section);
    return 0;
}

// The limits fit a machine with 256 MB: cryptod.conf(5) has the sum.
static void config_set_defaults(struct config *config)
{
    *config = (struct config){
        .socket = CONFIG_DEFAULT_SOCKET,
        .state_directory = CONFIG_DEFAULT_STATE,
        .n_gids = 1,
        .gids = {UINT32_MAX},
        .log_level = LOG_LEVEL_NOTICE,
        .ping_interval_ms = 2000,
        .ping_limit = 5,
        .offload = CONFIG_OFFLOAD_AUTO,
        .bulk_threshold = 128 * 1024,
        .deadline_ms = 250,
        .spin_us = 10,
        .channels_max = 128,
        .channels_per_uid = 96,
        .streams_per_channel = 16,
        .slots_per_channel = 64,
        .keystream_slots = 32,
        .idle_s = 30,
        .verify = 1024,
        .streams_max = 1024,
        .streams_per_uid = 768,
        .shared_memory_max = 40 * MIB,
        .shared_memory_per_uid = 30 * MIB,
        .locked_memory_max = 64 * MIB,
        .locked_memory_per_uid = 48 * MIB,
        .requests_max = 1536,
        .requests_per_uid = 1152,
        .connects_max = 400,
        .connects_per_uid = 200,
    };
}

static bool config_is_given(const struct config_reader *reader, const char *section,
                            const char *name)
{
    return reader->first_line[config_key_find(section, name) - config_keys] != 0;
}

static int config_default_user(struct config_reader *reader, const char *key, const char *name,
                               struct config_user *user)
{
    char why[CONFIG_WHY_MAX];

    if (config_is_given(reader, "daemon", key) || config_user_find(name, user, why) == 0)
        return 0;
    snprintf(reader->error, sizeof(reader->error),
             "%.200s: key '%s' (default %s): %.80s; systemd-sysusers makes it from "
             "sysusers.d/cryptod.conf",
             reader->path, key, name, why);
    return -ENOENT;
}

// What the file left open.
static int config_complete(struct config_reader *reader)
{
    struct config *config = &reader->config;
    char why[CONFIG_WHY_MAX];
    int r;

    if (config->backends == 0)
        config_key_find("engine", "backends")
            ->parse(config_key_find("engine", "backends"), "afalg cpu", config, why);
    if (!config_is_given(reader, "daemon", "group"))
        (void)config_group_find(CONFIG_DEFAULT_GROUP, &config->gids[0], why); // may not exist
    r = config_default_user(reader, "front_user", CONFIG_DEFAULT_FRONT_USER, &config->front_user);
    if (r == 0)
        r = config_default_user(reader, "engine_user", CONFIG_DEFAULT_ENGINE_USER,
                                &config->engine_user);
    if (r == 0 && config->front_user.uid == config->engine_user.uid) {
        snprintf(reader->error, sizeof(reader->error),
                 "%.200s: key 'engine_user': must not be the same user as front_user",
                 reader->path);
        r = -EINVAL;
    }
    return r;
}

static int config_parse(struct config_reader *reader)
{
    int syntax_line = ini_parse_stream(config_read_line, reader, config_handle, reader);

    if (syntax_line < 0)
        return -ENOMEM;
    // libinih reports the first line that it or the handler refused.
    if (syntax_line > 0 &&
        (reader->error_line == 0 || (unsigned)syntax_line < reader->error_line)) {
        reader->error_line = 0;
        reader->line = (unsigned)syntax_line;
        config_fail(reader, "neither '[section]' nor 'key = value'");
    }
    return reader->error_line == 0 ? 0 : -EINVAL;
}

static int config_load_file(struct config_reader *reader, bool may_be_absent, bool *ret_absent)
{
    int r = 0;

    reader->in = fopen(reader->path, "re");
    *ret_absent = reader->in == NULL && errno == ENOENT && may_be_absent;
    if (reader->in == NULL && !*ret_absent) {
        r = -errno;
        snprintf(reader->error, sizeof(reader->error), "%.200s: %s", reader->path, strerror(-r));
        return r;
    }
    if (reader->in != NULL) {
        r = config_parse(reader);
        if (r == 0 && ferror(reader->in)) {
            r = -EIO;
            snprintf(reader->error, sizeof(reader->error), "%.200s: cannot be read", reader->path);
        }
        fclose(reader->in);
    }
    return r == 0 ? config_complete(reader) : r;
}

int config_load(const char *path, struct config *ret, bool *ret_absent, char *ret_error,
                size_t n_error)
{
    struct config_reader *reader = calloc(1, sizeof(*reader));
    bool absent;
    int r;

    if (reader == NULL) {
        snprintf(ret_error, n_error, "out of memory");
        return -ENOMEM;
    }
    reader->path = path != NULL ? path : CONFIG_DEFAULT_PATH;
    config_set_defaults(&reader->config);
    r = config_load_file(reader, path == NULL, &absent);
    if (r < 0) {
        snprintf(ret_error, n_error, "%s", reader->error);
    } else {
        *ret = reader->config;
        if (ret_absent != NULL)
            *ret_absent = absent;
    }
    free(reader);
    return r;
}

// On one CPU the other side cannot run while this one spins.
static bool config_has_one_cpu(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1;
}

void config_fill_role(const struct config *config, enum config_role role,
                      struct message_role_config *ret)
{
    const struct config_user *user =
        role == CONFIG_ROLE_FRONT ? &config->front_user : &config->engine_user;

    *ret = (struct message_role_config){
        .uid = user->uid,
        .gid = user->gid,
        .log_level = config->log_level,
        .offload = config->offload,
        .backends = config->backends,
        .workers = config->workers,
        .deadline_ms = config->deadline_ms,
        .bulk_threshold = config->bulk_threshold,
        .request_min = config->request_min,
        .spin_us = config_has_one_cpu() ? 0 : config->spin_us,
        .channels_max = config->channels_max,
        .channels_per_uid = config->channels_per_uid,
        .streams_per_channel = config->streams_per_channel,
        .slots_per_channel = config->slots_per_channel,
        .keystream_slots = config->keystream_slots,
        .idle_s = config->idle_s,
        .verify = config->verify,
        .n_uids = config->n_uids,
        .n_gids = config->n_gids,
        .streams_max = config->streams_max,
        .streams_per_uid = config->streams_per_uid,
        .shared_memory_max = config->shared_memory_max,
        .shared_memory_per_uid = config->shared_memory_per_uid,
        .locked_memory_max = config->locked_memory_max,
        .locked_memory_per_uid = config->locked_memory_per_uid,
        .requests_max = config->requests_max,
        .requests_per_uid = config->requests_per_uid,
        .connects_max = config->connects_max,
        .connects_per_uid = config->connects_per_uid,
    };
    memcpy(ret->uids, config->uids, sizeof(ret->uids));
    memcpy(ret->gids, config->gids, sizeof(ret->gids));
    memcpy(ret->deny_drivers, config->deny_drivers, sizeof(ret->deny_drivers));
    memcpy(ret->fault, config->fault, sizeof(ret->fault));
}
