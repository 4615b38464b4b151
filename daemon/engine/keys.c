// SPDX-License-Identifier: MIT
// Guarantees: a backend's key is closed once at most, and never while somebody uses it; a result
// of a backend that is not trusted any more is not given out. Must not know who looks for it.
#include "keys.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SET_WAIT_MS 250u // a key that is not set by then is as good as refused

struct key {
    struct keeper_job job; // first; with a room only, as the next two
    bool is_set;           // or was tried to: set_error. The keeper's mutex is theirs
    int set_error;
    _Atomic uint32_t n_refs;
    _Atomic bool was_compared;
    struct key_source source;
    struct key_place place;           // in the room; without one, place.set is the key all the time
    struct verify_side reference;     // no key: never compared
    pthread_mutex_t setting;          // held by who sets the key again; with a room only
    uint8_t bytes[ALGORITHM_KEY_MAX]; // the same
};

// ---------------------------------------------------------------- setting keys

// As long as there are idle keys to be taken out for this one.
static int set_with_room(const struct key_source *source, const uint8_t *bytes,
                         struct backend_key **ret)
{
    struct backend_key *idle;
    int r;

    for (;;) {
        r = source->ops->open(source->backend, source->info->id, bytes, ret);
        if (!backend_is_lack(r))
            return r;
        idle = key_room_take_idle(source->room);
        if (!idle)
            break;
        source->ops->close(idle);
    }
    atomic_fetch_add_explicit(&source->count->n_lacks, 1, memory_order_relaxed);
    return -EUSERS;
}

// A driver's own key, without a room.
static int set_directly(struct key *key, const uint8_t *bytes)
{
    const struct key_source *source = &key->source;

    return source->ops->open(source->backend, source->info->id, bytes, &key->place.set);
}

// In the keeper's thread, with a reference.
static void set_first(struct keeper_job *job)
{
    struct key *key = (struct key *)(void *)job;
    const struct key_source *source = &key->source;
    struct backend_key *set;

    key->set_error = set_with_room(source, key->bytes, &set);
    if (key->set_error == 0)
        key_room_put(source->room, &key->place, set, source->count);
    keeper_tell(key_room_keeper(source->room), &key->is_set);
    key_unref(key);
}

// By the keeper, because the driver may hang. Then the reference is lost with it, and the key
// stays.
static int set_by_keeper(struct key *key, const uint8_t *bytes)
{
    struct keeper *keeper = key_room_keeper(key->source.room);
    int r = -pthread_mutex_init(&key->setting, NULL);

    if (r < 0)
        return r;
    memcpy(key->bytes, bytes, key->source.info->n_key);
    key->job.run = set_first;
    keeper_push(keeper, &key_ref(key)->job);
    return keeper_wait(keeper, &key->is_set, SET_WAIT_MS) ? key->set_error : -ETIMEDOUT;
}

static void wipe(struct key *key)
{
    if (key->reference.key)
        key->reference.ops->close(key->reference.key);
    key->reference.key = NULL;
    explicit_bzero(key->bytes, sizeof(key->bytes));
}

static void free_key(struct key *key)
{
    wipe(key);
    free(key);
}

// To close it could hang as well.
static void leave_behind(struct key *key)
{
    wipe(key);
    key_room_leave_behind(key->source.room, &key->place);
}

// In the keeper's thread.
static void end_with_room(struct keeper_job *job)
{
    struct key *key = (struct key *)(void *)job;

    if (verify_hangs(key->source.trust)) { // found out meanwhile
        leave_behind(key);
        return;
    }
    key->source.ops->close(key_room_clear(key->source.room, &key->place));
    pthread_mutex_destroy(&key->setting);
    free_key(key);
}

int key_open(const struct key_source *source, const uint8_t *bytes, struct key **ret)
{
    struct key *key = calloc(1, sizeof(*key));
    int r = 0;

    if (!key)
        return -ENOMEM;
    atomic_init(&key->n_refs, 1);
    key->source = *source;
    key->reference.ops = source->reference_ops;
    if (source->reference)
        r = source->reference_ops->open(source->reference, source->info->id, bytes,
                                        &key->reference.key);
    if (r == 0 && source->room) {
        r = set_by_keeper(key, bytes);
        if (r < 0) {
            key_unref(key);
            return r;
        }
    } else if (r == 0) {
        r = set_directly(key, bytes);
    }
    if (r < 0) {
        free_key(key);
        return r;
    }
    *ret = key;
    return 0;
}

struct key *key_ref(struct key *key)
{
    atomic_fetch_add_explicit(&key->n_refs, 1, memory_order_relaxed);
    return key;
}

