// SPDX-License-Identifier: MIT
// What the engine can do, and what of it is offered: one row for each (algorithm, configured
// backend). For an algorithm the first backend that works, in the configured order, serves;
// the configuration says whether it is offered always, only if it was measured to gain, or never.
// Knows nothing of channels. Made by the main thread before the others; they only add to the
// statistics.
#ifndef CRYPTOD_DAEMON_OFFER_H
#define CRYPTOD_DAEMON_OFFER_H

#include "backend.h"
#include "measure.h"
#include "message.h"
#include "statistics.h"
#include "verify.h"

#define OFFER_BACKENDS_MAX 3u

struct offer_backend {
    const struct backend_ops *ops;
    struct backend *instance; // NULL: `error` says why
    int error;
};

struct offer_row {
    const struct algorithm_info *info;
    struct offer_backend *backend;
    struct backend_probe probe;
    bool wrong; // failed the self-test, or gave a wrong result in use
    struct verify_trust trust;
    bool measured;
    struct measure measure;
    struct statistics statistics;
    // Decided by offer_decide():
    enum message_state state;
    uint32_t lanes; // MESSAGE_LANE_* bits
    char text[128]; // why
};

struct offer {
    uint32_t n_backends;
    struct offer_backend backends[OFFER_BACKENDS_MAX];
    struct offer_backend reference; // backend cpu, for comparisons
    struct offer_row rows[ALGORITHM_COUNT][OFFER_BACKENDS_MAX];
    uint32_t request_min;
    int afalg_error;      // 0, or why AF_ALG cannot be used
    char afalg_text[128]; // its state in words
};

// Starts the configured backends and finds out about each algorithm. As root, before the sandbox. A
// backend that cannot start is a row that says so. 0 or a negative errno; offer_fini() must follow
// in either case.
int offer_init(struct offer *offer, const struct message_role_config *config, uint32_t n_workers);
void offer_fini(struct offer *offer);

// Once more, in the sandbox, one request through each backend that works; one that does not any
// more serves nothing.
void offer_check_again(struct offer *offer);

// Measures what has to be measured, and decides. May be called again with another configuration.
void offer_decide(struct offer *offer, uint32_t offload, uint32_t request_min);

// A row that has lost its trust in use is quarantined from now on, with the reason in its text, and
// the next offer_decide() does without it. true: it was not before.
bool offer_quarantine(struct offer_row *row);

void offer_get_message(const struct offer *offer, struct message_engine_offer *ret);

// The row that has a lane for the algorithm (any number), or NULL if none is offered.
struct offer_row *offer_find_row(struct offer *offer, uint32_t algorithm);

#endif
