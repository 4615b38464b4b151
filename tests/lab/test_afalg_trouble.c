// SPDX-License-Identifier: MIT
// Backend afalg in trouble, and what it knows of drivers: errors of requests, causes that keep it
// from working, the deny list. On a kernel that has AF_ALG; elsewhere skipped, with the reason.
#include "backend.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "afalg_rig.h"
#include "offer.h"
#include "role.h"
#include "fixture_proc.h"

TestSuite(afalg_trouble, .init = afalg_rig_setup, .fini = afalg_rig_teardown, .timeout = 300);

// ---------------------------------------------------------------- errors

// After an error the socket has input in it that nobody fetched: the next request must not meet it.
Test(afalg_trouble, works_after_an_error)
{
    const size_t n_before = fixture_proc_count_descriptors(getpid());
    uint8_t bytes[ALGORITHM_KEY_MAX], iv[16] = {0}, data[64] = {0};
    struct backend_key *key = afalg_rig_open(ALGORITHM_AES_256_CBC, bytes);
    size_t n_working;

    afalg_rig_compare(key, ALGORITHM_AES_256_CBC, bytes, true, 64, true);
    n_working = fixture_proc_count_descriptors(getpid());
    for (int i = 0; i < 20; i++) {
        cr_expect_lt(backend_afalg_ops.crypt(key, true, iv, data, data, 17), 0);
        afalg_rig_compare(key, ALGORITHM_AES_256_CBC, bytes, i % 2, 4096, i % 3 == 0);
    }
    cr_expect_eq(fixture_proc_count_descriptors(getpid()), n_working,
                 "sockets that were thrown away are still open");
    backend_afalg_ops.close(key);
    cr_expect_eq(fixture_proc_count_descriptors(getpid()), n_before);
}

// The kernel answers a system call with an error, once the filter is on.
static void forbid(int number, int error)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

    cr_assert(filter);
    cr_assert_eq(seccomp_rule_add(filter, SCMP_ACT_ERRNO((uint32_t)error), number, 0), 0);
    cr_assert_eq(seccomp_load(filter), 0);
    seccomp_release(filter);
}

Test(afalg_trouble, hands_the_errno_of_a_request_on)
{
    uint8_t bytes[ALGORITHM_KEY_MAX], iv[16] = {0}, data[64] = {0};
    struct backend_key *key = afalg_rig_open(ALGORITHM_AES_128_CBC, bytes);

    afalg_rig_compare(key, ALGORITHM_AES_128_CBC, bytes, true, 64, true);
    forbid(SCMP_SYS(sendmsg), EBUSY);
    cr_expect_eq(backend_afalg_ops.crypt(key, true, iv, data, data, sizeof(data)), -EBUSY);
    cr_expect_eq(backend_afalg_ops.crypt(key, true, iv, data, data, sizeof(data)), -EBUSY);
    backend_afalg_ops.close(key);
}

Test(afalg_trouble, hands_on_that_there_are_no_more_descriptors)
{
    uint8_t bytes[ALGORITHM_KEY_MAX], iv[16] = {0}, data[64] = {0};
    struct backend_key *key = afalg_rig_open(ALGORITHM_AES_128_CBC, bytes);

    // The first request accepts its operation socket.
    forbid(SCMP_SYS(accept), EMFILE);
    cr_expect_eq(backend_afalg_ops.crypt(key, true, iv, data, data, sizeof(data)), -EMFILE);
    backend_afalg_ops.close(key);
}

Test(afalg_trouble, says_that_the_kernel_refuses_an_algorithm)
{
    forbid(SCMP_SYS(bind), ENOENT);
    struct backend_probe found = afalg_rig_probe(afalg_rig_backend, ALGORITHM_AES_192_CBC);
    cr_expect_eq(found.error, -ENOENT);
    cr_expect_str_eq(found.text, "the kernel refuses cbc(aes) (ENOENT)");
}

