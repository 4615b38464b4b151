// SPDX-License-Identifier: MIT
// What is offered, under each setting, and what the rows say about it. Without AF_ALG the same must
// hold: its rows are absent, with a reason.
#include "offer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "role.h"
#include "selftest.h"

TestSuite(offer, .timeout = 120);

static struct offer offer;

static void setup(uint32_t backends, const char *fault, uint32_t offload)
{
    struct message_role_config config = {.backends = backends};

    strncpy(config.fault, fault, sizeof(config.fault) - 1);
    cr_assert_eq(offer_init(&offer, &config, 2), 0);
    offer_decide(&offer, offload, 4096);
}

static bool is_chacha(uint32_t algorithm)
{
    return algorithm == ALGORITHM_CHACHA20;
}

Test(offer, offers_all_that_works_when_told_to)
{
    struct message_engine_offer message;

    setup(CONFIG_BACKEND_CPU, "", CONFIG_OFFLOAD_ALWAYS);
    offer_get_message(&offer, &message);
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        struct offer_row *row = offer_find_request_row(&offer, a);

        cr_expect_eq(offer.rows[a][0].state, MESSAGE_STATE_OFFERED);
        cr_expect_eq(message.offer[a].lanes,
                     is_chacha(a) ? MESSAGE_LANE_SOFTWARE : MESSAGE_LANE_REQUEST);
        cr_expect_eq(message.offer[a].request_min, is_chacha(a) ? 0 : 4096);
        cr_expect_eq(row, is_chacha(a) ? NULL : &offer.rows[a][0]);
    }
    cr_expect_null(offer_find_request_row(&offer, ALGORITHM_COUNT));
    cr_expect_null(offer_find_request_row(&offer, UINT32_MAX));
    offer_fini(&offer);
}

Test(offer, offers_nothing_when_switched_off)
{
    struct message_engine_offer message, nothing = {0};

    setup(CONFIG_BACKEND_CPU, "", CONFIG_OFFLOAD_OFF);
    offer_get_message(&offer, &message);
    cr_expect_eq(memcmp(&message, &nothing, sizeof(message)), 0);
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        cr_expect_eq(offer.rows[a][0].state, MESSAGE_STATE_DECLINED);
        cr_expect_str_eq(offer.rows[a][0].text, "switched off (offload = off)");
        cr_expect_null(offer_find_request_row(&offer, a));
    }
    // And on again.
    offer_decide(&offer, CONFIG_OFFLOAD_ALWAYS, 1);
    cr_expect_not_null(offer_find_request_row(&offer, ALGORITHM_AES_128_CBC));
    offer_fini(&offer);
}

Test(offer, does_not_believe_that_openssl_beats_openssl)
{
    setup(CONFIG_BACKEND_CPU | CONFIG_BACKEND_FAULT, "error_after=0", CONFIG_OFFLOAD_AUTO);
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        cr_expect_null(offer_find_request_row(&offer, a));
        cr_expect_eq(offer.rows[a][0].state, MESSAGE_STATE_DECLINED);
        cr_expect_not(offer.rows[a][0].measured);
    }
    cr_expect_str_eq(offer.rows[0][0].text, "OpenSSL in the process is as fast");
    offer_fini(&offer);
}

Test(offer, lets_the_first_backend_that_works_serve)
{
    setup(CONFIG_BACKEND_CPU | CONFIG_BACKEND_FAULT, "error_after=0", CONFIG_OFFLOAD_ALWAYS);
    cr_assert_eq(offer.n_backends, 2);
    cr_expect_str_eq(offer.rows[0][0].backend->ops->name, "fault");
    cr_expect_eq(offer_find_request_row(&offer, 0), &offer.rows[0][0]);
    cr_expect_eq(offer.rows[0][1].state, MESSAGE_STATE_DECLINED);
    cr_expect_str_eq(offer.rows[0][1].text, "backend fault serves it");
    offer_fini(&offer);
}

Test(offer, says_when_a_backend_cannot_start)
{
    setup(CONFIG_BACKEND_CPU | CONFIG_BACKEND_FAULT, "bad spec", CONFIG_OFFLOAD_ALWAYS);
    cr_expect_eq(offer.rows[0][0].state, MESSAGE_STATE_ABSENT);
    cr_expect_eq(offer.rows[0][0].probe.error, -EINVAL);
    cr_expect_eq(strncmp(offer.rows[0][0].text, "the backend cannot start", 24), 0);
    cr_expect_eq(offer_find_request_row(&offer, 0), &offer.rows[0][1]);
    offer_fini(&offer);
}

