// SPDX-License-Identifier: MIT
// Cases from the field, each named with its number, on a kernel that has AF_ALG; elsewhere skipped,
// with the reason.
#include "backend.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "afalg_rig.h"
#include "reference.h"

TestSuite(cases_lab, .init = afalg_rig_setup, .fini = afalg_rig_teardown, .timeout = 300);

// The kernel answers a system call with an error, once the filter is on.
static void forbid(int number, int error)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

    cr_assert(filter);
    cr_assert_eq(seccomp_rule_add(filter, SCMP_ACT_ERRNO((uint32_t)error), number, 0), 0);
    cr_assert_eq(seccomp_load(filter), 0);
    seccomp_release(filter);
}

// A request of exactly 64 KiB, and everything beside it; larger calls are many of these.
Test(cases_lab, case_07_sizes_around_64_kib)
{
    static const int below[] = {0, 1, 15, 16, 17, 32};

    for (enum algorithm_id algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        uint8_t bytes[ALGORITHM_KEY_MAX];
        struct backend_key *key;

        if (!afalg_rig_serves(algorithm))
            continue;
        key = afalg_rig_open(algorithm, bytes);
        for (size_t i = 0; i < 4 * sizeof(below) / sizeof(below[0]); i++) {
            const size_t n_bytes = 65536 - (size_t)below[i / 4];

            if (n_bytes % algorithm_get(algorithm)->n_block == 0)
                afalg_rig_compare(key, algorithm, bytes, i & 1, n_bytes, i & 2);
        }
        backend_afalg_ops.close(key);
    }
}

Test(cases_lab, case_08_requests_larger_than_the_send_buffer)
{
    uint8_t bytes[ALGORITHM_KEY_MAX], iv[16] = {0};
    uint8_t *data = calloc(1, 65536 + 16);
    struct backend_key *key = afalg_rig_open(ALGORITHM_AES_128_CBC, bytes);

    cr_assert_not_null(data);
    cr_expect_eq(backend_afalg_ops.crypt(key, true, iv, data, data, 65536 + 16), -EMSGSIZE);
    cr_expect_eq(backend_afalg_ops.crypt(key, true, iv, data, data, 0), -EMSGSIZE);
    backend_afalg_ops.close(key);
    free(data);
}

// Two requests of one block each, the second with the IV that follows, are one of two blocks; with
// the same block twice, so that an IV that is not taken would show.
Test(cases_lab, case_10_two_blocks_in_two_requests)
{
    for (enum algorithm_id algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        const struct algorithm_info *info = algorithm_get(algorithm);
        const size_t n = info->n_cipher_block;
        uint8_t bytes[ALGORITHM_KEY_MAX], iv[16], in[32], out[32], want[32];
        struct backend_key *key;

        if (!afalg_rig_serves(algorithm))
            continue;
        key = afalg_rig_open(algorithm, bytes);
        for (int i = 0; i < 20; i++) {
            afalg_rig_fill(iv, sizeof(iv), (uint64_t)i);
            afalg_rig_fill(in, n, (uint64_t)i + 100);
            memcpy(in + n, in, n);
            reference_crypt(algorithm, bytes, iv, true, want, in, 2 * n);
            cr_assert_eq(backend_afalg_ops.crypt(key, true, iv, out, in, n), 0);
            if (info->mode == ALGORITHM_CBC)
                memcpy(iv, out, n);
            else
                algorithm_ctr_add(iv, 1);
            cr_assert_eq(backend_afalg_ops.crypt(key, true, iv, out + n, in + n, n), 0);
            cr_expect_eq(memcmp(out, want, 2 * n), 0, "%s", info->name);
        }
        backend_afalg_ops.close(key);
    }
}

// No operation with a driver on the list. Looking for one would end the probe with another reason
// than the list: what sets a key, or gets an operation socket, is forbidden.
Test(cases_lab, case_26_deny_list_before_the_first_operation)
{
    struct backend_probe found = afalg_rig_probe(afalg_rig_backend, ALGORITHM_AES_128_CBC);
    char list[256];

    snprintf(list, sizeof(list), "other-driver %s another", found.driver);
    struct backend *by_driver = afalg_rig_start(list), *by_name = afalg_rig_start("ctr(aes)"),
                   *by_part = afalg_rig_start("cbc aes cbc(aes");
    // Before the first operation: nothing that does one may be called.
    forbid(SCMP_SYS(setsockopt), EIO);
    forbid(SCMP_SYS(accept), EIO);
    found = afalg_rig_probe(by_driver, ALGORITHM_AES_128_CBC);
    cr_expect(found.denied);
    cr_expect_eq(found.error, -EKEYREJECTED);
    cr_expect_str_eq(found.text, "on the list deny_drivers");
    cr_expect_neq(found.driver[0], '\0');
    cr_expect(afalg_rig_probe(by_name, ALGORITHM_AES_256_CTR).denied);
    cr_expect_not(afalg_rig_probe(by_name, ALGORITHM_AES_256_CBC).denied);
    cr_expect_not(afalg_rig_probe(by_part, ALGORITHM_AES_256_CBC).denied);
    backend_afalg_ops.fini(by_driver);
    backend_afalg_ops.fini(by_name);
    backend_afalg_ops.fini(by_part);
}

// One key, one socket, 1000 IVs.
Test(cases_lab, case_33_1000_ivs_alone)
{
    for (enum algorithm_id algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        uint8_t bytes[ALGORITHM_KEY_MAX], iv[16], in[96], out[96], want[96];
        struct backend_key *key;

        if (!afalg_rig_serves(algorithm))
            continue;
        key = afalg_rig_open(algorithm, bytes);
        for (uint64_t i = 0; i < 1000; i++) {
            const size_t n_bytes = 16 + i % 6 * 16;

            afalg_rig_fill(iv, sizeof(iv), i);
            afalg_rig_fill(in, n_bytes, i + 1000);
            reference_crypt(algorithm, bytes, iv, i % 2, want, in, n_bytes);
            cr_assert_eq(backend_afalg_ops.crypt(key, i % 2, iv, out, in, n_bytes), 0);
            cr_assert_eq(memcmp(out, want, n_bytes), 0, "%s", algorithm_get(algorithm)->name);
        }
        backend_afalg_ops.close(key);
    }
}
