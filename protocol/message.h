// SPDX-License-Identifier: MIT
// The messages of cryptod's control sockets (SOCK_SEQPACKET: one message a packet), and their
// codec.
//
// Guarantees: fixed layouts, little-endian, fixed width, exact lengths, exact descriptor counts, by
// one table. Knows nothing of sockets, clients or engines. cryptod-protocol(7) describes the bytes.
//
//      offset  size
//           0     2  type          enum message_type
//           2     2  zero
//           4     4  length        of the whole message, this header included
//           8     8  serial        chosen by the asker, repeated in the answer
//          16     .  the fields of the type, in the order of the struct, without padding
#ifndef CRYPTOD_PROTOCOL_MESSAGE_H
#define CRYPTOD_PROTOCOL_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "algorithm.h"
#include "message_calibration.h"
#include "message_limit.h"

#define MESSAGE_VERSION_MIN 1u
#define MESSAGE_VERSION_MAX 1u
#define MESSAGE_HEADER_LEN  16u
#define MESSAGE_LEN_MAX     4096u
#define MESSAGE_FDS_MAX     2u

// Who says it to whom. A decoder names the one direction that it accepts.
enum message_direction {
    MESSAGE_CLIENT_TO_FRONT = 1,
    MESSAGE_FRONT_TO_CLIENT = 2,
    MESSAGE_FRONT_TO_ENGINE = 4,
    MESSAGE_ENGINE_TO_FRONT = 8,
    MESSAGE_MONITOR_TO_ROLE = 16,
    MESSAGE_ROLE_TO_MONITOR = 32,
};

enum message_type {
    MESSAGE_HELLO = 1,        // client -> front, with 2 descriptors: memfd, bell
    MESSAGE_HELLO_REPLY = 2,  // front -> client
    MESSAGE_STREAM_OPEN = 3,  // client -> front; the key lies in shm_stream[stream]
    MESSAGE_STREAM_REPLY = 4, // front -> client
    MESSAGE_STREAM_CLOSE = 5, // client -> front, no answer
    MESSAGE_STATUS = 6, // client -> front; answered by SUMMARY, ALGORITHM.., CHANNEL.., USER.., END
    MESSAGE_STATUS_SUMMARY = 7,
    MESSAGE_STATUS_ALGORITHM = 8, // also engine -> front
    MESSAGE_STATUS_CHANNEL = 9,
    MESSAGE_STATUS_END = 10, // also engine -> front
    MESSAGE_CALIBRATE = 11,  // client -> front; answered by PROGRESS.., CALIBRATION.., END
    MESSAGE_CALIBRATION_PROGRESS = 12, // also engine -> front
    MESSAGE_CALIBRATION = 13,          // one row; also engine -> front, monitor <-> engine
    MESSAGE_CALIBRATION_END = 14,      // also engine -> front, engine -> monitor
    MESSAGE_STATUS_USER = 15,          // after the CHANNELs

    MESSAGE_CHANNEL_ADD = 32,    // front -> engine, with 2 descriptors: memfd, bell
    MESSAGE_CHANNEL_REPLY = 33,  // engine -> front
    MESSAGE_CHANNEL_REMOVE = 34, // front -> engine, no answer
    MESSAGE_CHANNEL_FAULT = 35,  // engine -> front: the client broke the ring's rules
    MESSAGE_ENGINE_OPEN = 36,    // front -> engine
    MESSAGE_ENGINE_REPLY = 37,   // engine -> front
    MESSAGE_ENGINE_CLOSE = 38,   // front -> engine, no answer
    MESSAGE_ENGINE_OFFER = 39,   // engine -> front, at start and when an offer changes
    MESSAGE_ENGINE_STATUS =
        40, // front -> engine; answered by ENGINE_SUMMARY, ALGORITHM.., ENGINE_CHANNEL.., END
    MESSAGE_ENGINE_SUMMARY = 41,   // engine -> front
    MESSAGE_ENGINE_CHANNEL = 42,   // engine -> front: what one channel has used
    MESSAGE_ENGINE_CALIBRATE = 43, // front -> engine; answered as CALIBRATE

