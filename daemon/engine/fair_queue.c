// SPDX-License-Identifier: MIT
// Guarantees: between two items of one uid each other uid that has items gets a turn; items of one
// uid keep their order. Must not know channels or requests.
#include "fair_queue.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct fair_user {
    struct fair_user *next;      // in the list of all
    struct fair_user *next_turn; // in the line of those that have items
    struct fair_item *first;
    struct fair_item *last;
    uint32_t uid;
    uint32_t n_refs;
    struct quota_share share;
};

struct fair_queue {
    pthread_mutex_t mutex;
    struct fair_user *users;
    struct fair_user *line; // whose turn it is
    struct fair_user *line_end;
    _Atomic uint32_t count;
    struct quota quota;
};

int fair_queue_new(struct fair_queue **ret)
{
    struct fair_queue *queue = calloc(1, sizeof(*queue));
    int r;

    if (!queue)
        return -ENOMEM;
    r = -pthread_mutex_init(&queue->mutex, NULL);
    if (r < 0) {
        free(queue);
        return r;
    }
    quota_init(&queue->quota);
    *ret = queue;
    return 0;
}

void fair_queue_free(struct fair_queue *queue)
{
    if (!queue)
        return;
    assert(!queue->users && atomic_load(&queue->count) == 0);
    pthread_mutex_destroy(&queue->mutex);
    free(queue);
}

static struct fair_user *find_user(struct fair_queue *queue, uint32_t uid)
{
    for (struct fair_user *user = queue->users; user; user = user->next)
        if (user->uid == uid)
            return user;
    return NULL;
}

int fair_queue_get_user(struct fair_queue *queue, uint32_t uid, struct fair_user **ret)
{
    struct fair_user *user;

    pthread_mutex_lock(&queue->mutex);
    user = find_user(queue, uid);
    if (!user) {
        user = calloc(1, sizeof(*user));
        if (user) {
            user->uid = uid;
            user->share.uid = uid;
            user->next = queue->users;
            queue->users = user;
        }
    }
    if (user)
        user->n_refs++;
    pthread_mutex_unlock(&queue->mutex);
    if (!user)
        return -ENOMEM;
    *ret = user;
    return 0;
}

void fair_queue_put_user(struct fair_queue *queue, struct fair_user *user)
{
    struct fair_user **link;

    pthread_mutex_lock(&queue->mutex);
    if (--user->n_refs > 0) {
        pthread_mutex_unlock(&queue->mutex);
        return;
    }
    assert(!user->first);
    link = &queue->users;
    while (*link != user)
        link = &(*link)->next;
    *link = user->next;
    pthread_mutex_unlock(&queue->mutex);
    free(user);
}

static void line_up(struct fair_queue *queue, struct fair_user *user)
{
    user->next_turn = NULL;
    if (queue->line)
        queue->line_end->next_turn = user;
    else
        queue->line = user;
    queue->line_end = user;
}

void fair_queue_push(struct fair_queue *queue, struct fair_user *user, struct fair_item *item)
{
    item->next = NULL;
    pthread_mutex_lock(&queue->mutex);
    if (user->first) {
        user->last->next = item;
    } else {
        user->first = item;
        line_up(queue, user);
    }
    user->last = item;
    atomic_fetch_add(&queue->count, 1);
    pthread_mutex_unlock(&queue->mutex);
}

struct fair_item *fair_queue_pop(struct fair_queue *queue, uint32_t *ret_left)
{
    struct fair_item *item = NULL;
    struct fair_user *user;

    // Most looks find nothing: they must not contend.
    if (fair_queue_count(queue) == 0)
        return NULL;
    pthread_mutex_lock(&queue->mutex);
    user = queue->line;
    if (user) {
        queue->line = user->next_turn;
        item = user->first;
        user->first = item->next;
        if (user->first)
            line_up(queue, user);
        *ret_left = atomic_fetch_sub(&queue->count, 1) - 1;
    }
    pthread_mutex_unlock(&queue->mutex);
    return item;
}

uint32_t fair_queue_count(struct fair_queue *queue)
{
    return atomic_load(&queue->count);
}

struct quota *fair_queue_quota(struct fair_queue *queue)
{
    return &queue->quota;
}

struct quota_share *fair_user_share(struct fair_user *user)
{
    return &user->share;
}