Test(afalg_trouble, says_that_a_policy_forbids_an_algorithm)
{
    forbid(SCMP_SYS(bind), EACCES);
    struct backend_probe found = afalg_rig_probe(afalg_rig_backend, ALGORITHM_DES_EDE3_CBC);
    cr_expect_eq(found.error, -EACCES);
    cr_expect_str_eq(found.text,
                     "AF_ALG with cbc(des3_ede) is blocked by a security policy (EACCES)");
}

static void forbid_netlink(int error)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

    cr_assert(filter);
    cr_assert_eq(seccomp_rule_add(filter, SCMP_ACT_ERRNO((uint32_t)error), SCMP_SYS(socket), 1,
                                  SCMP_A0(SCMP_CMP_EQ, AF_NETLINK)),
                 0);
    cr_assert_eq(seccomp_load(filter), 0);
    seccomp_release(filter);
}

Test(afalg_trouble, says_that_netlink_crypto_is_missing)
{
    const uint8_t bytes[ALGORITHM_KEY_MAX] = {1};
    struct backend_key *key = NULL;

    forbid_netlink(EPROTONOSUPPORT);
    struct backend_probe found = afalg_rig_probe(afalg_rig_backend, ALGORITHM_AES_128_CBC);
    cr_expect_eq(found.error, -EPROTONOSUPPORT);
    cr_expect_str_eq(
        found.text,
        "the kernel's module crypto_user (NETLINK_CRYPTO) is missing (EPROTONOSUPPORT)");
    cr_expect_eq(backend_afalg_ops.open(afalg_rig_backend, ALGORITHM_AES_128_CBC, bytes, &key),
                 -EPROTONOSUPPORT);
}

Test(afalg_trouble, says_that_netlink_crypto_is_forbidden)
{
    forbid_netlink(EPERM);
    struct backend_probe found = afalg_rig_probe(afalg_rig_backend, ALGORITHM_AES_128_CBC);
    cr_expect_eq(found.error, -EPERM);
    cr_expect_str_eq(found.text, "NETLINK_CRYPTO is blocked by a security policy (EPERM)");
}

// ---------------------------------------------------------------- drivers

Test(afalg_trouble, names_the_driver)
{
    for (enum algorithm_id algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        struct backend_probe found;

        if (!afalg_rig_serves(algorithm))
            continue;
        found = afalg_rig_probe(afalg_rig_backend, algorithm);
        cr_expect_eq(found.error, 0, "%s: %s", algorithm_get(algorithm)->name, found.text);
        cr_expect_neq(found.driver[0], '\0');
        cr_log_info("%s: %s%s", algorithm_get(algorithm)->name, found.driver,
                    found.hardware ? " (engine)" : "");
    }
}

Test(afalg_trouble, makes_an_offer)
{
    struct message_role_config config = {.backends = CONFIG_BACKEND_AFALG | CONFIG_BACKEND_CPU};
    static struct offer offer;

    strcpy(config.deny_drivers, "cbc(des3_ede)");
    cr_assert_eq(offer_init(&offer, &config, 2, NULL), 0);
    offer_decide(&offer, CONFIG_OFFLOAD_ALWAYS, 1);
    cr_expect_eq(offer.afalg_error, 0);
    for (uint32_t a = 0; a <= ALGORITHM_AES_256_CTR; a++)
        cr_expect_eq(offer_find_row(&offer, a), &offer.rows[a][0]);
    cr_expect_eq(offer.rows[ALGORITHM_DES_EDE3_CBC][0].state, MESSAGE_STATE_DENIED);
    cr_expect_eq(offer_find_row(&offer, ALGORITHM_DES_EDE3_CBC),
                 &offer.rows[ALGORITHM_DES_EDE3_CBC][1]);
    offer_decide(&offer, CONFIG_OFFLOAD_AUTO, 0);
    cr_expect_eq(offer.rows[0][0].state, MESSAGE_STATE_DECLINED);
    cr_expect_str_eq(offer.rows[0][0].text, "being measured");
    offer_check_again(&offer, NULL);
    cr_expect_eq(offer.afalg_error, 0);
    offer_fini(&offer);
}
