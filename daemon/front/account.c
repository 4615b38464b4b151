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
    uint32_t n[ACCOUNT_KIND_COUNT];
};

LIST_HEAD(user_list, account_user);

struct account {
    struct account_limit limit[ACCOUNT_KIND_COUNT];
    uint32_t n[ACCOUNT_KIND_COUNT];
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

static void charge_move(struct account_charge *charge, enum account_kind kind, int32_t by)
{
    // Unsigned arithmetic modulo 2^32: a negative `by` subtracts.
    charge->n[kind] += (uint32_t)by;
    charge->user->n[kind] += (uint32_t)by;
    charge->account->n[kind] += (uint32_t)by;
}

int account_charge_add(struct account_charge *charge, enum account_kind kind)
{
    const struct account *account = charge->account;
    const struct account_limit *limit = &account->limit[kind];
    bool privileged = charge->user->uid == 0 && limit->for_root > 0;
    uint32_t in_all = limit->in_all;

    if (!privileged) {
        if (charge->user->n[kind] >= limit->per_uid)
            return -EDQUOT;
        in_all = limit->for_root < in_all ? in_all - limit->for_root : 0;
    }
    if (account->n[kind] >= in_all)
        return -EUSERS;
    charge_move(charge, kind, 1);
    return 0;
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
        charge_move(charge, kind, -(int32_t)charge->n[kind]);
    if (--user->n_charges == 0) {
        LIST_REMOVE(user, link);
        free(user);
    }
    *charge = (struct account_charge){0};
}

uint32_t account_count(const struct account *account, enum account_kind kind)
{
    return account->n[kind];
}

uint32_t account_count_uid(const struct account *account, uint32_t uid, enum account_kind kind)
{
    const struct account_user *user = user_find(account, uid);
    return user != NULL ? user->n[kind] : 0;
}

size_t account_count_users(const struct account *account)
{
    const struct account_user *user = NULL;
    size_t n = 0;
    LIST_FOREACH(user, &account->users, link)
    n++;
    return n;
}
