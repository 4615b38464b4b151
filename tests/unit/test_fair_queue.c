// SPDX-License-Identifier: MIT
// The fair queue: turns by uid, order within one, counts, threads.
#include "fair_queue.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

TestSuite(fair_queue, .timeout = 60);

struct thing {
    struct fair_item item;
    uint32_t uid;
    uint32_t number;
};

static struct thing *pop(struct fair_queue *queue)
{
    uint32_t n_left;

    return (struct thing *)(void *)fair_queue_pop(queue, &n_left);
}

static void push_many(struct fair_queue *queue, struct fair_user *user, struct thing *things,
                      uint32_t n, uint32_t uid)
{
    for (uint32_t i = 0; i < n; i++) {
        things[i] = (struct thing){.uid = uid, .number = i};
        fair_queue_push(queue, user, &things[i].item);
    }
}

Test(fair_queue, gives_nothing_when_empty)
{
    struct fair_queue *queue = NULL;

    cr_assert_eq(fair_queue_new(&queue), 0);
    cr_expect_null(pop(queue));
    cr_expect_eq(fair_queue_count(queue), 0);
    fair_queue_free(queue);
    fair_queue_free(NULL);
}

Test(fair_queue, keeps_the_order_of_one_user)
{
    struct fair_queue *queue = NULL;
    struct fair_user *user = NULL;
    struct thing things[10];

    cr_assert_eq(fair_queue_new(&queue), 0);
    cr_assert_eq(fair_queue_get_user(queue, 5, &user), 0);
    push_many(queue, user, things, 10, 5);
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t n_left = 99;
        struct fair_item *item = fair_queue_pop(queue, &n_left);

        cr_assert_eq(item, &things[i].item);
        cr_expect_eq(n_left, 9 - i);
        cr_expect_eq(fair_queue_count(queue), 9 - i);
    }
    cr_expect_null(pop(queue));
    fair_queue_put_user(queue, user);
    fair_queue_free(queue);
}

Test(fair_queue, takes_turns_between_users)
{
    struct fair_queue *queue = NULL;
    struct fair_user *many = NULL, *few = NULL, *one = NULL;
    struct thing of_many[6], of_few[2], of_one[1];
    static const uint32_t expected[] = {1, 2, 3, 1, 2, 1, 1, 1, 1};

    cr_assert_eq(fair_queue_new(&queue), 0);
    cr_assert_eq(fair_queue_get_user(queue, 1, &many), 0);
    cr_assert_eq(fair_queue_get_user(queue, 2, &few), 0);
    cr_assert_eq(fair_queue_get_user(queue, 3, &one), 0);
    push_many(queue, many, of_many, 6, 1);
    push_many(queue, few, of_few, 2, 2);
    push_many(queue, one, of_one, 1, 3);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        struct thing *thing = pop(queue);

        cr_assert_not_null(thing);
        cr_expect_eq(thing->uid, expected[i], "turn %zu", i);
    }
    cr_expect_null(pop(queue));
    fair_queue_put_user(queue, many);
    fair_queue_put_user(queue, few);
    fair_queue_put_user(queue, one);
    fair_queue_free(queue);
}

// A user who always has more to do must not keep one out that comes later.
Test(fair_queue, lets_a_newcomer_in_at_the_next_turn)
{
    struct fair_queue *queue = NULL;
    struct fair_user *busy = NULL, *late = NULL;
    struct thing of_busy[100], of_late[1];

    cr_assert_eq(fair_queue_new(&queue), 0);
    cr_assert_eq(fair_queue_get_user(queue, 1, &busy), 0);
    cr_assert_eq(fair_queue_get_user(queue, 2, &late), 0);
    push_many(queue, busy, of_busy, 100, 1);
    for (int i = 0; i < 10; i++)
        cr_expect_eq(pop(queue)->uid, 1);
    push_many(queue, late, of_late, 1, 2);
    cr_expect_eq(pop(queue)->uid, 2);
    cr_expect_eq(pop(queue)->uid, 1);
    while (pop(queue))
        continue;
    fair_queue_put_user(queue, busy);
    fair_queue_put_user(queue, late);
    fair_queue_free(queue);
}

// One item at a time, which comes back while somebody else's is done: each second turn.
Test(fair_queue, gives_each_second_turn_to_one_who_comes_back)
{
    struct fair_queue *queue = NULL;
    struct fair_user *busy = NULL, *single = NULL;
    struct thing of_busy[100], of_single[1];
    unsigned n_single = 0;

    cr_assert_eq(fair_queue_new(&queue), 0);
    cr_assert_eq(fair_queue_get_user(queue, 1, &busy), 0);
    cr_assert_eq(fair_queue_get_user(queue, 2, &single), 0);
    push_many(queue, busy, of_busy, 100, 1);
    for (int i = 0; i < 50; i++) {
        // What is popped now runs while the single item, if it is not in the queue, comes back.
        bool is_single = pop(queue)->uid == 2;
        n_single += is_single;
        if (!is_single)
            push_many(queue, single, of_single, 1, 2);
    }
    cr_expect_eq(n_single, 25);
    while (pop(queue))
        continue;
    fair_queue_put_user(queue, busy);
    fair_queue_put_user(queue, single);
    fair_queue_free(queue);
}

