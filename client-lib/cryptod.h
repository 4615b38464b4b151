// SPDX-License-Identifier: MIT
// libcryptod: bulk encryption through the cryptod daemon, with the process's own OpenSSL always in
// reserve. libcryptod(3) says more.
//
// A process has one channel to the daemon. It is opened before a sandbox goes on; afterwards the
// library calls only read(), write(), ppoll() on one descriptor, close(), futex(), clock_gettime()
// and munmap(), besides what malloc() calls, on every path. A stream is one direction of one
// cipher. It starts in software and may move to a lane of the daemon; it goes back to software, at
// the exact byte, on any trouble. So cryptod_stream_crypt() cannot fail because of the daemon.
//
// Errors: 0 is success, a negative errno is a failure; ret_ arguments are untouched on failure.
//
// Threads: all functions may be called from several threads; one stream must be used by one thread
// at a time. One thread at a time uses the channel; others go on in software meanwhile and wait for
// nothing. None may be called from a signal handler.
//
// Fork: a child never uses its parent's channel. Handlers (pthread_atfork) give the child a channel
// of its own if that is possible within the time given to cryptod_open(), and has not just failed;
// else its streams go on in software. The library must not be used in a child made by vfork().
//
// Descriptors: a channel has two, close-on-exec, with numbers near the top of the process's limit.
// A program that closes them unknowingly goes on in software.
#ifndef CRYPTOD_H
#define CRYPTOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

#define CRYPTOD_SOCKET "/run/cryptod/cryptod.sock"

// Numbers of the protocol: they never change.
enum cryptod_algorithm {
    CRYPTOD_AES_128_CBC = 0,
    CRYPTOD_AES_192_CBC = 1,
    CRYPTOD_AES_256_CBC = 2,
    CRYPTOD_AES_128_CTR = 3,
    CRYPTOD_AES_192_CTR = 4,
    CRYPTOD_AES_256_CTR = 5,
    CRYPTOD_DES_EDE3_CBC = 6,
    // OpenSSL's form: 16-byte IV = 32-bit little-endian counter and 96-bit nonce
    CRYPTOD_CHACHA20 = 7,
};
#define CRYPTOD_ALGORITHM_COUNT 8

enum cryptod_lane {
    CRYPTOD_LANE_SOFTWARE = 0,  // OpenSSL in the process
    CRYPTOD_LANE_REQUEST = 1,   // each piece of data goes to the daemon
    CRYPTOD_LANE_KEYSTREAM = 2, // the daemon makes keystream ahead
};
#define CRYPTOD_LANE_BIT(lane) (1u << (lane))

// ---------------------------------------------------------------- channel

// Opens the process's channel to the daemon's socket (path; NULL: $CRYPTOD_SOCKET unless the
// program is setuid, else CRYPTOD_SOCKET) and takes at most timeout_ms milliseconds. Loads what
// software needs in any case, so streams work after a failure too. Does nothing if a channel is
// open already and the daemon still there. Not after a sandbox.
// 0; -ECONNREFUSED, -ENOENT, -ETIMEDOUT, -ECONNRESET: no daemon, or one that does not answer;
// -EACCES: not allowed; -EUSERS: a limit is reached; -EDQUOT: too many connects, a second or at a
// time; -EPROTO: no common version; -EOPNOTSUPP: the
// daemon is in "software only"; -ECHILD: a child made without fork() that still has its parent's
// channel; -ENOTSUP: OpenSSL's default provider does not load; or another negative errno.
int cryptod_open(const char *path, unsigned timeout_ms);

// Gives the channel back. Streams live on, in software. Children open none any more. Waits for
// another thread that uses the channel. Safe after a sandbox that allows close().
void cryptod_close(void);

// Whether the daemon offers any lane for the algorithm (the software lane alone counts: the daemon
// then wants the program to use the library's own code). false without a channel. No system call.
bool cryptod_offers(enum cryptod_algorithm algorithm);

// What this process has done since it started (a forked child starts at 0). No system call.
struct cryptod_counters {
    uint64_t software_bytes;
    uint64_t request_operations;
    uint64_t request_bytes;
    uint64_t keystream_bytes;
    uint64_t fallbacks;    // times that trouble sent a stream back to software
    uint64_t timeouts;     // deadlines that passed
    uint64_t lane_changes; // times that a stream left a lane because this CPU was faster
};
void cryptod_counters_get(struct cryptod_counters *ret);

