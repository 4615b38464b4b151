// SPDX-License-Identifier: MIT
// What is offered, under each setting, and what the rows say about it. Without AF_ALG the same must
// hold: its rows are absent, with a reason.
#include "offer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "role.h"

TestSuite(offer, .timeout = 120);

static struct offer offer;

static void setup(uint32_t backends, const char *fault, uint32_t offload)
{
    struct message_role_config config = {.backends = backends};

    strncpy(config.fault, fault, sizeof(config.fault) - 1);
    cr_assert_eq(offer_init(&offer, &config, 2, NULL), 0);
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

// Whoever supervises is told of each driver before it is used, and once it has come back.
struct told {
    unsigned n_begun, n_ended;
    char driver[64];
};

static void tell_begin(void *user, enum algorithm_id algorithm, const char *driver)
{
    struct told *told = user;

    cr_assert_lt(algorithm, ALGORITHM_COUNT);
    cr_assert_eq(told->n_begun, told->n_ended, "one at a time");
    told->n_begun++;
    (void)snprintf(told->driver, sizeof(told->driver), "%s", driver);
}

static void tell_end(void *user, enum algorithm_id algorithm, const char *driver)
{
    struct told *told = user;

    cr_assert_lt(algorithm, ALGORITHM_COUNT);
    cr_assert_str_eq(driver, told->driver);
    told->n_ended++;
    cr_assert_eq(told->n_begun, told->n_ended);
}

Test(offer, names_each_driver_before_it_is_tried)
{
    struct message_role_config config = {.backends = CONFIG_BACKEND_FAULT, .fault = "selftest"};
    struct told told = {0};
    const struct offer_trials trials = {.begin = tell_begin, .end = tell_end, .user = &told};

    cr_assert_eq(offer_init(&offer, &config, 2, &trials), 0);
    cr_expect_eq(told.n_ended, ALGORITHM_COUNT);
    told = (struct told){0};
    offer_check_again(&offer, &trials);
    cr_expect_eq(told.n_ended, 1, "once for the backend");
    cr_expect_str_eq(told.driver, "fault-on-order");
    cr_expect_eq(offer.rows[0][0].probe.error, 0);
    offer_fini(&offer);
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

// What software takes for n bytes, and times that for the lanes, in percent.
static struct measure_table make_table(unsigned request, unsigned keystream, unsigned take)
{
    struct measure_table table;

    measure_table_clear(&table);
    for (uint32_t i = 0; i < MESSAGE_SIZES; i++) {
        const unsigned percent[MESSAGE_COST_COUNT] = {100, request, keystream, take};

        for (enum message_cost cost = 0; cost < MESSAGE_COST_COUNT; cost++)
            table.costs[cost].ns[i] = table.costs[cost].cpu_ns[i] =
                (uint64_t)MESSAGE_SIZE_AT(i) * percent[cost];
    }
    return table;
}

Test(offer, offers_nothing_before_it_is_measured)
{
    setup(CONFIG_BACKEND_CPU | CONFIG_BACKEND_FAULT, "delay_ms=0", CONFIG_OFFLOAD_AUTO);
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++)
        for (uint32_t b = 0; b < 2; b++) {
            const struct offer_row *row = &offer.rows[a][b];

            cr_expect_eq(row->lanes, 0);
            cr_expect_eq(row->state, MESSAGE_STATE_DECLINED);
            cr_expect_str_eq(row->text, offer_row_is_measurable(row)
                                            ? "being measured"
                                            : "OpenSSL in the process is as fast");
        }
    // Requests to OpenSSL in another thread are not worth a measurement, keystream from it is.
    cr_expect_not(offer_row_is_measurable(&offer.rows[ALGORITHM_AES_128_CBC][1]));
    cr_expect(offer_row_is_measurable(&offer.rows[ALGORITHM_AES_128_CTR][1]));
    cr_expect(offer_row_is_measurable(&offer.rows[ALGORITHM_AES_128_CBC][0]));
    offer_fini(&offer);
}

Test(offer, offers_what_gains)
{
    const struct measure_table fast = make_table(50, 50, 10), slow = make_table(200, 300, 90);
    struct message_engine_offer message;

    setup(CONFIG_BACKEND_CPU | CONFIG_BACKEND_FAULT, "delay_ms=0", CONFIG_OFFLOAD_AUTO);
    offer.n_cpus = 2;
    offer_put_table(&offer.rows[ALGORITHM_AES_128_CTR][0], 0, &fast);
    offer_put_table(&offer.rows[ALGORITHM_AES_128_CBC][0], 0, &slow);
    offer_put_table(&offer.rows[ALGORITHM_AES_256_CTR][1], 0, &fast);
    offer_put_table(&offer.rows[ALGORITHM_AES_192_CTR][0], -EIO, NULL);
    offer_decide(&offer, CONFIG_OFFLOAD_AUTO, 0);
    offer_get_message(&offer, &message);
    cr_expect_eq(message.offer[ALGORITHM_AES_128_CTR].lanes,
                 MESSAGE_LANE_REQUEST | MESSAGE_LANE_KEYSTREAM);
    cr_expect_eq(message.offer[ALGORITHM_AES_128_CTR].request_min, CHOICE_REQUEST_MIN);
    cr_expect_str_eq(offer.rows[ALGORITHM_AES_128_CTR][0].text,
                     "MB/s: OpenSSL 10, requests 20, keystream 20 made, 100 taken");
    cr_expect_str_eq(offer.rows[ALGORITHM_AES_128_CTR][1].text, "backend fault serves it");
    cr_expect_eq(message.offer[ALGORITHM_AES_128_CBC].lanes, 0);
    cr_expect_eq(message.offer[ALGORITHM_AES_256_CTR].lanes, MESSAGE_LANE_KEYSTREAM,
                 "requests to OpenSSL never gain");
    cr_expect_eq(message.offer[ALGORITHM_AES_256_CTR].request_min, 0);
    cr_expect_str_eq(offer.rows[ALGORITHM_AES_192_CTR][0].text,
                     "could not be measured: Input/output error");
    // A size in the configuration is a floor; without measurement it is the size.
    offer_decide(&offer, CONFIG_OFFLOAD_AUTO, 8192);
    cr_expect_eq(offer.rows[ALGORITHM_AES_128_CTR][0].request_min, 8192);
    offer_decide(&offer, CONFIG_OFFLOAD_ALWAYS, 100);
    cr_expect_eq(offer.rows[ALGORITHM_AES_128_CTR][0].request_min, 100);
    cr_expect_eq(offer.rows[ALGORITHM_AES_128_CBC][0].request_min, 100);
    offer_decide(&offer, CONFIG_OFFLOAD_ALWAYS, 0);
    cr_expect_eq(offer.rows[ALGORITHM_AES_128_CTR][0].request_min, CHOICE_REQUEST_MIN);
    cr_expect_eq(offer.rows[ALGORITHM_AES_128_CBC][0].request_min, 4096);
    // A later failure to measure does not forget what is known.
    offer_put_table(&offer.rows[ALGORITHM_AES_128_CTR][0], -EIO, NULL);
    offer_decide(&offer, CONFIG_OFFLOAD_AUTO, 0);
    cr_expect_eq(offer.rows[ALGORITHM_AES_128_CTR][0].state, MESSAGE_STATE_OFFERED);
    offer_fini(&offer);
}

Test(offer, takes_over_what_was_kept_of_the_same_driver)
{
    const struct measure_table fast = make_table(50, 50, 10);
    struct message_calibration kept, other;

    setup(CONFIG_BACKEND_FAULT, "delay_ms=0", CONFIG_OFFLOAD_AUTO);
    offer_put_table(&offer.rows[ALGORITHM_AES_128_CTR][0], 0, &fast);
    offer_get_calibration(&offer.rows[ALGORITHM_AES_128_CTR][0], &kept);
    cr_expect_eq(kept.algorithm, ALGORITHM_AES_128_CTR);
    cr_expect_str_eq(kept.backend, "fault");
    cr_expect_str_eq(kept.driver, "fault-on-order");
    offer_fini(&offer);
    setup(CONFIG_BACKEND_FAULT, "delay_ms=0", CONFIG_OFFLOAD_AUTO);
    other = kept;
    strcpy(other.driver, "fault-on-another");
    cr_expect_not(offer_take_kept(&offer, &other));
    other = kept;
    strcpy(other.backend, "afalg");
    cr_expect_not(offer_take_kept(&offer, &other));
    other = kept;
    other.algorithm = ALGORITHM_COUNT;
    cr_expect_not(offer_take_kept(&offer, &other));
    cr_expect_eq(offer.rows[ALGORITHM_AES_128_CTR][0].measured, OFFER_UNMEASURED);
    cr_expect(offer_take_kept(&offer, &kept));
    cr_expect_eq(memcmp(&offer.rows[ALGORITHM_AES_128_CTR][0].table, &fast, sizeof(fast)), 0);
    offer_decide(&offer, CONFIG_OFFLOAD_AUTO, 0);
    cr_expect_eq(offer.rows[ALGORITHM_AES_128_CTR][0].state, MESSAGE_STATE_OFFERED);
    offer_fini(&offer);
    setup(CONFIG_BACKEND_FAULT, "bad spec", CONFIG_OFFLOAD_AUTO);
    strcpy(kept.driver, "");
    cr_expect_not(offer_take_kept(&offer, &kept), "it does not work any more");
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
