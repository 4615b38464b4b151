// SPDX-License-Identifier: MIT
// The queue in front of the engine's workers: uids take turns, whatever the number of their
// channels, and who has had less work done is next; and what each uid has of the engine (quota.h).
// Items are embedded in their owners, so nothing is allocated for a request. Knows nothing of what
// an item is. Thread-safe.
#ifndef CRYPTOD_DAEMON_FAIR_QUEUE_H
#define CRYPTOD_DAEMON_FAIR_QUEUE_H

#include <stdint.h>

#include "quota.h"

struct fair_queue;
struct fair_user; // a uid's place in the line; counted by those who got it

struct fair_item {
    struct fair_item *next; // the queue's
    uint32_t n_bytes;       // how much work it is; the caller's, before it is pushed
};

// 0 or a negative errno.
int fair_queue_new(struct fair_queue **ret);

// Everything must have been popped and every user put back. NULL is allowed.
void fair_queue_free(struct fair_queue *queue);

// The uid's place, made if there is none. 0 or -ENOMEM. To be given back with fair_queue_put_user()
// when none of its items is in the queue any more.
int fair_queue_get_user(struct fair_queue *queue, uint32_t uid, struct fair_user **ret);
void fair_queue_put_user(struct fair_queue *queue, struct fair_user *user);

// Appends the item to those of its user. It stays in the queue's hands until it is popped.
void fair_queue_push(struct fair_queue *queue, struct fair_user *user, struct fair_item *item);

// The first item of the user whose turn it is, or NULL; *ret_left (if there was one): items that
// are left.
struct fair_item *fair_queue_pop(struct fair_queue *queue, uint32_t *ret_left);

// Items waiting. Sequentially consistent with push: who announces that it sleeps and then reads 0
// here will be seen by whoever pushes later.
uint32_t fair_queue_count(struct fair_queue *queue);

// The quota of all, without limits at first, and a user's share of it.
struct quota *fair_queue_quota(struct fair_queue *queue);
struct quota_share *fair_user_share(struct fair_user *user);

#endif
