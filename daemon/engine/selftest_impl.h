// SPDX-License-Identifier: MIT
// The inside of the self-test, for selftest.c (what is tried), selftest_request.c (one request and
// its judgement) and selftest_known.c (published answers) alone.
#ifndef CRYPTOD_DAEMON_SELFTEST_IMPL_H
#define CRYPTOD_DAEMON_SELFTEST_IMPL_H

#include "selftest.h"

#define SELFTEST_REQUEST_MAX 65536u           // bytes, the largest request
#define SELFTEST_STRETCH_MAX ((size_t)196608) // bytes, of requests that follow each other
#define SELFTEST_OFFSET_MAX  63u

struct selftest_key {
    const struct backend_ops *ops;
    struct backend_key *key;
};

struct selftest {
    const struct algorithm_info *info;
    uint32_t makes; // BACKEND_MAKES_*
    struct selftest_key tested;
    struct selftest_key reference;
    uint8_t *plain;  // whole pages, as the next: what goes in
    uint8_t *cipher; // what must come out
    uint8_t *work[2];
    char *text; // SELFTEST_TEXT_MAX bytes: the first failure
};

enum selftest_operation { SELFTEST_ENCRYPT, SELFTEST_DECRYPT, SELFTEST_KEYSTREAM };

struct selftest_request {
    enum selftest_operation operation;
    bool in_place;
    uint32_t n_bytes;
    uint32_t offset;    // of the output from a page, up to SELFTEST_OFFSET_MAX; also of the input
    const char *remark; // for the text: what is special; NULL: nothing
    const uint8_t *iv;
    const uint8_t *input;    // NULL: keystream
    const uint8_t *expected; // n_bytes
};

// Makes and frees the memory of a self-test. 0 or -ENOMEM.
int selftest_allocate(struct selftest *test);
void selftest_release(struct selftest *test);

// One request to the backend under test, whose result must be what is expected. 0 or a negative
// errno with the text set.
int selftest_try(struct selftest *test, const struct selftest_request *request);

// Encrypts and decrypts, and makes keystream, of the published answers for the algorithm, each with
// its own key. As selftest_try().
int selftest_try_known(struct selftest *test, struct backend *backend);

#endif
