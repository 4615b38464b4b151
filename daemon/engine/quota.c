// SPDX-License-Identifier: MIT
// Compare and exchange rather than add and look: a taker that is refused must not be in the way of
// another uid's for a moment.
#include "quota.h"

#include <errno.h>
#include <stddef.h>

void quota_init(struct quota *quota)
{
    for (unsigned kind = 0; kind < QUOTA_KIND_COUNT; kind++) {
        atomic_init(&quota->in_all[kind], QUOTA_NO_LIMIT);
        atomic_init(&quota->per_uid[kind], QUOTA_NO_LIMIT);
        atomic_init(&quota->n[kind], 0);
        atomic_init(&quota->n_refused[kind], 0);
    }
    atomic_init(&quota->told, false);
    quota->on_refusal = NULL;
    quota->user = NULL;
}

void quota_set_listener(struct quota *quota, quota_listener *on_refusal, void *user)
{
    quota->on_refusal = on_refusal;
    quota->user = user;
}

void quota_rearm(struct quota *quota)
{
    atomic_store(&quota->told, false);
}

void quota_set_limit(struct quota *quota, enum quota_kind kind, uint64_t in_all, uint64_t per_uid)
{
    atomic_store(&quota->in_all[kind], in_all);
    atomic_store(&quota->per_uid[kind], per_uid);
}

static bool add_up_to(_Atomic uint64_t *count, uint64_t n, uint64_t limit)
{
    uint64_t now = atomic_load_explicit(count, memory_order_relaxed);

    do {
        if (now > limit || n > limit - now)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(count, &now, now + n, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

static int refuse(struct quota *quota, struct quota_share *share, enum quota_kind kind, int r)
{
    atomic_fetch_add_explicit(&share->n_refused[kind], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&quota->n_refused[kind], 1, memory_order_relaxed);
    if (quota->on_refusal && !atomic_exchange(&quota->told, true))
        quota->on_refusal(quota->user, share->uid, kind, r);
    return r;
}

int quota_take(struct quota *quota, struct quota_share *share, enum quota_kind kind, uint64_t n)
{
    if (!add_up_to(&share->n[kind], n, atomic_load(&quota->per_uid[kind])))
        return refuse(quota, share, kind, -EDQUOT);
    if (add_up_to(&quota->n[kind], n, atomic_load(&quota->in_all[kind])))
        return 0;
    atomic_fetch_sub_explicit(&share->n[kind], n, memory_order_relaxed);
    return refuse(quota, share, kind, -EUSERS);
}

void quota_give(struct quota *quota, struct quota_share *share, enum quota_kind kind, uint64_t n)
{
    atomic_fetch_sub_explicit(&share->n[kind], n, memory_order_relaxed);
    atomic_fetch_sub_explicit(&quota->n[kind], n, memory_order_relaxed);
}
