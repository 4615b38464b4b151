// SPDX-License-Identifier: MIT
// The configuration file, cryptod.conf(5): its keys, their ranges, and what the roles are told of
// it. Knows nothing of processes or sockets.
#ifndef CRYPTOD_DAEMON_CONFIG_H
#define CRYPTOD_DAEMON_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "message.h"
#include "role.h"

#ifndef CONFIG_DEFAULT_PATH
#define CONFIG_DEFAULT_PATH "/etc/cryptod/cryptod.conf"
#endif

#define CONFIG_ERROR_MAX 512 // bytes that are enough for every ret_error

struct config_user {
    uint32_t uid, gid;
};

struct config {
    // [daemon]
    char socket[108]; // sockaddr_un.sun_path
    char state_directory[108];
    struct config_user front_user, engine_user;
    uint32_t n_uids, n_gids; // gids[0] is the admin group, UINT32_MAX if there is none
    uint32_t uids[MESSAGE_IDS_MAX];
    uint32_t gids[MESSAGE_IDS_MAX];
    uint32_t log_level;
    uint32_t ping_interval_ms;
    uint32_t ping_limit;
    // [lanes]
    uint32_t offload; // enum config_offload
    uint32_t bulk_threshold;
    uint32_t request_min; // 0: as measured
    uint32_t deadline_ms;
    uint32_t spin_us;
    uint32_t keystream_slots;
    uint32_t idle_s;
    // [engine]
    uint32_t backends; // CONFIG_BACKEND_* bits, and their order: CONFIG_BACKEND_AT()
    uint32_t workers;
    char deny_drivers[512]; // separated by one space
    char fault[256];
    uint32_t verify; // as in message_role_config
    // [limits]
    uint32_t channels_max;
    uint32_t channels_per_uid;
    uint32_t streams_per_channel;
    uint32_t slots_per_channel;
    uint32_t streams_max;
    uint32_t streams_per_uid;
    uint32_t shared_memory_max; // bytes, as the next three
    uint32_t shared_memory_per_uid;
    uint32_t locked_memory_max;
    uint32_t locked_memory_per_uid;
    uint32_t requests_max;
    uint32_t requests_per_uid;
    uint32_t connects_max; // a second, as the next
    uint32_t connects_per_uid;
};

// Reads path; NULL: CONFIG_DEFAULT_PATH, whose absence means the defaults (*ret_absent, if not
// NULL). 0; or a negative errno with "FILE:LINE: key 'x': why" or "FILE: why" in ret_error (n_error
// bytes) and *ret untouched.
int config_load(const char *path, struct config *ret, bool *ret_absent, char *ret_error,
                size_t n_error);

enum config_role {
    CONFIG_ROLE_FRONT,
    CONFIG_ROLE_ENGINE,
};

// What a role is told. mode, restarts, started_s and text stay zero: they are the supervisor's.
void config_fill_role(const struct config *config, enum config_role role,
                      struct message_role_config *ret);

#endif
