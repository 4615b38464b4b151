// SPDX-License-Identifier: MIT
// The counts are kept twice, per user and in all, and change only in charge_move(), so they cannot
// drift apart.
#include "account.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/queue.h>

struct account_user {
    LIST_ENTRY(account_user) link;
    uint32_t uid;
    uint32_t n_charges; // the user goes with its last charge
    uint64_t n[ACCOUNT_KIND_COUNT];
};

LIST_HEAD(user_list, account_user);

struct account {
    struct account_limit limit[ACCOUNT_KIND_COUNT];
    uint64_t n[ACCOUNT_KIND_COUNT];
    uint64_t n_refused[ACCOUNT_KIND_COUNT];
    struct user_list users;
};

int account_new(struct account **ret)
{
    struct account *account = calloc(1, sizeof(*account));
    if (account == NULL)
        return -ENOMEM;
    LIST_INIT(&account->users);
    *ret = account;
    return 0;
}

void account_free(struct account *account)
{
    if (account == NULL)
        return;
    assert(LIST_EMPTY(&account->users));
    free(account);
}

void account_set_limit(struct account *account, enum account_kind kind,
                       const struct account_limit *limit)
{
    account->limit[kind] = *limit;
}

const struct account_limit *account_get_limit(const struct account *account, enum account_kind kind)
{
    return &account->limit[kind];
}

static struct account_user *user_find(const struct account *account, uint32_t uid)
{
    struct account_user *user = NULL;
    LIST_FOREACH(user, &account->users, link)
    {
        if (user->uid == uid)
            return user;
    }
    return NULL;
}

int account_charge_init(struct account *account, uint32_t uid, struct account_charge *ret)
{
    struct account_user *user = user_find(account, uid);
    if (user == NULL) {
        user = calloc(1, sizeof(*user));
        if (user == NULL)
            return -ENOMEM;
        user->uid = uid;
        LIST_INSERT_HEAD(&account->users, user, link);
    }
    user->n_charges++;
    *ret = (struct account_charge){.account = account, .user = user};
    return 0;
}

static void charge_move(struct account_charge *charge, enum account_kind kind, int64_t by)
{
    // Unsigned arithmetic modulo 2^64: a negative `by` subtracts.
    charge->n[kind] += (uint64_t)by;
    charge->user->n[kind] += (uint64_t)by;
    charge->account->n[kind] += (uint64_t)by;
}

static bool is_over(uint64_t used, uint64_t more, uint64_t limit)
{
    return used > limit || more > limit - used;
}

static int charge_check(const struct account_charge *charge, enum account_kind kind, uint64_t n)
{
    const struct account *account = charge->account;
    const struct account_limit *limit = &account->limit[kind];
    bool privileged = charge->user->uid == 0 && limit->for_root > 0;
    uint64_t in_all = limit->in_all;

    if (!privileged) {
        if (is_over(charge->user->n[kind], n, limit->per_uid))
            return -EDQUOT;
        in_all = limit->for_root < in_all ? in_all - limit->for_root : 0;
    }
    return is_over(account->n[kind], n, in_all) ? -EUSERS : 0;
}

int account_charge_add_many(struct account_charge *charge, enum account_kind kind, uint64_t n)
{
    int r = charge_check(charge, kind, n);

    if (r < 0)
        charge->account->n_refused[kind]++;
    else
        charge_move(charge, kind, (int64_t)n);
    return r;
}

int account_charge_add(struct account_charge *charge, enum account_kind kind)
{
    return account_charge_add_many(charge, kind, 1);
}

const char *account_limit_name(enum account_kind kind, int error)
{
    static const char *const names[ACCOUNT_KIND_COUNT][2] = {
        [ACCOUNT_CONNECTIONS] = {"connections without a channel in all",
                                 "connections without a channel of one user"},
        [ACCOUNT_CHANNELS] = {"channels_max", "channels_per_uid"},
        [ACCOUNT_STREAMS] = {"streams_max", "streams_per_uid"},
        [ACCOUNT_SHARED_MEMORY] = {"shared_memory_max", "shared_memory_per_uid"},
    };

    return names[kind][error == -EDQUOT];
}

void account_charge_sub(struct account_charge *charge, enum account_kind kind)
{
    assert(charge->n[kind] > 0);
    charge_move(charge, kind, -1);
}

void account_charge_fini(struct account_charge *charge)
{
    struct account_user *user = charge->user;
    if (user == NULL)
        return;
    for (unsigned kind = 0; kind < ACCOUNT_KIND_COUNT; kind++)
        charge_move(charge, kind, -(int64_t)charge->n[kind]);
    if (--user->n_charges == 0) {
        LIST_REMOVE(user, link);
        free(user);
    }
    *charge = (struct account_charge){0};
}

uint64_t account_count(const struct account *account, enum account_kind kind)
{
    return account->n[kind];
}

uint64_t account_count_uid(const struct account *account, uint32_t uid, enum account_kind kind)
{
    const struct account_user *user = user_find(account, uid);
    return user != NULL ? user->n[kind] : 0;
}

uint64_t account_count_refused(const struct account *account, enum account_kind kind)
{
    return account->n_refused[kind];
}

size_t account_count_users(const struct account *account)
{
    const struct account_user *user = NULL;
    size_t n = 0;
    LIST_FOREACH(user, &account->users, link)
    n++;
    return n;
}

size_t account_list_users(const struct account *account, uint32_t *ret_uids, size_t n_max)
{
    const struct account_user *user = NULL;
    size_t n = 0;
    LIST_FOREACH(user, &account->users, link)
    {
        if (n < n_max)
            ret_uids[n++] = user->uid;
    }
    return n;
}
