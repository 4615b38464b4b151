// SPDX-License-Identifier: MIT
// What is limited, and the part of STATUS that tells how much of it is used (message.h says the
// rest).
#ifndef CRYPTOD_PROTOCOL_MESSAGE_LIMIT_H
#define CRYPTOD_PROTOCOL_MESSAGE_LIMIT_H

#include <stdint.h>

// For each uid and in all.
enum message_limit {
    MESSAGE_LIMIT_CHANNELS,
    MESSAGE_LIMIT_STREAMS,
    MESSAGE_LIMIT_SHARED_MEMORY, // bytes that clients bring
    MESSAGE_LIMIT_LOCKED_MEMORY, // bytes that the engine adds to that for keystream, and locks
    MESSAGE_LIMIT_REQUESTS,      // in flight: published and not completed
    MESSAGE_LIMIT_CONNECTS,      // a second
    MESSAGE_LIMIT_COUNT,
};

struct message_limits {
    uint64_t in_all[MESSAGE_LIMIT_COUNT];  // at most; 0: no limit
    uint64_t per_uid[MESSAGE_LIMIT_COUNT]; // the same
    uint64_t used[MESSAGE_LIMIT_COUNT];    // now, in all
    uint64_t refused[MESSAGE_LIMIT_COUNT]; // times, since the role that counts it started
};

struct message_status_user { // one row per uid that has anything; only to uid 0 and the admin group
    uint32_t uid;
    uint32_t reserved;
    uint64_t used[MESSAGE_LIMIT_COUNT]; // index: enum message_limit
};

#endif
