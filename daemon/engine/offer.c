// SPDX-License-Identifier: MIT
// Guarantees: what is offered has given right bytes through the path that serves it. Must not know
// clients.
#include "offer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "quarantine.h"
#include "role.h"
#include "selftest.h"

// ---------------------------------------------------------------- finding out

static void start_backend(struct offer *offer, const struct backend_ops *ops,
                          const struct backend_settings *settings)
{
    struct offer_backend *backend = &offer->backends[offer->n_backends++];

    backend->ops = ops;
    backend->error = ops->init(settings, &backend->instance);
    if (backend->error < 0)
        log_warning("backend %s cannot start: %s", ops->name, strerror(-backend->error));
}

static void trial_begin(const struct offer_trials *trials, const struct offer_row *row)
{
    if (trials)
        trials->begin(trials->user, row->info->id, row->probe.driver);
}

static void trial_end(const struct offer_trials *trials, const struct offer_row *row)
{
    if (trials)
        trials->end(trials->user, row->info->id, row->probe.driver);
}

// A driver without room for a key is not there, and not a bad one.
static void compare_row(struct offer *offer, struct offer_row *row,
                        const struct offer_trials *trials)
{
    char text[SELFTEST_TEXT_MAX];
    int r;

    trial_begin(trials, row);
    r = selftest_run(row->backend->ops, row->backend->instance, offer->reference.ops,
                     offer->reference.instance, row->info, row->probe.makes, text);
    if (r == 0)
        return;
    row->wrong = !backend_is_lack(r);
    row->probe.error = r;
    (void)snprintf(row->probe.text, sizeof(row->probe.text), "self-test: %s", text);
    log_warning("%s by %s (%s): %s", row->info->name, row->backend->ops->name, row->probe.driver,
                row->probe.text);
}

static void quarantine(struct offer_row *row, const char *when)
{
    row->wrong = true;
    row->probe.error = -EBADMSG;
    (void)snprintf(row->probe.text, sizeof(row->probe.text),
                   "wrong bytes %s; until cryptod is restarted", when);
}

// Each new attempt could cost a process that cannot be ended.
static void quarantine_hung(struct offer_row *row)
{
    row->wrong = true;
    row->probe.error = -ETIMEDOUT;
    (void)snprintf(row->probe.text, sizeof(row->probe.text),
                   "a request did not come back; until the machine is restarted");
}

static void probe_row(struct offer *offer, struct offer_row *row, const char *quarantined,
                      const struct offer_trials *trials)
{
    struct offer_backend *backend = row->backend;

    if (!backend->instance) {
        row->probe.error = backend->error;
        (void)snprintf(row->probe.text, sizeof(row->probe.text), "the backend cannot start: %s",
                       strerror(-backend->error));
        return;
    }
    backend->ops->probe(backend->instance, row->info->id, &row->probe);
    if (row->probe.hangs)
        quarantine_hung(row);
    if (row->probe.error < 0)
        return;
    if (quarantine_has(quarantined, row->probe.driver, row->info->name))
        quarantine(row, "in use of an engine before this one");
    else if (row->probe.is_tested)
        compare_row(offer, row, trials);
}

// Keys are counted where they are the driver's to give.
static int give_room(struct offer *offer, struct offer_row *row, uint32_t b)
{
    if (!row->probe.is_watched || row->probe.error < 0)
        return 0;
    for (uint32_t a = 0; a < ALGORITHM_COUNT && !row->room; a++)
        if (strcmp(offer->rows[a][b].probe.driver, row->probe.driver) == 0)
            row->room = offer->rows[a][b].room;
    return row->room ? 0 : key_room_new(&row->room);
}

static int make_rows(struct offer *offer, const char *quarantined,
                     const struct offer_trials *trials)
{
    int r = 0;

    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        for (uint32_t b = 0; r == 0 && b < offer->n_backends; b++) {
            struct offer_row *row = &offer->rows[a][b];

            row->info = algorithm_get(a);
            row->backend = &offer->backends[b];
            measure_table_clear(&row->table);
            probe_row(offer, row, quarantined, trials);
            trial_end(trials, row);
            r = give_room(offer, row, b);
        }
    }
    return r;
}