    MESSAGE_ROLE_CONFIG = 64, // monitor -> role: first message, and again after a reload
    MESSAGE_ROLE_READY = 65,  // role -> monitor: sandbox on, serving
    MESSAGE_PING = 66,        // monitor -> role
    MESSAGE_PONG = 67,        // role -> monitor
    MESSAGE_QUARANTINE = 68,  // engine -> monitor: what the next engine must know of a driver

    MESSAGE_CALIBRATION_KEY = 72, // monitor <-> engine: what the rows that follow hold for

    MESSAGE_STATUS_NOTE = 80, // monitor -> front, engine -> front, at any time; front -> client
};

// Why something was refused or is so. Also a field of status; message_reason_text() says it for
// people.
enum message_reason {
    MESSAGE_OK = 0,
    MESSAGE_REASON_VERSION,   // no common version
    MESSAGE_REASON_ACCESS,    // this uid may not use cryptod
    MESSAGE_REASON_LIMIT,     // a limit of this uid or of the daemon is reached
    MESSAGE_REASON_MEMORY,    // memfd of the wrong kind, seals or size
    MESSAGE_REASON_BELL,      // bell of the wrong kind
    MESSAGE_REASON_MALFORMED, // message or ring content broke the rules
    MESSAGE_REASON_ALGORITHM, // algorithm not offered
    MESSAGE_REASON_ENGINE,    // engine not there or failing
    MESSAGE_REASON_SOFTWARE,  // "software only": after repeated failures, or configured so
    MESSAGE_REASON_INTERNAL,  // out of memory or descriptors
    MESSAGE_REASON_BUSY,      // another client's calibration is running
    MESSAGE_REASON_CONNECTS,  // too many connects, a second or at a time
    MESSAGE_REASON_SIZE,      // over a limit, which a channel with fewer slots may keep
    MESSAGE_REASON_COUNT,
};

// The lanes, as bits (cryptod.h: CRYPTOD_LANE_BIT()).
#define MESSAGE_LANE_SOFTWARE  1u // the program shall use the library's own code for it
#define MESSAGE_LANE_REQUEST   2u
#define MESSAGE_LANE_KEYSTREAM 4u

// Beside MESSAGE_LANE_KEYSTREAM, in an offer only: this machine spends more CPU time on it than
// software would, so it pays only for a stream whose own process is short of CPU time.
#define MESSAGE_OFFER_KEYSTREAM_DEAR 8u

// The state of an algorithm in a backend (cryptod.h: enum cryptod_state).
enum message_state {
    MESSAGE_STATE_OFFERED,
    MESSAGE_STATE_DECLINED,
    MESSAGE_STATE_ABSENT,
    MESSAGE_STATE_QUARANTINED,
    MESSAGE_STATE_DENIED,
    MESSAGE_STATE_COUNT,
};

// What the daemon offers for one algorithm.
struct message_offer {
    uint32_t lanes;       // MESSAGE_LANE_*, MESSAGE_OFFER_* bits; 0 = not offered at all
    uint32_t request_min; // bytes below which a call stays in the process though a stream is in the
                          // request lane
};

struct message_hello {
    uint32_t version_min;
    uint32_t version_max;
    uint32_t n_slots;
    uint32_t n_streams;
};

struct message_hello_reply {
    uint32_t version; // agreed; 0 when refused
    uint32_t reason;  // enum message_reason
    uint32_t channel; // number, for logs and status
    uint32_t deadline_ms;
    uint32_t bulk_threshold; // bytes a stream does in software before it asks for a lane
    uint32_t spin_us;        // how long a side may spin before it sleeps; 0 on one CPU
    struct message_offer offer[ALGORITHM_COUNT]; // index: enum algorithm_id
    uint32_t keystream_slots; // most slots of 64 KiB that one stream may have made ahead
};

struct message_stream_open {
    uint32_t stream; // client's number, below n_streams
    uint32_t algorithm;
};

struct message_stream_reply {
    uint32_t stream;
    uint32_t reason;
};

struct message_stream_close {
    uint32_t stream;
};

struct message_status {
    uint32_t reserved; // zero
};