// ---------------------------------------------------------------- streams

typedef struct cryptod_stream cryptod_stream;

// All of these are safe after a sandbox if cryptod_open() was called before it, with or without
// success.

// A stream without key and IV. -EINVAL: unknown algorithm; -ENOMEM; -ENOTSUP: OpenSSL does not have
// it.
int cryptod_stream_new(enum cryptod_algorithm algorithm, cryptod_stream **ret);

// A copy at the same position, right in every state; it starts in software. The original is not
// disturbed. -ENOMEM.
int cryptod_stream_dup(const cryptod_stream *stream, cryptod_stream **ret);

// Wipes and frees. NULL is allowed. In a forked child the parent's stream is not disturbed.
void cryptod_stream_free(cryptod_stream *stream);

// Sets key, IV and direction, and goes to the beginning. key: NULL keeps the last one. iv: NULL
// takes the IV that was set last again (zeroes if none was). Lengths are the algorithm's. A new IV
// alone keeps the daemon's key, and the count of bytes that makes a stream bulk.
// -ENOKEY: no key yet and none given (the IV is kept all the same).
int cryptod_stream_init(cryptod_stream *stream, const uint8_t *key, const uint8_t *iv,
                        bool encrypt);

// Encrypts or decrypts n_bytes from in to out (equal or not overlapping; any alignment; any size,
// for CBC a multiple of the block). No padding. Never fails because of the daemon. When the daemon
// hangs, a call takes its deadline (default 250 ms) longer than software, once.
// -ENOKEY; -EINVAL: n_bytes not a multiple of the block; -EIO: OpenSSL failed: the stream must be
// set up again.
int cryptod_stream_crypt(cryptod_stream *stream, uint8_t *out, const uint8_t *in, size_t n_bytes);

// The IV to go on from, as OpenSSL reports it: CBC the last ciphertext block; CTR and ChaCha20 the
// counter block after the last one begun (ChaCha20: its first 8 bytes count as one number).
// *ret_num: bytes used of the last keystream block begun, 0 if it is used up (0 for CBC).
// Writes as many bytes as the algorithm's IV has. -ENOKEY.
int cryptod_stream_iv(const cryptod_stream *stream, uint8_t *ret_iv, unsigned *ret_num);

// The lane that the next large call would take. Looks for an answer of the daemon if one is due.
enum cryptod_lane cryptod_stream_lane(const cryptod_stream *stream);

// ---------------------------------------------------------------- status

enum cryptod_state {
    CRYPTOD_STATE_OFFERED = 0,
    CRYPTOD_STATE_DECLINED = 1,    // works, but would not win, or is switched off
    CRYPTOD_STATE_ABSENT = 2,      // the kernel or library does not have it
    CRYPTOD_STATE_QUARANTINED = 3, // gave wrong results or failed too often
    CRYPTOD_STATE_DENIED = 4,      // on the configured deny list
};

struct cryptod_status_algorithm {
    const char *algorithm; // "aes-128-cbc"
    const char *backend;   // "afalg", "cpu"
    const char *driver;
    const char *text; // why it is in this state; "" if nothing is to be said
    enum cryptod_state state;
    uint32_t lanes; // bits
    uint64_t operations;
    uint64_t bytes;
    uint64_t errors;
    uint64_t verified;   // results compared with OpenSSL's in use
    uint64_t mismatches; // that were wrong: then it is quarantined
    uint32_t keys;       // set in its driver now; 0 for OpenSSL, which takes any number
    uint64_t key_lacks;  // how often the driver had no room for one: software instead
};

struct cryptod_status_channel {
    uint32_t channel;
    uint32_t uid;
    uint32_t pid;
    uint32_t streams;
    uint64_t age_s;
    uint64_t operations;
    uint64_t bytes;
    uint64_t software_bytes;
    uint64_t fallbacks;
    uint64_t lane_changes; // times that a stream left a lane because its own CPU was faster
};

struct cryptod_status_note {
    const char *topic; // "front", "AF_ALG"
    const char *text;  // what keeps that process in; who else can reach AF_ALG
};

struct cryptod_status_limit {
    const char *name;         // "streams"; of those that count memory: bytes
    uint64_t in_all, per_uid; // at most; 0: no limit
    uint64_t used;            // now, in all
    uint64_t refused;         // times that it was in somebody's way
};