// AF_ALG's own state: it can be used if it serves one algorithm at least; else the first reason
// stands for all.
static void sum_up_afalg(struct offer *offer)
{
    const struct offer_row *reason = NULL;

    offer->afalg_error = -EOPNOTSUPP;
    (void)snprintf(offer->afalg_text, sizeof(offer->afalg_text), "backend afalg is not configured");
    for (uint32_t b = 0; b < offer->n_backends; b++) {
        if (offer->backends[b].ops != &backend_afalg_ops)
            continue;
        for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
            const struct offer_row *row = &offer->rows[a][b];

            if (row->probe.error == 0) {
                offer->afalg_error = 0;
                (void)snprintf(offer->afalg_text, sizeof(offer->afalg_text), "AF_ALG works");
                return;
            }
            if (!reason && row->info->kernel_name)
                reason = row;
        }
    }
    if (reason) {
        offer->afalg_error = reason->probe.error;
        memcpy(offer->afalg_text, reason->probe.text, sizeof(offer->afalg_text));
    }
}

static const struct backend_ops *ops_of(uint32_t bit)
{
    switch (bit) {
    case CONFIG_BACKEND_FAULT:
        return &backend_fault_ops;
    case CONFIG_BACKEND_AFALG:
        return &backend_afalg_ops;
    case CONFIG_BACKEND_CPU:
        return &backend_cpu_ops;
    default:
        return NULL;
    }
}

// The i-th backend in order of preference; NULL: none there. Without an order (bits alone) those
// that tests ask for come first, and this CPU last.
static const struct backend_ops *ops_at(uint32_t backends, uint32_t i)
{
    static const uint32_t order[OFFER_BACKENDS_MAX] = {CONFIG_BACKEND_FAULT, CONFIG_BACKEND_AFALG,
                                                       CONFIG_BACKEND_CPU};

    if (CONFIG_BACKEND_AT(backends, 0) != 0)
        return ops_of(CONFIG_BACKEND_AT(backends, i));
    return ops_of(backends & order[i]);
}

int offer_init(struct offer *offer, const struct message_role_config *config, uint32_t n_workers,
               const struct offer_trials *trials)
{
    char hung[sizeof(config->quarantined)];
    const struct backend_settings settings = {.deny_drivers = config->deny_drivers,
                                              .hung_drivers = hung,
                                              .fault = config->fault,
                                              .workers = n_workers,
                                              .on_trial = trials ? trials->begin : NULL,
                                              .user = trials ? trials->user : NULL};
    const long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int r;

    quarantine_get_hung(config->quarantined, hung, sizeof(hung));
    memset(offer, 0, sizeof(*offer));
    offer->n_cpus = n_cpus > 0 ? (uint32_t)n_cpus : 1;
    offer->reference.ops = &backend_cpu_ops;
    offer->reference.error = backend_cpu_ops.init(&settings, &offer->reference.instance);
    if (offer->reference.error < 0)
        return offer->reference.error;
    for (uint32_t i = 0; i < OFFER_BACKENDS_MAX; i++) {
        const struct backend_ops *ops = ops_at(config->backends, i);

        if (ops)
            start_backend(offer, ops, &settings);
    }
    r = make_rows(offer, config->quarantined, trials);
    sum_up_afalg(offer);
    return r;
}

static void free_room(struct offer *offer, struct key_room *room)
{
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++)
        for (uint32_t b = 0; b < offer->n_backends; b++)
            if (offer->rows[a][b].room == room)
                offer->rows[a][b].room = NULL;
    key_room_free(room);
}

int offer_reorder(struct offer *offer, const char *fault)
{
    int r = 0;

    for (uint32_t b = 0; r == 0 && b < offer->n_backends; b++)
        if (offer->backends[b].instance && offer->backends[b].ops->reorder)
            r = offer->backends[b].ops->reorder(offer->backends[b].instance, fault);
    return r;
}

