// SPDX-License-Identifier: MIT
// The engine's figures are as old as its last answer.
#include "usage.h"

#include <errno.h>
#include <stdlib.h>

#include "front.h"

static uint64_t shown(uint64_t limit)
{
    return limit == UINT64_MAX ? 0 : limit;
}

static void fill_counted(const struct account *account, enum account_kind kind,
                         enum message_limit limit, struct message_limits *ret)
{
    const struct account_limit *of = account_get_limit(account, kind);

    ret->in_all[limit] = shown(of->in_all);
    ret->per_uid[limit] = shown(of->per_uid);
    ret->used[limit] = account_count(account, kind);
    ret->refused[limit] = account_count_refused(account, kind);
}

static void fill_engine(const struct front *front, struct message_limits *ret)
{
    const struct message_role_config *config = &front->config;
    const struct message_engine_summary *summary = &front->report.summary;

    ret->in_all[MESSAGE_LIMIT_LOCKED_MEMORY] = config->locked_memory_max;
    ret->per_uid[MESSAGE_LIMIT_LOCKED_MEMORY] = config->locked_memory_per_uid;
    ret->used[MESSAGE_LIMIT_LOCKED_MEMORY] = summary->locked_memory;
    ret->refused[MESSAGE_LIMIT_LOCKED_MEMORY] = summary->locked_memory_refused;
    ret->in_all[MESSAGE_LIMIT_REQUESTS] = config->requests_max;
    ret->per_uid[MESSAGE_LIMIT_REQUESTS] = config->requests_per_uid;
    ret->used[MESSAGE_LIMIT_REQUESTS] = summary->requests;
    ret->refused[MESSAGE_LIMIT_REQUESTS] = summary->requests_refused;
}

void usage_fill_limits(const struct front *front, uint64_t now_ns, struct message_limits *ret)
{
    const struct account *account = front->account;

    *ret = (struct message_limits){.in_all = {0}};
    fill_counted(account, ACCOUNT_CHANNELS, MESSAGE_LIMIT_CHANNELS, ret);
    fill_counted(account, ACCOUNT_STREAMS, MESSAGE_LIMIT_STREAMS, ret);
    fill_counted(account, ACCOUNT_SHARED_MEMORY, MESSAGE_LIMIT_SHARED_MEMORY, ret);
    fill_engine(front, ret);
    ret->in_all[MESSAGE_LIMIT_CONNECTS] = front->rate.in_all;
    ret->per_uid[MESSAGE_LIMIT_CONNECTS] = front->rate.per_uid;
    ret->used[MESSAGE_LIMIT_CONNECTS] = rate_used(&front->rate, now_ns);
    ret->refused[MESSAGE_LIMIT_CONNECTS] = front->rate.refused;
}

static int compare_uids(const void *a, const void *b)
{
    const uint32_t uid_a = *(const uint32_t *)a, uid_b = *(const uint32_t *)b;

    return (uid_a > uid_b) - (uid_a < uid_b);
}

static void fill_user(const struct front *front, uint64_t now_ns, struct message_status_user *ret)
{
    const struct account *account = front->account;
    const uint32_t uid = ret->uid;

    ret->used[MESSAGE_LIMIT_CHANNELS] = account_count_uid(account, uid, ACCOUNT_CHANNELS);
    ret->used[MESSAGE_LIMIT_STREAMS] = account_count_uid(account, uid, ACCOUNT_STREAMS);
    ret->used[MESSAGE_LIMIT_SHARED_MEMORY] = account_count_uid(account, uid, ACCOUNT_SHARED_MEMORY);
    ret->used[MESSAGE_LIMIT_CONNECTS] = rate_used_uid(&front->rate, uid, now_ns);
}

static void add_engine_use(const struct front *front, const uint32_t *uids, size_t n_users,
                           struct message_status_user *users)
{
    const struct client *client = NULL;

    LIST_FOREACH(client, &front->clients, link)
    {
        const uint32_t *uid =
            bsearch(&client->peer.uid, uids, n_users, sizeof(*uids), compare_uids);
        if (uid == NULL)
            continue; // it was refused before it had an account
        users[uid - uids].used[MESSAGE_LIMIT_LOCKED_MEMORY] += client->usage.locked_memory;
        users[uid - uids].used[MESSAGE_LIMIT_REQUESTS] += client->usage.requests;
    }
}

int usage_list_users(const struct front *front, uint64_t now_ns, struct message_status_user **ret,
                     uint32_t *ret_n)
{
    size_t n = account_count_users(front->account);
    uint32_t *uids = calloc(n + 1, sizeof(*uids));
    struct message_status_user *users = calloc(n + 1, sizeof(*users));

    if (uids == NULL || users == NULL) {
        free(uids);
        free(users);
        return -ENOMEM;
    }
    n = account_list_users(front->account, uids, n);
    qsort(uids, n, sizeof(*uids), compare_uids);
    for (size_t i = 0; i < n; i++) {
        users[i].uid = uids[i];
        fill_user(front, now_ns, &users[i]);
    }
    add_engine_use(front, uids, n, users);
    free(uids);
    *ret = users;
    *ret_n = (uint32_t)n;
    return 0;
}
