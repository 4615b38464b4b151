// SPDX-License-Identifier: MIT
// What channels take of the engine while they work: keystream memory and places in the queue,
// counted for each uid and in all against limits. Guarantees: the counts never pass the limits;
// what was taken under a higher limit stays. Knows nothing of channels or memory. Thread-safe, and
// never waits.
#ifndef CRYPTOD_DAEMON_QUOTA_H
#define CRYPTOD_DAEMON_QUOTA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum quota_kind {
    QUOTA_MEMORY, // bytes
    QUOTA_REQUESTS,
    QUOTA_KIND_COUNT,
};

#define QUOTA_NO_LIMIT UINT64_MAX

// One uid's. Zeroed but for the uid: it has nothing.
struct quota_share {
    uint32_t uid;
    _Atomic uint64_t n[QUOTA_KIND_COUNT];
    _Atomic uint64_t n_refused[QUOTA_KIND_COUNT];
};

// A uid met a limit; error: what quota_take() returned.
typedef void quota_listener(void *user, uint32_t uid, enum quota_kind kind, int error);

struct quota {
    _Atomic uint64_t in_all[QUOTA_KIND_COUNT];
    _Atomic uint64_t per_uid[QUOTA_KIND_COUNT];
    _Atomic uint64_t n[QUOTA_KIND_COUNT];
    _Atomic uint64_t n_refused[QUOTA_KIND_COUNT];
    _Atomic bool told; // of a refusal, and quota_rearm() was not called since
    quota_listener *on_refusal;
    void *user;
};

// No limits, nobody to tell.
void quota_init(struct quota *quota);

// The listener is called for the first refusal, and again for the first one after each
// quota_rearm(), in the thread that was refused. To be set before there are threads.
void quota_set_listener(struct quota *quota, quota_listener *on_refusal, void *user);
void quota_rearm(struct quota *quota);

// Holds for what is taken from now on.
void quota_set_limit(struct quota *quota, enum quota_kind kind, uint64_t in_all, uint64_t per_uid);

// n more, all of them or none. 0; -EDQUOT: the uid's limit is reached; -EUSERS: the limit in all
// is.
int quota_take(struct quota *quota, struct quota_share *share, enum quota_kind kind, uint64_t n);
void quota_give(struct quota *quota, struct quota_share *share, enum quota_kind kind, uint64_t n);

#endif
