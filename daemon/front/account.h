// SPDX-License-Identifier: MIT
// Who has how much: connections, channels, streams and bytes, counted per uid and in all, against
// limits.
//
// Guarantees: a charge undoes itself: whatever was added to it is given back by
// account_charge_fini(), on every path and in any order. Lowered limits never take back what was
// given; they only refuse what comes. Knows nothing of sockets, clients or messages.
#ifndef CRYPTOD_FRONT_ACCOUNT_H
#define CRYPTOD_FRONT_ACCOUNT_H

#include <stddef.h>
#include <stdint.h>

enum account_kind {
    ACCOUNT_CONNECTIONS, // connected, without a channel
    ACCOUNT_CHANNELS,
    ACCOUNT_STREAMS,
    ACCOUNT_SHARED_MEMORY, // bytes
    ACCOUNT_KIND_COUNT,
};

struct account_limit {
    uint64_t in_all;
    uint64_t per_uid;
    uint64_t for_root; // of in_all, kept for uid 0, to whom per_uid does not apply then; 0: root is
                       // like others
};

struct account;
struct account_user;

// What one client has. Embedded in it; account and user are borrowed and private to account.c.
struct account_charge {
    struct account *account;
    struct account_user *user;
    uint64_t n[ACCOUNT_KIND_COUNT];
};

// All limits start at 0. 0 or -ENOMEM.
int account_new(struct account **ret);

// NULL is allowed. Every charge must have been undone.
void account_free(struct account *account);

void account_set_limit(struct account *account, enum account_kind kind,
                       const struct account_limit *limit);

// An empty charge on behalf of uid. 0 or -ENOMEM.
int account_charge_init(struct account *account, uint32_t uid, struct account_charge *ret);

// One more. 0; -EDQUOT: the uid's limit is reached; -EUSERS: the limit in all is reached.
int account_charge_add(struct account_charge *charge, enum account_kind kind);

// The same, n more; all of them or none.
int account_charge_add_many(struct account_charge *charge, enum account_kind kind, uint64_t n);

// The key of cryptod.conf(5) that stood in the way: error is what account_charge_add() returned.
const char *account_limit_name(enum account_kind kind, int error);

// One less; there must be one in this charge.
void account_charge_sub(struct account_charge *charge, enum account_kind kind);

// Gives everything back. Leaves the charge empty; safe on an empty (zeroed) charge.
void account_charge_fini(struct account_charge *charge);

const struct account_limit *account_get_limit(const struct account *account,
                                              enum account_kind kind);

uint64_t account_count(const struct account *account, enum account_kind kind);
uint64_t account_count_uid(const struct account *account, uint32_t uid, enum account_kind kind);

// How often a limit was in the way.
uint64_t account_count_refused(const struct account *account, enum account_kind kind);

// Users that have a charge now.
size_t account_count_users(const struct account *account);

// Their uids, at most n_max of them, in no order. Returns how many.
size_t account_list_users(const struct account *account, uint32_t *ret_uids, size_t n_max);

#endif