Test(offer, says_in_words_how_af_alg_is)
{
    setup(CONFIG_BACKEND_CPU | CONFIG_BACKEND_AFALG, "", CONFIG_OFFLOAD_ALWAYS);
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        const struct offer_row *row = &offer.rows[a][0];

        cr_expect_str_eq(row->backend->ops->name, "afalg");
        if (row->probe.error < 0) {
            cr_expect_neq(row->text[0], '\0', "%s is not there, and says no reason",
                          row->info->name);
            cr_expect(is_chacha(a) || offer_find_request_row(&offer, a) == &offer.rows[a][1]);
        }
    }
    cr_expect_neq(offer.afalg_text[0], '\0');
    cr_expect_eq(offer.afalg_error == 0, strcmp(offer.afalg_text, "AF_ALG works") == 0);
    offer_fini(&offer);
    setup(CONFIG_BACKEND_CPU, "", CONFIG_OFFLOAD_ALWAYS);
    cr_expect_eq(offer.afalg_error, -EOPNOTSUPP);
    cr_expect_str_eq(offer.afalg_text, "backend afalg is not configured");
    offer_fini(&offer);
}

// ---------------------------------------------------------------- measuring and comparing

static struct backend *start(const struct backend_ops *ops, const char *fault)
{
    const struct backend_settings settings = {.workers = 1, .fault = fault};
    struct backend *backend = NULL;

    cr_assert_eq(ops->init(&settings, &backend), 0);
    return backend;
}

Test(offer, finds_wrong_bytes_and_errors)
{
    struct backend *cpu = start(&backend_cpu_ops, NULL);
    struct backend *right = start(&backend_fault_ops, "delay_ms=0");
    struct backend *wrong = start(&backend_fault_ops, "wrong_every=7");
    struct backend *broken = start(&backend_fault_ops, "error_every=7");
    struct backend *closed = start(&backend_fault_ops, "open_error");

    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        const struct algorithm_info *info = algorithm_get(a);

        cr_expect_eq(selftest_run(&backend_fault_ops, right, &backend_cpu_ops, cpu, info), 0);
        cr_expect_eq(selftest_run_one(&backend_fault_ops, right, &backend_cpu_ops, cpu, info), 0);
        cr_expect_eq(selftest_run(&backend_fault_ops, wrong, &backend_cpu_ops, cpu, info),
                     -EBADMSG);
        cr_expect_eq(selftest_run(&backend_fault_ops, broken, &backend_cpu_ops, cpu, info), -EIO);
        cr_expect_eq(selftest_run(&backend_fault_ops, closed, &backend_cpu_ops, cpu, info), -EIO);
    }
    backend_fault_ops.fini(right);
    backend_fault_ops.fini(wrong);
    backend_fault_ops.fini(broken);
    backend_fault_ops.fini(closed);
    backend_cpu_ops.fini(cpu);
}

Test(offer, measures)
{
    struct backend *cpu = start(&backend_cpu_ops, NULL);
    struct backend *slow = start(&backend_fault_ops, "delay_ms=5");
    struct backend *broken = start(&backend_fault_ops, "error_after=2");
    struct measure measure = {0};

    cr_assert_eq(measure_request(&backend_fault_ops, slow, &backend_cpu_ops, cpu,
                                 ALGORITHM_AES_128_CBC, &measure),
                 0);
    cr_expect_geq(measure.lane_ns, 5000000);
    cr_expect_gt(measure.software_ns, 0);
    cr_expect_not(measure_gains(&measure));
    cr_expect_eq(measure_request(&backend_fault_ops, broken, &backend_cpu_ops, cpu,
                                 ALGORITHM_AES_128_CBC, &measure),
                 -EIO);
    measure = (struct measure){.lane_ns = 899, .software_ns = 1000};
    cr_expect(measure_gains(&measure));
    measure.lane_ns = 901;
    cr_expect_not(measure_gains(&measure));
    backend_fault_ops.fini(slow);
    backend_fault_ops.fini(broken);
    backend_cpu_ops.fini(cpu);
}
