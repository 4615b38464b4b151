// SPDX-License-Identifier: MIT
// What backend afalg says of a machine that has no AF_ALG or does not let it be used. The kernel's
// answers are made by a filter, so that every machine gives them. (What it does where AF_ALG works:
// tests/lab/test_afalg.c.)
#include "backend.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <seccomp.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(backend_afalg, .timeout = 60);

static struct backend_probe probe_with(int error, const char *deny, enum algorithm_id algorithm)
{
    const struct backend_settings settings = {.workers = 2, .deny_drivers = deny};
    struct backend *backend = NULL;
    struct backend_probe probe;

    if (error != 0) {
        scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

        cr_assert(filter);
        cr_assert_eq(seccomp_rule_add(filter, SCMP_ACT_ERRNO((uint32_t)error), SCMP_SYS(socket), 1,
                                      SCMP_A0(SCMP_CMP_EQ, AF_ALG)),
                     0);
        cr_assert_eq(seccomp_load(filter), 0);
        seccomp_release(filter);
    }
    cr_assert_eq(backend_afalg_ops.init(&settings, &backend), 0);
    backend_afalg_ops.probe(backend, algorithm, &probe);
    backend_afalg_ops.fini(backend);
    return probe;
}

static void expect_reason(int error, const char *text)
{
    struct backend_probe probe = probe_with(error, "", ALGORITHM_AES_128_CBC);

    cr_expect_eq(probe.error, -error);
    cr_expect_str_eq(probe.text, text);
    cr_expect_str_eq(probe.driver, "");
    cr_expect_not(probe.denied);
    cr_expect_not(probe.hardware);
}

Test(backend_afalg, says_that_the_kernel_has_none)
{
    expect_reason(EAFNOSUPPORT, "the kernel has no AF_ALG (EAFNOSUPPORT)");
}

Test(backend_afalg, says_that_a_policy_forbids_it)
{
    expect_reason(EPERM, "AF_ALG is blocked by a security policy (EPERM)");
}

Test(backend_afalg, says_that_a_security_module_forbids_it)
{
    expect_reason(EACCES, "AF_ALG is blocked by a security policy (EACCES)");
}

Test(backend_afalg, says_what_else_went_wrong)
{
    expect_reason(EMFILE, "AF_ALG sockets cannot be made (EMFILE)");
}

Test(backend_afalg, cannot_open_a_key_then)
{
    const struct backend_settings settings = {.workers = 2};
    const uint8_t bytes[ALGORITHM_KEY_MAX] = {1};
    struct backend *backend = NULL;
    struct backend_key *key = NULL;

    probe_with(EACCES, "", ALGORITHM_AES_128_CBC); // puts the filter on
    cr_assert_eq(backend_afalg_ops.init(&settings, &backend), 0);
    cr_expect_eq(backend_afalg_ops.open(backend, ALGORITHM_AES_128_CBC, bytes, &key), -EACCES);
    cr_expect_null(key);
    backend_afalg_ops.fini(backend);
}

Test(backend_afalg, does_not_ask_the_kernel_for_all)
{
    const struct backend_settings settings = {.workers = 2};
    const uint8_t bytes[ALGORITHM_KEY_MAX] = {1};
    struct backend_probe probe = probe_with(0, "", ALGORITHM_CHACHA20);
    struct backend *backend = NULL;
    struct backend_key *key = NULL;

    cr_expect_eq(probe.error, -EOPNOTSUPP);
    cr_expect_str_eq(probe.text, "not asked of the kernel");
    cr_assert_eq(backend_afalg_ops.init(&settings, &backend), 0);
    cr_expect_eq(backend_afalg_ops.open(backend, ALGORITHM_CHACHA20, bytes, &key), -EOPNOTSUPP);
    backend_afalg_ops.fini(backend);
}
