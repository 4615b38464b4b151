// SPDX-License-Identifier: MIT
// Guarantees: uids that have items all the time get the same amount of work done, to an item; items
// of one uid keep their order. Must not know channels or requests.
//
// Start-time fair queueing: what a uid has been given moves its place in the line back by that
// much, and the one with the least is next. One that comes with nothing waiting begins where the
// queue is now: it has not saved anything up, but goes before all who have had more since. So a uid
// with one request at a time, which comes back while somebody else's is done, gets each second
// turn; behind everybody in the line it would get each third.
#include "fair_queue.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

// What an item costs besides its bytes, so that many small ones are no gain.
#define ITEM_BYTES 4096u

struct fair_user {
    struct fair_user *next;      // in the list of all
    struct fair_user *next_turn; // in the line of those that have items, the least `given` first
    struct fair_item *first;
    struct fair_item *last;
    uint64_t given;
    uint32_t uid;
    uint32_t n_refs;
    struct quota_share share;
};

struct fair_queue {
    pthread_mutex_t mutex;
    struct fair_user *users;
    struct fair_user *line; // whose turn it is
    uint64_t given;         // what the last one in turn had been given before
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
    struct fair_user **link = &queue->line;

    while (*link && (*link)->given <= user->given)
        link = &(*link)->next_turn;
    user->next_turn = *link;
    *link = user;
}

void fair_queue_push(struct fair_queue *queue, struct fair_user *user, struct fair_item *item)
{
    item->next = NULL;
    pthread_mutex_lock(&queue->mutex);
    if (user->first) {
        user->last->next = item;
    } else {
        user->first = item;
        if (user->given < queue->given)
            user->given = queue->given;
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
        queue->given = user->given;
        user->given += (uint64_t)item->n_bytes + ITEM_BYTES;
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
