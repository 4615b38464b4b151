// SPDX-License-Identifier: MIT
// Accounting: limits per uid and in all, and that every charge undoes itself.
#include "account.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

static struct account *account;

static void account_setup(void)
{
    const struct account_limit limit = {.in_all = 5, .per_uid = 3};
    const struct account_limit with_root = {.in_all = 5, .per_uid = 2, .for_root = 2};

    cr_assert_eq(account_new(&account), 0);
    account_set_limit(account, ACCOUNT_CHANNELS, &limit);
    account_set_limit(account, ACCOUNT_STREAMS, &limit);
    account_set_limit(account, ACCOUNT_CONNECTIONS, &with_root);
}

static void account_teardown(void)
{
    cr_assert_eq(account_count_users(account), 0);
    for (unsigned kind = 0; kind < ACCOUNT_KIND_COUNT; kind++)
        cr_assert_eq(account_count(account, kind), 0);
    account_free(account);
}

TestSuite(account, .init = account_setup, .fini = account_teardown);

static void charge_init(struct account_charge *charge, uint32_t uid)
{
    cr_assert_eq(account_charge_init(account, uid, charge), 0);
}

Test(account, limit_per_uid)
{
    struct account_charge a, b;

    charge_init(&a, 7);
    charge_init(&b, 7); // a second client of the same user
    cr_assert_eq(account_charge_add(&a, ACCOUNT_CHANNELS), 0);
    cr_assert_eq(account_charge_add(&a, ACCOUNT_CHANNELS), 0);
    cr_assert_eq(account_charge_add(&b, ACCOUNT_CHANNELS), 0);
    cr_assert_eq(account_charge_add(&b, ACCOUNT_CHANNELS), -EDQUOT);
    cr_assert_eq(account_charge_add(&b, ACCOUNT_STREAMS), 0, "kinds are counted apart");
    cr_assert_eq(account_count_uid(account, 7, ACCOUNT_CHANNELS), 3);
    cr_assert_eq(account_count_users(account), 1);
    account_charge_fini(&a);
    cr_assert_eq(account_count_uid(account, 7, ACCOUNT_CHANNELS), 1);
    cr_assert_eq(account_charge_add(&b, ACCOUNT_CHANNELS), 0);
    account_charge_fini(&b);
}

Test(account, limit_in_all)
{
    struct account_charge a, b, c;

    charge_init(&a, 7);
    charge_init(&b, 8);
    charge_init(&c, 9);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(account_charge_add(&a, ACCOUNT_CHANNELS), 0);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(account_charge_add(&b, ACCOUNT_CHANNELS), 0);
    cr_assert_eq(account_charge_add(&b, ACCOUNT_CHANNELS), -EUSERS);
    cr_assert_eq(account_charge_add(&c, ACCOUNT_CHANNELS), -EUSERS);
    cr_assert_eq(account_count(account, ACCOUNT_CHANNELS), 5);
    account_charge_fini(&a);
    cr_assert_eq(account_charge_add(&c, ACCOUNT_CHANNELS), 0);
    account_charge_fini(&c);
    account_charge_fini(&b);
}

Test(account, root_has_room_of_its_own)
{
    struct account_charge root, a, b;

    charge_init(&root, 0);
    charge_init(&a, 7);
    charge_init(&b, 8);
    cr_assert_eq(account_charge_add(&a, ACCOUNT_CONNECTIONS), 0);
    cr_assert_eq(account_charge_add(&a, ACCOUNT_CONNECTIONS), 0);
    cr_assert_eq(account_charge_add(&a, ACCOUNT_CONNECTIONS), -EDQUOT);
    cr_assert_eq(account_charge_add(&b, ACCOUNT_CONNECTIONS), 0);
    cr_assert_eq(account_charge_add(&b, ACCOUNT_CONNECTIONS), -EUSERS, "the rest is root's");
    cr_assert_eq(account_charge_add(&root, ACCOUNT_CONNECTIONS), 0);
    cr_assert_eq(account_charge_add(&root, ACCOUNT_CONNECTIONS), 0);
    cr_assert_eq(account_charge_add(&root, ACCOUNT_CONNECTIONS), -EUSERS);
    account_charge_fini(&a);
    account_charge_fini(&b);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(account_charge_add(&root, ACCOUNT_CONNECTIONS), 0, "no limit per uid");
    cr_assert_eq(account_charge_add(&root, ACCOUNT_CONNECTIONS), -EUSERS);
    account_charge_fini(&root);
}

