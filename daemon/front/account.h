// SPDX-License-Identifier: MIT
// Who has how much: connections, channels and streams, counted per uid and in all, against limits.
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
    ACCOUNT_KIND_COUNT,
};

struct account_limit {
    uint32_t in_all;
    uint32_t per_uid;
    uint32_t for_root; // of in_all, kept for uid 0, to whom per_uid does not apply then; 0: root is
                       // like others
};

struct account;
struct account_user;

// What one client has. Embedded in it; account and user are borrowed and private to account.c.
struct account_charge {
    struct account *account;
    struct account_user *user;
    uint32_t n[ACCOUNT_KIND_COUNT];
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

// One less; there must be one in this charge.
void account_charge_sub(struct account_charge *charge, enum account_kind kind);

// Gives everything back. Leaves the charge empty; safe on an empty (zeroed) charge.
void account_charge_fini(struct account_charge *charge);

uint32_t account_count(const struct account *account, enum account_kind kind);
uint32_t account_count_uid(const struct account *account, uint32_t uid, enum account_kind kind);

// Users that have a charge now.
size_t account_count_users(const struct account *account);

#endif
