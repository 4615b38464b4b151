// SPDX-License-Identifier: MIT
// The rows of the status, and what `cryptoctl status` prints, for tests of the trust in drivers.
// Every function here fails the test (Criterion) instead of returning an error.
#ifndef CRYPTOD_TESTS_TRUST_ROWS_H
#define CRYPTOD_TESTS_TRUST_ROWS_H

#include "cryptod.h"

struct trust_row {
    enum cryptod_state state;
    uint64_t operations, errors, verified, mismatches, key_lacks;
    uint32_t keys;
    char driver[64], text[128];
};

// Of the daemon at $CRYPTOD_SOCKET.
struct trust_row trust_row_get(const char *algorithm, const char *backend);

// Waits (20 s at most) until the row is in that state, and returns it.
struct trust_row trust_row_wait(const char *algorithm, const char *backend,
                                enum cryptod_state state);

// What `cryptoctl OPTIONS status` prints (options: "" or "--json"), to be freed.
char *trust_cryptoctl(const char *options);

// A file's or a text's line that has both parts; fails if there is none. Points into a buffer of
// its own until the next call.
const char *trust_find_line(const char *text, const char *part, const char *other);

// How often part is in text.
size_t trust_count(const char *text, const char *part);

#endif