Test(account, root_is_like_others_without_room_of_its_own)
{
    struct account_charge root;

    charge_init(&root, 0);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(account_charge_add(&root, ACCOUNT_CHANNELS), 0);
    cr_assert_eq(account_charge_add(&root, ACCOUNT_CHANNELS), -EDQUOT);
    account_charge_fini(&root);
}

Test(account, refusal_changes_nothing)
{
    struct account_charge a;
    const struct account_limit none = {0};

    account_set_limit(account, ACCOUNT_CHANNELS, &none);
    charge_init(&a, 7);
    cr_assert_eq(account_charge_add(&a, ACCOUNT_CHANNELS), -EDQUOT);
    cr_assert_eq(a.n[ACCOUNT_CHANNELS], 0);
    cr_assert_eq(account_count(account, ACCOUNT_CHANNELS), 0);
    account_charge_fini(&a);
}

Test(account, lowered_limit_keeps_what_is_there)
{
    struct account_charge a;
    const struct account_limit low = {.in_all = 1, .per_uid = 1};

    charge_init(&a, 7);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(account_charge_add(&a, ACCOUNT_CHANNELS), 0);
    account_set_limit(account, ACCOUNT_CHANNELS, &low);
    cr_assert_eq(account_count(account, ACCOUNT_CHANNELS), 3);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(account_charge_add(&a, ACCOUNT_CHANNELS), -EDQUOT);
        account_charge_sub(&a, ACCOUNT_CHANNELS);
    }
    cr_assert_eq(account_charge_add(&a, ACCOUNT_CHANNELS), 0);
    account_charge_fini(&a);
}

// Limits smaller than root's share must not wrap around.
Test(account, share_of_root_larger_than_all)
{
    const struct account_limit odd = {.in_all = 1, .per_uid = 9, .for_root = 2};
    struct account_charge a, root;

    account_set_limit(account, ACCOUNT_STREAMS, &odd);
    charge_init(&a, 7);
    charge_init(&root, 0);
    cr_assert_eq(account_charge_add(&a, ACCOUNT_STREAMS), -EUSERS);
    cr_assert_eq(account_charge_add(&root, ACCOUNT_STREAMS), 0);
    cr_assert_eq(account_charge_add(&root, ACCOUNT_STREAMS), -EUSERS);
    account_charge_fini(&a);
    account_charge_fini(&root);
}

Test(account, fini_twice_and_of_nothing)
{
    struct account_charge a, nothing = {0};

    account_charge_fini(&nothing);
    charge_init(&a, 7);
    cr_assert_eq(account_charge_add(&a, ACCOUNT_STREAMS), 0);
    account_charge_fini(&a);
    account_charge_fini(&a);
    cr_assert_eq(account_count(account, ACCOUNT_STREAMS), 0);
    account_free(NULL);
}

