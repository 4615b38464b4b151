// SPDX-License-Identifier: MIT
// More keys than a driver takes (virtio-crypto 128), or than there are descriptors for: those who
// are busy keep theirs, idle ones give theirs, and it is nobody's error.
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "afalg_rig.h"
#include "keys.h"
#include "reference.h"

#define N_KEYS  200 // less than twice as many as the driver takes
#define N_BYTES 256u

TestSuite(afalg_keys, .init = afalg_rig_setup, .fini = afalg_rig_teardown, .timeout = 200);

static struct statistics statistics;
static struct verify_trust trust;
static struct key_count count;
static struct key *keys[N_KEYS];

static int open_key(struct key_room *room, uint32_t i)
{
    const struct key_source source = {
        .info = algorithm_get(ALGORITHM_AES_128_CBC),
        .ops = &backend_afalg_ops,
        .backend = afalg_rig_backend,
        .statistics = &statistics,
        .trust = &trust,
        .room = room,
        .count = &count,
    };
    uint8_t bytes[ALGORITHM_KEY_MAX];

    afalg_rig_fill(bytes, sizeof(bytes), i);
    return key_open(&source, bytes, &keys[i]);
}

static int use(uint32_t i)
{
    uint8_t bytes[ALGORITHM_KEY_MAX], iv[ALGORITHM_IV_LEN_MAX] = {3}, data[N_BYTES], want[N_BYTES];

    afalg_rig_fill(bytes, sizeof(bytes), i);
    afalg_rig_fill(data, sizeof(data), i + 1);
    reference_crypt(ALGORITHM_AES_128_CBC, bytes, iv, true, want, data, N_BYTES);
    int r = key_crypt(keys[i], NULL, true, iv, data, N_BYTES);
    cr_assert(r == 0 || r == -EUSERS, "key %u: %s", i, strerror(-r));
    if (r == 0)
        cr_assert_eq(memcmp(data, want, N_BYTES), 0, "wrong bytes with key %u", i);
    return r;
}

Test(afalg_keys, are_shared_when_they_are_few)
{
    const struct timespec idle = {.tv_sec = KEY_ROOM_IDLE_MS / 1000, .tv_nsec = 200000000};
    const struct backend_probe probe = afalg_rig_probe(afalg_rig_backend, ALGORITHM_AES_128_CBC);
    uint32_t n_opened = 0, n_served = 0;
    struct key_room *room = NULL;

    cr_assert_eq(key_room_new(&room), 0);
    for (uint32_t i = 0; i < N_KEYS; i++) {
        int r = open_key(room, i);

        cr_assert(r == 0 || r == -EUSERS, "key %u: %s", i, strerror(-r));
        n_opened += r == 0;
    }
    cr_expect_geq(n_opened, 100, "%u", n_opened);
    if (strncmp(probe.driver, "virtio_crypto", 13) == 0)
        cr_expect_leq(count.n_set, 128, "%u", count.n_set);
    nanosleep(&idle, NULL);
    for (uint32_t i = 0; i < N_KEYS; i++)
        if (!keys[i])
            cr_assert_eq(open_key(room, i), 0, "key %u: the others are idle", i);
    // None of them can hold all; each gets what it needs once the rest is idle.
    for (uint32_t i = 0; i < N_KEYS; i++)
        n_served += use(i) == 0;
    cr_expect_gt(n_served, 0);
    nanosleep(&idle, NULL);
    cr_expect_eq(use(0), 0);
    cr_expect_eq(use(N_KEYS - 1), 0);
    cr_expect_eq(statistics.errors, 0);
    for (uint32_t i = 0; i < N_KEYS; i++)
        key_unref(keys[i]);
    key_room_free(room);
    cr_expect_eq(count.n_set, 0);
}
