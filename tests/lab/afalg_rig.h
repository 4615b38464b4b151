// SPDX-License-Identifier: MIT
// An instance of backend afalg, and comparisons with OpenSSL.
// Every function here fails or skips the test (Criterion) instead of returning an error.
#ifndef CRYPTOD_TESTS_AFALG_RIG_H
#define CRYPTOD_TESTS_AFALG_RIG_H

#include "backend.h"

extern struct backend *afalg_rig_backend;

// Skips the test, with the reason, where AF_ALG cannot be used.
void afalg_rig_setup(void);
void afalg_rig_teardown(void);

// Another instance, with a deny list.
struct backend *afalg_rig_start(const char *deny);

struct backend_probe afalg_rig_probe(struct backend *of, enum algorithm_id algorithm);

// Whether the algorithm is asked of the kernel at all.
bool afalg_rig_serves(enum algorithm_id algorithm);

// Opens a key; ret_bytes gets it.
struct backend_key *afalg_rig_open(enum algorithm_id algorithm,
                                   uint8_t ret_bytes[ALGORITHM_KEY_MAX]);

// One request, whose output ends at a page that nobody may touch.
void afalg_rig_compare(struct backend_key *key, enum algorithm_id algorithm, const uint8_t *bytes,
                       bool encrypt, size_t n_bytes, bool in_place);

// Reproducible bytes; another seed, others.
void afalg_rig_fill(void *data, size_t n_bytes, uint64_t seed);

#endif