// What can be limited; index of limits, and of used in cryptod_status_user.
enum cryptod_limit {
    CRYPTOD_LIMIT_CHANNELS = 0,
    CRYPTOD_LIMIT_STREAMS = 1,
    CRYPTOD_LIMIT_SHARED_MEMORY = 2, // that channels bring
    CRYPTOD_LIMIT_LOCKED_MEMORY = 3, // that the daemon adds to it for keystream
    CRYPTOD_LIMIT_REQUESTS = 4,      // in flight
    CRYPTOD_LIMIT_CONNECTS = 5,      // a second
};
#define CRYPTOD_LIMIT_COUNT 6

struct cryptod_status_user {
    uint32_t uid;
    uint64_t used[CRYPTOD_LIMIT_COUNT];
};

struct cryptod_status {
    const char *release; // of the daemon
    const char *kernel;
    const char *text;   // in words: mode, state of AF_ALG
    bool software_only; // the daemon serves no lane
    int afalg_error;    // 0: usable; else the errno that the kernel's crypto sockets gave
    uint64_t uptime_s;
    uint32_t channels, streams;
    uint32_t channels_max, channels_per_uid;
    uint32_t restarts;
    uint64_t channels_total, streams_total, refused_total, violations_total;
    size_t n_algorithms;
    const struct cryptod_status_algorithm *algorithms;
    size_t n_channel_rows; // 0 unless root or the admin group asks
    const struct cryptod_status_channel *channel_rows;
    size_t n_notes; // 0 unless root or the admin group asks
    const struct cryptod_status_note *notes;
    struct cryptod_status_limit limits[CRYPTOD_LIMIT_COUNT];
    size_t n_user_rows; // as n_channel_rows
    const struct cryptod_status_user *user_rows;
};

// Asks the daemon (path as in cryptod_open) for its status, on a connection of its own. Not after a
// sandbox.
int cryptod_status_get(const char *path, unsigned timeout_ms, struct cryptod_status **ret);
void cryptod_status_free(struct cryptod_status *status);

// ---------------------------------------------------------------- calibration

// What the daemon has measured of its lanes, and what it decided by that. Costs are those of one
// operation of each of these sizes, in bytes: 16, 64, 256, 1K, 4K, 16K, 64K, 256K.
#define CRYPTOD_CALIBRATION_SIZES   8
#define CRYPTOD_CALIBRATION_SIZE(i) (16u << (2u * (i)))
#define CRYPTOD_NOT_MEASURED        UINT64_MAX

struct cryptod_calibration_cost {
    uint64_t ns[CRYPTOD_CALIBRATION_SIZES];     // or CRYPTOD_NOT_MEASURED
    uint64_t cpu_ns[CRYPTOD_CALIBRATION_SIZES]; // of the machine's CPUs, all processes together
};

struct cryptod_calibration_row {
    const char *algorithm;
    const char *backend;
    const char *driver;
    const char *text; // why it is in this state
    enum cryptod_state state;
    uint32_t lanes;                            // bits, as offered
    uint32_t request_min;                      // bytes; 0: no request lane
    struct cryptod_calibration_cost software;  // OpenSSL in the process
    struct cryptod_calibration_cost request;   // data to the daemon and back, wake-ups included
    struct cryptod_calibration_cost keystream; // made by the daemon
    struct cryptod_calibration_cost take;      // the process's part of that: XOR and wipe
};

struct cryptod_calibration {
    uint64_t wake_ns; // of waking the daemon and being woken by it
    size_t n_rows;
    const struct cryptod_calibration_row *rows;
};

// Has the daemon (path as in cryptod_open) measure anew, which takes some seconds in which it goes
// on serving, and gets the result. progress (NULL: none) is called as it goes on. timeout_ms: the
// longest silence of the daemon. For root and the daemon's admin group. Not after a sandbox.
// 0; -EACCES: not allowed; -EBUSY: another calibration that somebody asked for is running; else as
// cryptod_open().
int cryptod_calibrate(const char *path, unsigned timeout_ms,
                      void (*progress)(void *user, unsigned done, unsigned total), void *user,
                      struct cryptod_calibration **ret);

// The same without measuring: what is in use.
int cryptod_calibration_get(const char *path, unsigned timeout_ms,
                            struct cryptod_calibration **ret);
void cryptod_calibration_free(struct cryptod_calibration *calibration);

// The name of an algorithm ("aes-128-cbc"), or NULL.
const char *cryptod_algorithm_name(enum cryptod_algorithm algorithm);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
