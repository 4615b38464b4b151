// SPDX-License-Identifier: MIT
// The table of the keys. Guarantees nothing but that it and cryptod.conf(5) are the same.
#include "config_key.h"

#include <string.h>

#include "config_value.h"
#include "shm.h"

#define FIELD(name) offsetof(struct config, name)
#define MIB         1048576u

#define CHANNELS_MAX 4096u
#define STREAMS_MAX  ((uint64_t)CHANNELS_MAX * SHM_STREAMS_MAX)
#define REQUESTS_MAX ((uint64_t)CHANNELS_MAX * SHM_SLOTS_MAX)
#define MEMORY_MAX   (UINT64_C(4095) * MIB)
#define CONNECTS_MAX 100000u

// The ranges are documented in cryptod.conf(5).
const struct config_key config_keys[] = {
    {"daemon", "socket", config_parse_socket, FIELD(socket), 0, 0, false},
    {"daemon", "state_directory", config_parse_directory, FIELD(state_directory), 0, 0, false},
    {"daemon", "front_user", config_parse_user, FIELD(front_user), 0, 0, false},
    {"daemon", "engine_user", config_parse_user, FIELD(engine_user), 0, 0, false},
    {"daemon", "group", config_parse_group, FIELD(gids), 0, 0, false},
    {"daemon", "allow_users", config_parse_users, FIELD(uids), 0, 0, true},
    {"daemon", "allow_groups", config_parse_groups, FIELD(gids), 0, 0, true},
    {"daemon", "log_level", config_parse_log_level, FIELD(log_level), 0, 0, false},
    {"daemon", "ping_interval_ms", config_parse_number, FIELD(ping_interval_ms), 10, 60000, false},
    {"daemon", "ping_limit", config_parse_number, FIELD(ping_limit), 2, 100, false},
    {"lanes", "offload", config_parse_offload, FIELD(offload), 0, 0, false},
    {"lanes", "bulk_threshold", config_parse_size, FIELD(bulk_threshold), 0, UINT64_C(1024) * MIB,
     false},
    {"lanes", "request_min", config_parse_size_or_auto, FIELD(request_min), 1, SHM_SLOT_SIZE,
     false},
    {"lanes", "deadline_ms", config_parse_number, FIELD(deadline_ms), 1, 60000, false},
    {"lanes", "spin_us", config_parse_number, FIELD(spin_us), 0, 1000, false},
    {"lanes", "keystream_slots", config_parse_number, FIELD(keystream_slots), 1, SHM_SLOTS_MAX,
     false},
    {"lanes", "idle_s", config_parse_number, FIELD(idle_s), 1, 86400, false},
    {"engine", "backends", config_parse_backends, FIELD(backends), 0, 0, true},
    {"engine", "workers", config_parse_number, FIELD(workers), 0, 64, false},
    {"engine", "deny_drivers", config_parse_drivers, FIELD(deny_drivers), 0,
     sizeof(((struct config *)0)->deny_drivers), true},
    {"engine", "fault", config_parse_text, FIELD(fault), 0, sizeof(((struct config *)0)->fault),
     false},
    {"engine", "verify", config_parse_verify, FIELD(verify), 2, 1000000, false},
    {"limits", "channels_max", config_parse_number, FIELD(channels_max), 1, CHANNELS_MAX, false},
    {"limits", "channels_per_uid", config_parse_number, FIELD(channels_per_uid), 1, CHANNELS_MAX,
     false},
    {"limits", "streams_per_channel", config_parse_number, FIELD(streams_per_channel), 1,
     SHM_STREAMS_MAX, false},
    {"limits", "slots_per_channel", config_parse_power, FIELD(slots_per_channel), 1, SHM_SLOTS_MAX,
     false},
    {"limits", "streams_max", config_parse_number, FIELD(streams_max), 1, STREAMS_MAX, false},
    {"limits", "streams_per_uid", config_parse_number, FIELD(streams_per_uid), 1, STREAMS_MAX,
     false},
    {"limits", "shared_memory_max", config_parse_size, FIELD(shared_memory_max), MIB, MEMORY_MAX,
     false},
    {"limits", "shared_memory_per_uid", config_parse_size, FIELD(shared_memory_per_uid), MIB,
     MEMORY_MAX, false},
    {"limits", "locked_memory_max", config_parse_size, FIELD(locked_memory_max), MIB, MEMORY_MAX,
     false},
    {"limits", "locked_memory_per_uid", config_parse_size, FIELD(locked_memory_per_uid), MIB,
     MEMORY_MAX, false},
    {"limits", "requests_max", config_parse_number, FIELD(requests_max), 1, REQUESTS_MAX, false},
    {"limits", "requests_per_uid", config_parse_number, FIELD(requests_per_uid), 1, REQUESTS_MAX,
     false},
    {"limits", "connects_max", config_parse_number, FIELD(connects_max), 1, CONNECTS_MAX, false},
    {"limits", "connects_per_uid", config_parse_number, FIELD(connects_per_uid), 1, CONNECTS_MAX,
     false},
};
const size_t config_n_keys = sizeof(config_keys) / sizeof(config_keys[0]);

const struct config_key *config_key_find(const char *section, const char *name)
{
    for (size_t i = 0; i < config_n_keys; i++)
        if (strcmp(config_keys[i].section, section) == 0 && strcmp(config_keys[i].name, name) == 0)
            return &config_keys[i];
    return NULL;
}

bool config_section_exists(const char *section)
{
    for (size_t i = 0; i < config_n_keys; i++)
        if (strcmp(config_keys[i].section, section) == 0)
            return true;
    return false;
}