void offer_fini(struct offer *offer)
{
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++)
        for (uint32_t b = 0; b < offer->n_backends; b++)
            if (offer->rows[a][b].room)
                free_room(offer, offer->rows[a][b].room);
    for (uint32_t b = 0; b < offer->n_backends; b++)
        offer->backends[b].ops->fini(offer->backends[b].instance);
    if (offer->reference.ops)
        offer->reference.ops->fini(offer->reference.instance);
    memset(offer, 0, sizeof(*offer));
}

// ---------------------------------------------------------------- in the sandbox

static void fail_backend(struct offer *offer, uint32_t b, int error)
{
    const struct offer_backend *backend = &offer->backends[b];

    log_error("backend %s works outside the sandbox only (%s): not used", backend->ops->name,
              strerror(-error));
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        struct backend_probe *probe = &offer->rows[a][b].probe;

        if (probe->error < 0)
            continue;
        probe->error = error;
        (void)snprintf(probe->text, sizeof(probe->text),
                       "works outside the engine's sandbox only (%s)", strerrorname_np(-error));
    }
}

void offer_check_again(struct offer *offer, const struct offer_trials *trials)
{
    for (uint32_t b = 0; b < offer->n_backends; b++) {
        const struct offer_row *row = NULL;
        int r;

        for (uint32_t a = 0; a < ALGORITHM_COUNT && !row; a++)
            if (offer->rows[a][b].probe.error == 0 && offer->rows[a][b].probe.is_tested)
                row = &offer->rows[a][b];
        if (!row)
            continue;
        trial_begin(trials, row);
        r = selftest_run_one(row->backend->ops, row->backend->instance, offer->reference.ops,
                             offer->reference.instance, row->info, row->probe.makes);
        trial_end(trials, row);
        if (r < 0)
            fail_backend(offer, b, r);
    }
    sum_up_afalg(offer);
}

// ---------------------------------------------------------------- in use

bool offer_quarantine(struct offer_row *row)
{
    char when[64];

    if (row->wrong || !verify_is_lost(&row->trust))
        return false;
    if (verify_hangs(&row->trust)) {
        quarantine_hung(row);
    } else {
        verify_describe(&row->trust, when, sizeof(when));
        quarantine(row, when);
    }
    log_error("%s by %s (%s): %s", row->info->name, row->backend->ops->name, row->probe.driver,
              row->probe.text);
    return true;
}

static const struct offer_row *find_trust(const struct offer *offer,
                                          const struct verify_trust *trust)
{
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++)
        for (uint32_t b = 0; b < offer->n_backends; b++)
            if (&offer->rows[a][b].trust == trust)
                return &offer->rows[a][b];
    return NULL;
}

bool offer_distrust_hung(struct offer *offer, const struct verify_trust *trust)
{
    const struct offer_row *hung = find_trust(offer, trust);

    if (!hung || !hung->probe.is_watched)
        return false;
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        for (uint32_t b = 0; b < offer->n_backends; b++) {
            struct offer_row *row = &offer->rows[a][b];

            if (row->backend == hung->backend && strcmp(row->probe.driver, hung->probe.driver) == 0)
                verify_lose_hung(&row->trust);
        }
    }
    return true;
}

bool offer_row_is_first_of_room(const struct offer *offer, uint32_t a, uint32_t b)
{
    const struct key_room *room = offer->rows[a][b].room;

    for (uint32_t i = 0; i < a; i++) // rooms are of one backend
        if (offer->rows[i][b].room == room)
            return false;
    return room != NULL;
}

// ---------------------------------------------------------------- telling

void offer_get_message(const struct offer *offer, struct message_engine_offer *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++)
        for (uint32_t b = 0; b < offer->n_backends; b++)
            if (offer->rows[a][b].lanes != 0)
                ret->offer[a] = (struct message_offer){
                    .lanes = offer->rows[a][b].lanes | offer->rows[a][b].hints,
                    .request_min = offer->rows[a][b].request_min};
}

struct offer_row *offer_find_row(struct offer *offer, uint32_t algorithm)
{
    for (uint32_t b = 0; algorithm < ALGORITHM_COUNT && b < offer->n_backends; b++)
        if (offer->rows[algorithm][b].lanes & (MESSAGE_LANE_REQUEST | MESSAGE_LANE_KEYSTREAM))
            return &offer->rows[algorithm][b];
    return NULL;
}
