// SPDX-License-Identifier: MIT
// A process that uses the client library as a sandboxed sshd does: it opens the channel as root,
// then goes into an empty root, another user and sshd's filter, and only then makes its streams.
//
// The test's process must not have used OpenSSL before: what the library forgot to load before the
// sandbox would be there by inheritance. So the child's output is left in shared memory and checked
// after its end.
#ifndef CRYPTOD_TESTS_INMATE_H
#define CRYPTOD_TESTS_INMATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cryptod.h"
#include "sshd_filter.h"

#define INMATE_ROOM (4u << 20) // bytes of output, for each algorithm

struct inmate_shared {
    struct cryptod_counters counters; // at the child's end
    size_t n_out[CRYPTOD_ALGORITHM_COUNT];
    uint8_t out[CRYPTOD_ALGORITHM_COUNT][INMATE_ROOM];
};

struct inmate {
    enum sshd_filter_version version;
    int expected_open; // what cryptod_open() shall return; 0 unless set
    struct inmate_shared *shared;
    int ours, its; // a connected pair
    int errors;    // what it writes to standard error
    pid_t pid;
};

// In the child, in the sandbox. 0 if all went well; see CONFINED_STEP().
typedef int (*inmate_body)(struct inmate *inmate);

// ---------------------------------------------------------------- the test's side

// Starts the child, with $CRYPTOD_SOCKET as the daemon's socket.
void inmate_start(struct inmate *inmate, enum sshd_filter_version version, inmate_body body);

// Waits until the child calls inmate_meet() or inmate_signal(), for a minute at most.
void inmate_wait(const struct inmate *inmate);

// Lets a child that called inmate_meet() go on.
void inmate_release(const struct inmate *inmate);

// Waits for the end; asserts that the child was not killed, that no step of it failed, and that all
// of its output is what OpenSSL makes of the same input. The counters stay readable until
// inmate_fini().
void inmate_end(struct inmate *inmate);
void inmate_fini(struct inmate *inmate);

// What the test does while the child runs.
typedef void (*inmate_test)(struct inmate *inmate);

// All of the above for each version: `body` in the child, `meanwhile` (NULL: nothing) in the test,
// `check` on the child's counters at the end.
void inmate_run_versions(int expected_open, inmate_body body, inmate_test meanwhile,
                         void (*check)(const struct cryptod_counters *counters));

// ---------------------------------------------------------------- the child's side

void inmate_meet(struct inmate *inmate);
void inmate_signal(struct inmate *inmate);

// A stream with the algorithm's test key and IV that encrypts. 0 or 1.
int inmate_stream_new(enum cryptod_algorithm algorithm, cryptod_stream **ret);

// Encrypts the next n_bytes of the test's input to the next bytes of the algorithm's output. 0
// or 1.
int inmate_push(struct inmate *inmate, enum cryptod_algorithm algorithm, cryptod_stream *stream,
                size_t n_bytes);

// Pushes sizes around every limit that there is: a block, the slots of 64 KiB, all slots of a
// channel. 0 or 1.
int inmate_push_sizes(struct inmate *inmate, enum cryptod_algorithm algorithm,
                      cryptod_stream *stream);
#define INMATE_N_SIZES    11
#define INMATE_SIZES_LAST 400000u

// Pushes 4096 bytes at a time until the daemon has done a part of them. 0 or 1.
int inmate_push_until_lane(struct inmate *inmate, enum cryptod_algorithm algorithm,
                           cryptod_stream *stream);

#endif
