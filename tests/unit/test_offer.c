// SPDX-License-Identifier: MIT
// What is offered, under each setting, and what the rows say about it. Without AF_ALG the same must
// hold: its rows are absent, with a reason.
#include "offer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "role.h"

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

static bool is_ctr(uint32_t algorithm)
{
    return algorithm_get(algorithm)->mode == ALGORITHM_CTR;
}

Test(offer, offers_all_that_works_when_told_to)
{
    struct message_engine_offer message;

    setup(CONFIG_BACKEND_CPU, "", CONFIG_OFFLOAD_ALWAYS);
    offer_get_message(&offer, &message);
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        struct offer_row *row = offer_find_row(&offer, a);

        cr_expect_eq(offer.rows[a][0].state, MESSAGE_STATE_OFFERED);
        cr_expect_eq(message.offer[a].lanes, is_chacha(a) ? MESSAGE_LANE_KEYSTREAM
                                             : is_ctr(a)
                                                 ? MESSAGE_LANE_REQUEST | MESSAGE_LANE_KEYSTREAM
                                                 : MESSAGE_LANE_REQUEST);
        cr_expect_eq(message.offer[a].request_min, is_chacha(a) ? 0 : 4096);
        cr_expect_eq(row, &offer.rows[a][0]);
    }
    cr_expect_null(offer_find_row(&offer, ALGORITHM_COUNT));
    cr_expect_null(offer_find_row(&offer, UINT32_MAX));
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
        cr_expect_null(offer_find_row(&offer, a));
    }
    // And on again.
    offer_decide(&offer, CONFIG_OFFLOAD_ALWAYS, 1);
    cr_expect_not_null(offer_find_row(&offer, ALGORITHM_AES_128_CBC));
    offer_fini(&offer);
}

Test(offer, does_not_believe_that_openssl_beats_openssl)
{
    setup(CONFIG_BACKEND_CPU | CONFIG_BACKEND_FAULT, "error_after=0", CONFIG_OFFLOAD_AUTO);
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        // The backend that only fails is not measured to the end.
        cr_expect_eq(offer.rows[a][0].lanes, 0);
        cr_expect_eq(offer.rows[a][0].state, MESSAGE_STATE_DECLINED);
        cr_expect_not(offer.rows[a][0].measured);
        // Nobody measures requests to another thread of the same CPU.
        cr_expect_eq(offer.rows[a][1].lanes & MESSAGE_LANE_REQUEST, 0);
        if (offer.rows[a][1].lanes == 0)
            cr_expect_eq(offer.rows[a][1].state, MESSAGE_STATE_DECLINED);
    }
    cr_expect_str_eq(offer.rows[0][1].text, "OpenSSL in the process is as fast");
    offer_fini(&offer);
}

Test(offer, lets_the_first_backend_that_works_serve)
{
    setup(CONFIG_BACKEND_CPU | CONFIG_BACKEND_FAULT, "error_after=0", CONFIG_OFFLOAD_ALWAYS);
    cr_assert_eq(offer.n_backends, 2);
    cr_expect_str_eq(offer.rows[0][0].backend->ops->name, "fault");
    cr_expect_eq(offer_find_row(&offer, 0), &offer.rows[0][0]);
    cr_expect_eq(offer.rows[0][1].state, MESSAGE_STATE_DECLINED);
    cr_expect_str_eq(offer.rows[0][1].text, "backend fault serves it");
    offer_fini(&offer);
}

Test(offer, keeps_the_order_of_the_configuration)
{
    const uint32_t bits = CONFIG_BACKEND_CPU | CONFIG_BACKEND_FAULT;

    setup(bits | CONFIG_BACKEND_CPU << 8 | CONFIG_BACKEND_FAULT << 12, "error_after=0",
          CONFIG_OFFLOAD_ALWAYS);
    cr_assert_eq(offer.n_backends, 2);
    cr_expect_str_eq(offer.rows[0][0].backend->ops->name, "cpu");
    cr_expect_str_eq(offer.rows[0][1].backend->ops->name, "fault");
    cr_expect_eq(offer_find_row(&offer, 0), &offer.rows[0][0]);
    offer_fini(&offer);
}