struct message_status_summary {
    uint64_t uptime_s;
    uint32_t version; // of the protocol
    uint32_t mode;    // enum message_reason: OK, or SOFTWARE with `text`
    uint32_t channels;
    uint32_t streams;
    uint64_t channels_total;
    uint64_t streams_total;
    uint64_t refused_total;    // HELLOs refused
    uint64_t violations_total; // clients closed for breaking the rules
    uint32_t channels_max;
    uint32_t channels_per_uid;
    uint32_t afalg_errno; // 0: usable; else why the kernel's crypto sockets are not
    uint32_t engine_restarts;
    char text[128];   // mode or AF_ALG state in words
    char release[64]; // cryptod's version
    char kernel[64];  // uname -r
    struct message_limits limits;
};

struct message_status_algorithm { // one row per (algorithm, backend)
    uint32_t algorithm;
    uint32_t state; // enum message_state
    uint32_t lanes; // bits, as offered
    uint32_t reserved;
    uint64_t operations;
    uint64_t bytes;
    uint64_t errors;
    char backend[16];
    char driver[64];     // the kernel's driver name, or the library's
    char text[128];      // why it is in this state
    uint64_t verified;   // results compared in use
    uint64_t mismatches; // that were wrong
    uint32_t keys;       // set in the driver now; 0: not counted
    uint32_t reserved2;
    uint64_t key_lacks; // how often the driver had no room for a key
};

struct message_status_channel { // only to uid 0 and the admin group
    uint32_t channel;
    uint32_t uid;
    uint32_t pid;
    uint32_t streams;
    uint64_t age_s;
    uint64_t operations;
    uint64_t bytes;
    uint64_t software_bytes; // as the client reports it
    uint64_t fallbacks;      // as the client reports it
    uint64_t lane_changes;   // as the client reports it
};

struct message_status_end {
    uint32_t reason; // enum message_reason
};

struct message_channel_add {
    uint32_t channel;
    uint32_t uid;
    uint32_t pid;
    uint32_t n_slots;
    uint32_t n_streams;
};

struct message_channel { // CHANNEL_REPLY, CHANNEL_REMOVE, CHANNEL_FAULT
    uint32_t channel;
    uint32_t reason;
};

struct message_engine_stream { // ENGINE_OPEN, ENGINE_REPLY, ENGINE_CLOSE
    uint32_t channel;
    uint32_t stream;
    uint32_t algorithm; // ENGINE_OPEN; else 0
    uint32_t reason;    // ENGINE_REPLY; else 0
};

struct message_engine_offer {
    struct message_offer offer[ALGORITHM_COUNT];
};

struct message_engine_summary {
    uint32_t channels;
    uint32_t streams;
    uint32_t afalg_errno;
    uint32_t workers;
    char text[128];
    uint64_t locked_memory;         // bytes of keystream slots with pages
    uint64_t requests;              // in flight
    uint64_t locked_memory_refused; // times since the engine started
    uint64_t requests_refused;      // the same
};

struct message_engine_channel {
    uint32_t channel;
    uint32_t streams;
    uint64_t operations;
    uint64_t bytes;
    uint64_t software_bytes;
    uint64_t fallbacks;
    uint64_t lane_changes;
    uint64_t locked_memory; // as in ENGINE_SUMMARY
    uint64_t requests;
};

#define MESSAGE_IDS_MAX 16u

struct message_role_config {
    uint32_t uid; // to become; 0 never
    uint32_t gid;
    uint32_t log_level;
    uint32_t mode;     // enum message_reason: OK, or SOFTWARE (front without engine)
    uint32_t offload;  // enum config_offload
    uint32_t backends; // CONFIG_BACKEND_* bits
    uint32_t workers;  // engine threads, 0 = choose
    uint32_t deadline_ms;
    uint32_t bulk_threshold;
    uint32_t request_min; // 0: as measured
    uint32_t spin_us;
    uint32_t channels_max;
    uint32_t channels_per_uid;
    uint32_t streams_per_channel;
    uint32_t slots_per_channel;
    uint32_t restarts; // failures so far, for status
    uint32_t n_uids;   // of allow_users
    uint32_t n_gids;   // of allow_groups; the first is the admin group
    uint32_t uids[MESSAGE_IDS_MAX];
    uint32_t gids[MESSAGE_IDS_MAX];
    uint64_t started_s;     // CLOCK_BOOTTIME seconds when the monitor started
    char deny_drivers[512]; // names separated by one space
    char fault[256];        // what the fault backend shall do; empty: it is not there
    char text[128];         // why software only
    uint32_t keystream_slots;
    uint32_t idle_s; // after this many seconds without a request a channel's keystream memory is
                     // taken back
    uint32_t verify; // results compared in use: 0 none, 1 all, N one of N
    uint32_t calibrations;  // engine: so many messages follow, before READY: CALIBRATION_KEY and
                            // CALIBRATIONs
    char quarantined[1024]; // "DRIVER ALGORITHM" pairs, all separated by one space: what gave wrong
                            // results in use since the monitor started; "DRIVER hangs": what hung
                            // since the machine did
    // Limits, in all and for each uid; 0: none. Memory in bytes, connects a second.
    uint32_t streams_max;
    uint32_t streams_per_uid;
    uint32_t shared_memory_max;
    uint32_t shared_memory_per_uid;
    uint32_t locked_memory_max;
    uint32_t locked_memory_per_uid;
    uint32_t requests_max;
    uint32_t requests_per_uid;
    uint32_t connects_max;
    uint32_t connects_per_uid;
};

