// SPDX-License-Identifier: MIT
// Shares of the engine: the counts never pass the limits, with threads too.
#include "quota.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static struct quota quota;
static struct quota_share a = {.uid = 1}, b = {.uid = 2};

static void setup(void)
{
    quota_init(&quota);
}

TestSuite(quota, .init = setup, .timeout = 60);

Test(quota, no_limit_at_first)
{
    cr_expect_eq(quota_take(&quota, &a, QUOTA_MEMORY, UINT64_MAX / 2), 0);
    cr_expect_eq(quota_take(&quota, &a, QUOTA_REQUESTS, 1), 0);
}

Test(quota, of_a_user_and_in_all)
{
    quota_set_limit(&quota, QUOTA_MEMORY, 100, 70);
    cr_expect_eq(quota_take(&quota, &a, QUOTA_MEMORY, 70), 0);
    cr_expect_eq(quota_take(&quota, &a, QUOTA_MEMORY, 1), -EDQUOT);
    cr_expect_eq(quota_take(&quota, &b, QUOTA_MEMORY, 31), -EUSERS);
    cr_expect_eq(atomic_load(&b.n[QUOTA_MEMORY]), 0, "all of it or none");
    cr_expect_eq(quota_take(&quota, &b, QUOTA_MEMORY, 30), 0);
    cr_expect_eq(quota_take(&quota, &b, QUOTA_MEMORY, UINT64_MAX), -EDQUOT, "no overflow");
    cr_expect_eq(atomic_load(&quota.n[QUOTA_MEMORY]), 100);
    cr_expect_eq(atomic_load(&quota.n[QUOTA_REQUESTS]), 0, "kinds are counted apart");
    cr_expect_eq(atomic_load(&quota.n_refused[QUOTA_MEMORY]), 3);
    cr_expect_eq(atomic_load(&b.n_refused[QUOTA_MEMORY]), 2);
    quota_give(&quota, &a, QUOTA_MEMORY, 70);
    cr_expect_eq(quota_take(&quota, &b, QUOTA_MEMORY, 40), 0);
    cr_expect_eq(atomic_load(&quota.n[QUOTA_MEMORY]), 70);
}

Test(quota, a_lowered_limit_takes_nothing_back)
{
    cr_expect_eq(quota_take(&quota, &a, QUOTA_REQUESTS, 10), 0);
    quota_set_limit(&quota, QUOTA_REQUESTS, 5, 5);
    cr_expect_eq(quota_take(&quota, &a, QUOTA_REQUESTS, 1), -EDQUOT);
    cr_expect_eq(quota_take(&quota, &b, QUOTA_REQUESTS, 1), -EUSERS);
    quota_give(&quota, &a, QUOTA_REQUESTS, 6);
    cr_expect_eq(quota_take(&quota, &a, QUOTA_REQUESTS, 1), 0);
}

struct heard {
    unsigned n;
    uint32_t uid;
    enum quota_kind kind;
    int error;
};

static void hear(void *user, uint32_t uid, enum quota_kind kind, int error)
{
    struct heard *heard = user;

    *heard = (struct heard){heard->n + 1, uid, kind, error};
}

Test(quota, tells_of_the_first_refusal_alone)
{
    struct heard heard = {0};

    quota_set_listener(&quota, hear, &heard);
    quota_set_limit(&quota, QUOTA_REQUESTS, 1, 1);
    cr_expect_eq(quota_take(&quota, &a, QUOTA_REQUESTS, 1), 0);
    cr_expect_eq(heard.n, 0);
    for (int i = 0; i < 10; i++)
        quota_take(&quota, &b, QUOTA_REQUESTS, 1);
    cr_expect_eq(heard.n, 1);
    cr_expect_eq(heard.uid, 2);
    cr_expect_eq(heard.kind, QUOTA_REQUESTS);
    cr_expect_eq(heard.error, -EUSERS);
    quota_rearm(&quota);
    cr_expect_eq(heard.n, 1);
    for (int i = 0; i < 10; i++)
        quota_take(&quota, &a, QUOTA_REQUESTS, 1);
    cr_expect_eq(heard.n, 2);
    cr_expect_eq(heard.uid, 1);
    cr_expect_eq(heard.error, -EDQUOT);
}

#define LIMIT     7u
#define LIMIT_UID 4u

struct taker {
    pthread_t thread;
    struct quota_share *share;
    unsigned seed;
    bool right;
};

static void *take_and_give(void *arg)
{
    struct taker *taker = arg;

    taker->right = true;
    for (int i = 0; i < 20000; i++) {
        uint64_t n = 1 + (uint64_t)rand_r(&taker->seed) % 3;
        if (quota_take(&quota, taker->share, QUOTA_MEMORY, n) < 0)
            continue;
        if (atomic_load(&quota.n[QUOTA_MEMORY]) > LIMIT ||
            atomic_load(&taker->share->n[QUOTA_MEMORY]) > LIMIT_UID)
            taker->right = false;
        quota_give(&quota, taker->share, QUOTA_MEMORY, n);
    }
    return NULL;
}

Test(quota, threads_never_pass_a_limit)
{
    struct taker takers[4];

    quota_set_limit(&quota, QUOTA_MEMORY, LIMIT, LIMIT_UID);
    for (unsigned i = 0; i < 4; i++) {
        takers[i] = (struct taker){.share = i % 2 ? &a : &b, .seed = i};
        cr_assert_eq(pthread_create(&takers[i].thread, NULL, take_and_give, &takers[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(takers[i].thread, NULL);
        cr_expect(takers[i].right);
    }
    cr_expect_eq(atomic_load(&quota.n[QUOTA_MEMORY]), 0);
    cr_expect_eq(atomic_load(&a.n[QUOTA_MEMORY]), 0);
    cr_expect_eq(atomic_load(&b.n[QUOTA_MEMORY]), 0);
}