Test(offer, says_when_a_backend_cannot_start)
{
    setup(CONFIG_BACKEND_CPU | CONFIG_BACKEND_FAULT, "bad spec", CONFIG_OFFLOAD_ALWAYS);
    cr_expect_eq(offer.rows[0][0].state, MESSAGE_STATE_ABSENT);
    cr_expect_eq(offer.rows[0][0].probe.error, -EINVAL);
    cr_expect_eq(strncmp(offer.rows[0][0].text, "the backend cannot start", 24), 0);
    cr_expect_eq(offer_find_row(&offer, 0), &offer.rows[0][1]);
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
            cr_expect_eq(offer_find_row(&offer, a), &offer.rows[a][1]);
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

// ---------------------------------------------------------------- measuring

static struct backend *start(const struct backend_ops *ops, const char *fault)
{
    const struct backend_settings settings = {.workers = 1, .fault = fault};
    struct backend *backend = NULL;

    cr_assert_eq(ops->init(&settings, &backend), 0);
    return backend;
}

Test(offer, measures)
{
    struct backend *cpu = start(&backend_cpu_ops, NULL);
    struct backend *slow = start(&backend_fault_ops, "delay_ms=5");
    struct backend *broken = start(&backend_fault_ops, "error_after=2");
    struct measure measure = {0};

    cr_assert_eq(measure_run(&backend_fault_ops, slow, &backend_cpu_ops, cpu, ALGORITHM_AES_128_CTR,
                             BACKEND_MAKES_REQUESTS | BACKEND_MAKES_KEYSTREAM, &measure),
                 0);
    cr_expect_geq(measure.request_ns, 5000000);
    cr_expect_geq(measure.keystream_ns, 5000000);
    cr_expect_lt(measure.keystream_cpu_ns, measure.keystream_ns, "a delay is no work");
    cr_expect_gt(measure.software_ns, 0);
    cr_expect_gt(measure.take_ns, 0);
    cr_expect_lt(measure.take_ns, MEASURE_NONE);
    cr_expect_not(measure_request_gains(&measure));
    cr_assert_eq(measure_run(&backend_cpu_ops, cpu, &backend_cpu_ops, cpu, ALGORITHM_AES_128_CBC,
                             BACKEND_MAKES_REQUESTS, &measure),
                 0);
    cr_expect_eq(measure.keystream_ns, MEASURE_NONE);
    cr_expect_not(measure_keystream_gains(&measure, 8, true));
    cr_expect_eq(measure_run(&backend_fault_ops, broken, &backend_cpu_ops, cpu,
                             ALGORITHM_AES_128_CBC, BACKEND_MAKES_REQUESTS, &measure),
                 -EIO);
    backend_fault_ops.fini(slow);
    backend_fault_ops.fini(broken);
    backend_cpu_ops.fini(cpu);
}

Test(offer, judges_requests)
{
    struct measure measure = {.request_ns = 899, .software_ns = 1000};

    cr_expect(measure_request_gains(&measure));
    measure.request_ns = 901;
    cr_expect_not(measure_request_gains(&measure));
    measure.request_ns = MEASURE_NONE;
    cr_expect_not(measure_request_gains(&measure));
}

Test(offer, judges_keystream)
{
    struct measure measure = {
        .software_ns = 1000, .keystream_ns = 1000, .keystream_cpu_ns = 1000, .take_ns = 500};

    cr_expect(measure_keystream_gains(&measure, 2, false));
    cr_expect_not(measure_keystream_gains(&measure, 1, false), "no other CPU");
    measure.take_ns = 501;
    cr_expect_not(measure_keystream_gains(&measure, 2, false), "twice the work for less than half");
    measure.take_ns = 100;
    measure.keystream_ns = 1101;
    cr_expect_not(measure_keystream_gains(&measure, 2, false), "it would be waited for");
    // An engine's work costs this machine no CPU time but its requests.
    measure.keystream_cpu_ns = 200;
    cr_expect(measure_keystream_gains(&measure, 1, true));
    measure.keystream_cpu_ns = 850;
    cr_expect_not(measure_keystream_gains(&measure, 1, true));
    cr_expect(measure_keystream_gains(&measure, 2, true));
    measure.keystream_ns = 2000;
    cr_expect_not(measure_keystream_gains(&measure, 2, true), "too slow to wait for");
}
