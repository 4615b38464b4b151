// SPDX-License-Identifier: MIT
// How many connects a second: a bucket of tokens for each uid and one for all, filled at the rate
// and as deep as one second's worth, so that a burst of that many passes at once.
//
// Guarantees: bounded memory however many uids come; a uid does not get a full bucket by leaving
// and coming back. Knows nothing of sockets or clients, and does not look at the clock.
#ifndef CRYPTOD_FRONT_RATE_H
#define CRYPTOD_FRONT_RATE_H

#include <stdint.h>

// Uids whose buckets are remembered. One more takes the place of the one whose bucket has been
// without a connect for longest; the bucket of all bounds what that could gain anybody.
#define RATE_USERS_MAX 256u

struct rate_bucket { // zeroed: full
    uint64_t spent;  // tokens that are missing, in 10^-9
    uint64_t at_ns;  // when that was so
};

struct rate_user {
    uint32_t uid;
    struct rate_bucket bucket;
};

struct rate { // zeroed: no limit
    uint32_t in_all;
    uint32_t per_uid;
    struct rate_bucket all;
    uint64_t refused;
    uint32_t n_users;
    struct rate_user users[RATE_USERS_MAX];
};

// 0: no limit.
void rate_set_limit(struct rate *rate, uint32_t in_all, uint32_t per_uid);

// One connect of that uid. 0; -EDQUOT: the uid has had its share; -EUSERS: all together have. What
// is refused takes no token. uid 0 is counted but never refused, and takes none of the others'.
// now_ns: of a clock that does not go back.
int rate_take(struct rate *rate, uint32_t uid, uint64_t now_ns);

// Tokens that are missing now: the connects of the last second, more or less.
uint32_t rate_used(const struct rate *rate, uint64_t now_ns);
uint32_t rate_used_uid(const struct rate *rate, uint32_t uid, uint64_t now_ns);

#endif