enum message_quarantine_kind {
    MESSAGE_QUARANTINE_WRONG,     // gave a wrong result in use, for this algorithm
    MESSAGE_QUARANTINE_HANGS,     // does not come back from a request, whatever the algorithm
    MESSAGE_QUARANTINE_TRIAL,     // is about to be tried; if nothing follows in time, it hangs
    MESSAGE_QUARANTINE_TRIAL_END, // has come back from its trial
};

struct message_quarantine {
    uint32_t algorithm;
    uint32_t kind;   // enum message_quarantine_kind
    char driver[64]; // its name, without blanks; "-": it has none
};

struct message_status_note { // to clients: only to uid 0 and the admin group
    char topic[32];          // "engine"; a later note on it replaces an earlier one
    char text[224];          // what keeps it in, or what it says of this machine
};

struct message_empty { // ENGINE_STATUS, ROLE_READY, PING, PONG
    uint32_t reserved; // zero
};

struct message {
    enum message_type type;
    uint64_t serial;
    union {
        struct message_hello hello;
        struct message_hello_reply hello_reply;
        struct message_stream_open stream_open;
        struct message_stream_reply stream_reply;
        struct message_stream_close stream_close;
        struct message_status status;
        struct message_status_summary status_summary;
        struct message_status_algorithm status_algorithm;
        struct message_status_channel status_channel;
        struct message_status_user status_user;
        struct message_status_end status_end;
        struct message_calibrate calibrate;
        struct message_calibration_progress calibration_progress;
        struct message_calibration calibration;
        struct message_calibration_end calibration_end;
        struct message_calibration_key calibration_key;
        struct message_channel_add channel_add;
        struct message_channel channel;
        struct message_engine_stream engine_stream;
        struct message_engine_offer engine_offer;
        struct message_engine_summary engine_summary;
        struct message_engine_channel engine_channel;
        struct message_role_config role_config;
        struct message_quarantine quarantine;
        struct message_status_note status_note;
        struct message_empty empty;
    } u;
};

struct message_info {
    const char *name;    // "HELLO"
    uint32_t n_bytes;    // exact length on the wire, header included
    uint32_t n_fds;      // exact count of descriptors
    uint32_t directions; // bits of enum message_direction
};

// The table's row for a type, or NULL if the type (any number) is unknown.
const struct message_info *message_info(uint32_t type);

// Checks the table itself (lengths against the field lists, no duplicates). 0, or -EINVAL. Called
// once at start.
int message_table_check(void);

// Writes m into buf (n_buf bytes). 0 and *ret_n, or -EINVAL (unknown type), -ENOBUFS.
int message_encode(const struct message *m, uint8_t *buf, size_t n_buf, size_t *ret_n);

// Reads one whole message of exactly n bytes that may travel in `direction`. Checks length, zero
// fields, direction, that char arrays are terminated and zero after the terminator. Does not judge
// other values. 0, or -EBADMSG with *ret untouched.
int message_decode(const uint8_t *buf, size_t n, enum message_direction direction,
                   struct message *ret);

// For people: "no common protocol version". Never NULL.
const char *message_reason_text(uint32_t reason);

#endif