// Work and not items: 60 KiB and what each costs besides, against a quarter of it.
Test(fair_queue, weighs_items_by_their_bytes)
{
    struct fair_queue *queue = NULL;
    struct fair_user *large = NULL, *small = NULL;
    struct thing of_large[40], of_small[100];
    unsigned n_large = 0, n_small = 0;

    cr_assert_eq(fair_queue_new(&queue), 0);
    cr_assert_eq(fair_queue_get_user(queue, 1, &large), 0);
    cr_assert_eq(fair_queue_get_user(queue, 2, &small), 0);
    for (uint32_t i = 0; i < 40; i++) {
        of_large[i] = (struct thing){.item.n_bytes = 60 << 10, .uid = 1};
        fair_queue_push(queue, large, &of_large[i].item);
    }
    for (uint32_t i = 0; i < 100; i++) {
        of_small[i] = (struct thing){.item.n_bytes = 12 << 10, .uid = 2};
        fair_queue_push(queue, small, &of_small[i].item);
    }
    while (n_small < 100)
        *(pop(queue)->uid == 1 ? &n_large : &n_small) += 1;
    cr_expect_geq(n_large, 24);
    cr_expect_leq(n_large, 26);
    while (pop(queue))
        continue;
    fair_queue_put_user(queue, large);
    fair_queue_put_user(queue, small);
    fair_queue_free(queue);
}

// Who was away for long has not saved up turns.
Test(fair_queue, idleness_is_not_saved)
{
    struct fair_queue *queue = NULL;
    struct fair_user *busy = NULL, *idle = NULL;
    struct thing of_busy[200], of_idle[50];
    unsigned n_idle = 0;

    cr_assert_eq(fair_queue_new(&queue), 0);
    cr_assert_eq(fair_queue_get_user(queue, 1, &busy), 0);
    cr_assert_eq(fair_queue_get_user(queue, 2, &idle), 0);
    push_many(queue, busy, of_busy, 200, 1);
    for (int i = 0; i < 100; i++)
        cr_expect_eq(pop(queue)->uid, 1);
    push_many(queue, idle, of_idle, 50, 2);
    for (int i = 0; i < 40; i++)
        n_idle += pop(queue)->uid == 2;
    cr_expect_geq(n_idle, 20);
    cr_expect_leq(n_idle, 21);
    while (pop(queue))
        continue;
    fair_queue_put_user(queue, busy);
    fair_queue_put_user(queue, idle);
    fair_queue_free(queue);
}

Test(fair_queue, counts_those_who_share_a_user)
{
    struct fair_queue *queue = NULL;
    struct fair_user *first = NULL, *second = NULL;
    struct thing things[2];

    cr_assert_eq(fair_queue_new(&queue), 0);
    cr_assert_eq(fair_queue_get_user(queue, 1, &first), 0);
    cr_assert_eq(fair_queue_get_user(queue, 1, &second), 0);
    cr_expect_eq(first, second);
    fair_queue_put_user(queue, first);
    push_many(queue, second, things, 2, 1);
    cr_expect_eq(pop(queue), &things[0]);
    cr_expect_eq(pop(queue), &things[1]);
    fair_queue_put_user(queue, second);
    fair_queue_free(queue);
}

#define N_PUSHERS 3
#define N_EACH    20000

struct stress {
    struct fair_queue *queue;
    _Atomic uint32_t n_popped;
    _Atomic bool disorder;
};

struct pusher {
    struct stress *stress;
    struct fair_user *user;
    struct thing *things;
    uint32_t uid;
};

static void *run_pusher(void *arg)
{
    struct pusher *pusher = arg;

    push_many(pusher->stress->queue, pusher->user, pusher->things, N_EACH, pusher->uid);
    return NULL;
}

static void *run_popper(void *arg)
{
    struct stress *stress = arg;
    int64_t last[N_PUSHERS] = {-1, -1, -1};

    while (atomic_load(&stress->n_popped) < N_PUSHERS * N_EACH) {
        struct thing *thing = pop(stress->queue);

        if (!thing)
            continue;
        // What one thread pops of a user, it pops in order.
        if ((int64_t)thing->number <= last[thing->uid])
            atomic_store(&stress->disorder, true);
        last[thing->uid] = thing->number;
        atomic_fetch_add(&stress->n_popped, 1);
    }
    return NULL;
}

Test(fair_queue, loses_nothing_between_threads)
{
    struct stress stress = {0};
    struct pusher pushers[N_PUSHERS];
    pthread_t push_threads[N_PUSHERS], pop_threads[2];

    cr_assert_eq(fair_queue_new(&stress.queue), 0);
    for (uint32_t i = 0; i < N_PUSHERS; i++) {
        pushers[i] = (struct pusher){
            .stress = &stress, .uid = i, .things = calloc(N_EACH, sizeof(struct thing))};
        cr_assert_not_null(pushers[i].things);
        cr_assert_eq(fair_queue_get_user(stress.queue, i, &pushers[i].user), 0);
        cr_assert_eq(pthread_create(&push_threads[i], NULL, run_pusher, &pushers[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&pop_threads[i], NULL, run_popper, &stress), 0);
    for (uint32_t i = 0; i < N_PUSHERS; i++)
        pthread_join(push_threads[i], NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(pop_threads[i], NULL);
    cr_expect_eq(stress.n_popped, N_PUSHERS * N_EACH);
    cr_expect_not(stress.disorder);
    cr_expect_eq(fair_queue_count(stress.queue), 0);
    for (uint32_t i = 0; i < N_PUSHERS; i++) {
        fair_queue_put_user(stress.queue, pushers[i].user);
        free(pushers[i].things);
    }
    fair_queue_free(stress.queue);
}