// Against a model: whatever is added and given back in whatever order, the sums are right.
Test(account, random_walk)
{
    enum { CHARGES = 12, STEPS = 20000 };
    struct account_charge charges[CHARGES] = {0};
    uint32_t uid_of[CHARGES] = {0};
    unsigned seed = 1;

    for (int step = 0; step < STEPS; step++) {
        int i = rand_r(&seed) % CHARGES;
        enum account_kind kind = (enum account_kind)(rand_r(&seed) % ACCOUNT_KIND_COUNT);
        if (charges[i].user == NULL) {
            uid_of[i] = (uint32_t)(rand_r(&seed) % 4);
            charge_init(&charges[i], uid_of[i]);
        }
        switch (rand_r(&seed) % 4) {
        case 0:
            account_charge_fini(&charges[i]);
            break;
        case 1:
            if (charges[i].n[kind] > 0)
                account_charge_sub(&charges[i], kind);
            break;
        default:
            account_charge_add(&charges[i], kind);
            break;
        }
        uint64_t in_all = 0, of_uid[4] = {0};
        for (int k = 0; k < CHARGES; k++) {
            in_all += charges[k].n[kind];
            of_uid[uid_of[k]] += charges[k].n[kind];
        }
        cr_assert_eq(account_count(account, kind), in_all);
        cr_assert_leq(in_all, 5);
        for (uint32_t uid = 0; uid < 4; uid++)
            cr_assert_eq(account_count_uid(account, uid, kind), of_uid[uid]);
    }
    for (int i = 0; i < CHARGES; i++)
        account_charge_fini(&charges[i]);
}

Test(account, many_at_once_or_none)
{
    const struct account_limit bytes = {.in_all = UINT64_C(5) << 32, .per_uid = UINT64_C(3) << 32};
    struct account_charge a, b;

    account_set_limit(account, ACCOUNT_SHARED_MEMORY, &bytes);
    charge_init(&a, 7);
    charge_init(&b, 8);
    cr_assert_eq(account_charge_add_many(&a, ACCOUNT_SHARED_MEMORY, UINT64_C(3) << 32), 0);
    cr_assert_eq(account_charge_add_many(&a, ACCOUNT_SHARED_MEMORY, 1), -EDQUOT);
    cr_assert_eq(account_charge_add_many(&b, ACCOUNT_SHARED_MEMORY, UINT64_MAX), -EDQUOT);
    cr_assert_eq(account_charge_add_many(&b, ACCOUNT_SHARED_MEMORY, (UINT64_C(2) << 32) + 1),
                 -EUSERS);
    cr_assert_eq(account_charge_add_many(&b, ACCOUNT_SHARED_MEMORY, UINT64_C(2) << 32), 0);
    cr_assert_eq(account_count(account, ACCOUNT_SHARED_MEMORY), UINT64_C(5) << 32);
    cr_assert_eq(account_count_refused(account, ACCOUNT_SHARED_MEMORY), 3);
    cr_assert_eq(account_count_refused(account, ACCOUNT_CHANNELS), 0);
    account_charge_fini(&a);
    cr_assert_eq(account_count_uid(account, 8, ACCOUNT_SHARED_MEMORY), UINT64_C(2) << 32);
    account_charge_fini(&b);
}

Test(account, lists_users)
{
    uint32_t uids[4] = {0};
    struct account_charge a, b, c;

    cr_assert_eq(account_list_users(account, uids, 4), 0);
    charge_init(&a, 7);
    charge_init(&b, 8);
    charge_init(&c, 8);
    cr_assert_eq(account_list_users(account, uids, 4), 2);
    cr_assert_eq(uids[0] + uids[1], 15);
    cr_assert_eq(account_list_users(account, uids, 1), 1);
    account_charge_fini(&b);
    account_charge_fini(&a);
    cr_assert_eq(account_list_users(account, uids, 4), 1);
    cr_assert_eq(uids[0], 8);
    account_charge_fini(&c);
}

Test(account, names_the_key_of_a_limit)
{
    cr_assert_str_eq(account_limit_name(ACCOUNT_CHANNELS, -EUSERS), "channels_max");
    cr_assert_str_eq(account_limit_name(ACCOUNT_CHANNELS, -EDQUOT), "channels_per_uid");
    cr_assert_str_eq(account_limit_name(ACCOUNT_STREAMS, -EDQUOT), "streams_per_uid");
    cr_assert_str_eq(account_limit_name(ACCOUNT_SHARED_MEMORY, -EUSERS), "shared_memory_max");
}
