// SPDX-License-Identifier: MIT
// A token is 10^9 units, and a bucket of n tokens a second gains n units a nanosecond: no fraction
// is lost.
//
// Why root is not refused: all of sshd's processes connect as root, so its share is that of every
// user who logs in, and a storm of logins, which sshd bounds itself (MaxStartups), must not leave
// sessions in software. Each such connect stands for a process that was forked for it, which costs
// the machine more than the connect costs the daemon; and root could take everything anyway.
#include "rate.h"

#include <errno.h>
#include <stddef.h>

#define TOKEN UINT64_C(1000000000)

void rate_set_limit(struct rate *rate, uint32_t in_all, uint32_t per_uid)
{
    rate->in_all = in_all;
    rate->per_uid = per_uid;
}

static uint64_t bucket_spent(const struct rate_bucket *bucket, uint32_t per_second, uint64_t now_ns)
{
    uint64_t passed_ns = now_ns > bucket->at_ns ? now_ns - bucket->at_ns : 0;

    if (per_second == 0) // for the figure alone: as much as leaves it within a second
        return passed_ns < TOKEN ? bucket->spent - bucket->spent / TOKEN * passed_ns : 0;
    return passed_ns >= bucket->spent / per_second ? 0 : bucket->spent - passed_ns * per_second;
}

static int bucket_has(const struct rate_bucket *bucket, uint32_t per_second, uint64_t now_ns)
{
    return per_second == 0 ||
           bucket_spent(bucket, per_second, now_ns) + TOKEN <= per_second * TOKEN;
}

static void bucket_spend(struct rate_bucket *bucket, uint32_t per_second, uint64_t now_ns)
{
    bucket->spent = bucket_spent(bucket, per_second, now_ns) + TOKEN;
    bucket->at_ns = now_ns;
}

static const struct rate_user *user_find(const struct rate *rate, uint32_t uid)
{
    for (uint32_t i = 0; i < rate->n_users; i++) {
        if (rate->users[i].uid == uid)
            return &rate->users[i];
    }
    return NULL;
}

static struct rate_user *user_get(struct rate *rate, uint32_t uid)
{
    struct rate_user *oldest = &rate->users[0];

    for (uint32_t i = 0; i < rate->n_users; i++) {
        struct rate_user *user = &rate->users[i];
        if (user->uid == uid)
            return user;
        if (user->bucket.at_ns < oldest->bucket.at_ns)
            oldest = user;
    }
    if (rate->n_users < RATE_USERS_MAX)
        oldest = &rate->users[rate->n_users++];
    *oldest = (struct rate_user){.uid = uid};
    return oldest;
}

int rate_take(struct rate *rate, uint32_t uid, uint64_t now_ns)
{
    struct rate_user *user = user_get(rate, uid);
    int r = 0;

    if (uid == 0) {
        bucket_spend(&user->bucket, 0, now_ns);
        return 0;
    }
    if (!bucket_has(&user->bucket, rate->per_uid, now_ns))
        r = -EDQUOT;
    else if (!bucket_has(&rate->all, rate->in_all, now_ns))
        r = -EUSERS;
    if (r < 0) {
        rate->refused++;
        return r;
    }
    bucket_spend(&user->bucket, rate->per_uid, now_ns);
    bucket_spend(&rate->all, rate->in_all, now_ns);
    return 0;
}

static uint32_t count_of(uint64_t spent)
{
    return (uint32_t)((spent + TOKEN - 1) / TOKEN);
}

uint32_t rate_used_uid(const struct rate *rate, uint32_t uid, uint64_t now_ns)
{
    const struct rate_user *user = user_find(rate, uid);

    if (user == NULL)
        return 0;
    return count_of(bucket_spent(&user->bucket, uid == 0 ? 0 : rate->per_uid, now_ns));
}

uint32_t rate_used(const struct rate *rate, uint64_t now_ns)
{
    return count_of(bucket_spent(&rate->all, rate->in_all, now_ns)) +
           rate_used_uid(rate, 0, now_ns);
}