void key_unref(struct key *key)
{
    if (!key || atomic_fetch_sub_explicit(&key->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    if (!key->source.room) {
        key->source.ops->close(key->place.set);
        free_key(key);
    } else if (verify_hangs(key->source.trust)) {
        leave_behind(key);
    } else {
        key->job.run = end_with_room;
        keeper_push(key_room_keeper(key->source.room), &key->job);
    }
}

const struct algorithm_info *key_info(const struct key *key)
{
    return key->source.info;
}

struct verify_trust *key_trust(const struct key *key)
{
    return key->source.may_hang ? key->source.trust : NULL;
}

// ---------------------------------------------------------------- using them

// The key of a room for one request; set again if it was taken out. One thread does that, and
// others that want this very key wait for it.
static int enter_room(struct key *key, struct backend_key **ret)
{
    const struct key_source *source = &key->source;
    struct backend_key *set = key_room_enter(source->room, &key->place);
    int r = 0;

    if (!set) {
        pthread_mutex_lock(&key->setting);
        while (r == 0 && !(set = key_room_enter(source->room, &key->place))) {
            r = set_with_room(source, key->bytes, &set);
            if (r == 0)
                key_room_put(source->room, &key->place, set, source->count);
        }
        pthread_mutex_unlock(&key->setting);
    }
    if (r == 0)
        *ret = set;
    return r;
}

static int enter(struct key *key, struct verify_side *ret)
{
    ret->ops = key->source.ops;
    if (key->source.room)
        return enter_room(key, &ret->key);
    ret->key = key->place.set;
    return 0;
}

static void leave(struct key *key)
{
    if (key->source.room)
        key_room_leave(key->source.room, &key->place);
}

static int run_compared(struct key *key, const struct verify_side *tested,
                        struct verifier *verifier, const struct verify_request *request)
{
    int r = verifier_run(verifier, tested, &key->reference, request, key->source.trust);

    if (r == 0)
        atomic_store_explicit(&key->was_compared, true, memory_order_relaxed);
    return r;
}

// Looked at before, so that a driver that is not trusted is not used, and after, because another
// worker may have found it out meanwhile.
static int run_alone(struct key *key, const struct verify_side *tested,
                     const struct verify_request *request)
{
    int r = verify_run_side(tested, request);

    return r == 0 && verify_is_lost(key->source.trust) ? -EKEYREVOKED : r;
}

static bool is_chosen(struct key *key, struct verifier *verifier)
{
    return key->reference.key &&
           verifier_chooses(verifier,
                            !atomic_load_explicit(&key->was_compared, memory_order_relaxed));
}

// A key that is set needs more for its first request (an operation socket). Data may be half done
// by then, so there is no second try; but the next one shall find room. EBUSY is a driver's error
// here.
static int judge_lack(struct key *key, int r)
{
    const struct key_source *source = &key->source;
    struct backend_key *idle;

    if (!source->room || !backend_is_lack(r) || r == -EBUSY)
        return r;
    atomic_fetch_add_explicit(&source->count->n_lacks, 1, memory_order_relaxed);
    idle = key_room_take_idle(source->room);
    if (idle)
        source->ops->close(idle);
    return -EUSERS;
}

// *ret_compared: the result is OpenSSL's.
static int run_trusted(struct key *key, struct verifier *verifier,
                       const struct verify_request *request, bool *ret_compared)
{
    struct verify_side tested;
    int r = enter(key, &tested);

    if (r < 0)
        return r;
    *ret_compared = is_chosen(key, verifier);
    r = *ret_compared ? run_compared(key, &tested, verifier, request)
                      : run_alone(key, &tested, request);
    leave(key);
    return judge_lack(key, r);
}

static int run(struct key *key, struct verifier *verifier, const struct verify_request *request,
               const struct verify_trust **ret_rests_on)
{
    const struct verify_trust *trust = key->source.trust;
    bool compared = false;
    int r = verify_is_lost(trust) ? -EKEYREVOKED : run_trusted(key, verifier, request, &compared);

    if (r < 0) {
        if (r != -EUSERS || !key->source.room) // a lack is counted, and nobody's error
            statistics_add_error(key->source.statistics);
        return r;
    }
    statistics_add(key->source.statistics, request->n_bytes);
    *ret_rests_on = compared ? NULL : trust;
    return 0;
}

int key_crypt(struct key *key, struct verifier *verifier, bool encrypt,
              const uint8_t iv[ALGORITHM_IV_LEN_MAX], uint8_t *data, size_t n_bytes)
{
    const struct verify_trust *rests_on; // the caller gives the result away at once
    const struct verify_request request = {
        .operation = encrypt ? VERIFY_ENCRYPT : VERIFY_DECRYPT,
        .iv = iv,
        .data = data,
        .n_bytes = n_bytes,
    };

    return run(key, verifier, &request, &rests_on);
}

int key_keystream(struct key *key, struct verifier *verifier,
                  const uint8_t iv[ALGORITHM_IV_LEN_MAX], uint8_t *data, size_t n_bytes,
                  const struct verify_trust **ret_rests_on)
{
    const struct verify_request request = {
        .operation = VERIFY_KEYSTREAM, .iv = iv, .data = data, .n_bytes = n_bytes};

    if (!key->source.ops->keystream)
        return -EOPNOTSUPP;
    return run(key, verifier, &request, ret_rests_on);
}
