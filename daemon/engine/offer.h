// SPDX-License-Identifier: MIT
// What the engine can do, and what of it is offered: one row for each (algorithm, configured
// backend). For an algorithm the first backend that works, in the configured order, serves;
// the configuration says whether it is offered always, only if it was measured to gain, or never.
// Knows nothing of channels. Made by the main thread before the others; they only add to the
// statistics.
#ifndef CRYPTOD_DAEMON_OFFER_H
#define CRYPTOD_DAEMON_OFFER_H

#include "backend.h"
#include "choice.h"
#include "key_room.h"
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

enum offer_measured {
    OFFER_UNMEASURED,
    OFFER_MEASURED,
    OFFER_UNMEASURABLE,
};

struct offer_row {
    const struct algorithm_info *info;
    struct offer_backend *backend;
    struct backend_probe probe;
    bool wrong; // failed the self-test, or gave a wrong result in use, or hangs
    struct verify_trust trust;
    struct key_room *room; // shared by the rows of one driver; NULL: keys are not counted
    struct key_count keys;
    enum offer_measured measured;
    int measure_error; // OFFER_UNMEASURABLE: why, a negative errno
    struct measure_table table;
    struct statistics statistics;
    // Decided by offer_decide():
    enum message_state state;
    uint32_t lanes;       // MESSAGE_LANE_* bits
    uint32_t hints;       // MESSAGE_OFFER_* bits
    uint32_t request_min; // bytes
    char text[128];       // why
};

struct offer {
    uint32_t n_backends;
    struct offer_backend backends[OFFER_BACKENDS_MAX];
    struct offer_backend reference; // backend cpu, for comparisons
    struct offer_row rows[ALGORITHM_COUNT][OFFER_BACKENDS_MAX];
    uint32_t n_cpus;
    int afalg_error;      // 0, or why AF_ALG cannot be used
    char afalg_text[128]; // its state in words
};

// Told before a driver does its first operations, and after them. A driver that never comes back is
// known to whoever was told.
struct offer_trials {
    void (*begin)(void *user, enum algorithm_id algorithm, const char *driver);
    void (*end)(void *user, enum algorithm_id algorithm, const char *driver);
    void *user;
};

// Starts the configured backends and finds out about each algorithm. As root, before the sandbox. A
// backend that cannot start is a row that says so. trials: NULL: nobody is told. 0 or a negative
// errno; offer_fini() must follow in either case.
int offer_init(struct offer *offer, const struct message_role_config *config, uint32_t n_workers,
               const struct offer_trials *trials);
void offer_fini(struct offer *offer);

// Once more, in the sandbox, one request through each backend that works; one that does not any
// more serves nothing.
void offer_check_again(struct offer *offer, const struct offer_trials *trials);

// The order of the backend `fault` (fault_spec.h) has changed. 0 or -EINVAL: the old one stays.
int offer_reorder(struct offer *offer, const char *fault);

// Decides, by the configuration and by what is measured so far. May be called again.
void offer_decide(struct offer *offer, uint32_t offload, uint32_t request_min);

// Whether a measurement could end with a lane for this row: it works, and is not what the session
// does itself.
bool offer_row_is_measurable(const struct offer_row *row);

// What has been measured: a table; or error (negative), and the table that it had before stays, if
// it had one. Nothing follows from it before offer_decide().
void offer_put_table(struct offer_row *row, int error, const struct measure_table *table);

// Takes over a row that was measured earlier, if it is of this machine's algorithm, backend and
// driver. false: it is not, or is no sound row.
bool offer_take_kept(struct offer *offer, const struct message_calibration *kept);

// The row as a message; what was not measured is MESSAGE_NOT_MEASURED.
void offer_get_calibration(const struct offer_row *row, struct message_calibration *ret);

// A row that has lost its trust in use is quarantined from now on, with the reason in its text, and
// the next offer_decide() does without it. true: it was not before.
bool offer_quarantine(struct offer_row *row);

// Takes the trust from all rows of the driver that the trust is of, because a request to it does
// not come back; offer_quarantine() does the rest. false: it is no driver's (this CPU's own code
// cannot hang), or nobody's.
bool offer_distrust_hung(struct offer *offer, const struct verify_trust *trust);

// Whether no row before this one (in the order of both indices) has its room; false without one.
bool offer_row_is_first_of_room(const struct offer *offer, uint32_t a, uint32_t b);

void offer_get_message(const struct offer *offer, struct message_engine_offer *ret);

// The row that has a lane for the algorithm (any number), or NULL if none is offered.
struct offer_row *offer_find_row(struct offer *offer, uint32_t algorithm);

#endif
