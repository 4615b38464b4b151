// SPDX-License-Identifier: MIT
// Backend fault: what it is told to do, and nothing else.
#include "backend.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "reference.h"
#include "fault_spec.h"

#define N_BYTES 64

static const struct backend_ops *const ops = &backend_fault_ops;

TestSuite(backend_fault, .timeout = 60);
TestSuite(fault_spec, .timeout = 60);

struct rig {
    struct backend *backend;
    struct backend_key *key;
    uint8_t bytes[ALGORITHM_KEY_MAX];
    enum algorithm_id algorithm;
};

static void setup(struct rig *rig, const char *spec, enum algorithm_id algorithm)
{
    const struct backend_settings settings = {.workers = 2, .fault = spec};

    *rig = (struct rig){.algorithm = algorithm};
    memset(rig->bytes, 7, sizeof(rig->bytes));
    cr_assert_eq(ops->init(&settings, &rig->backend), 0);
    cr_assert_eq(ops->open(rig->backend, algorithm, rig->bytes, &rig->key), 0);
}

static void teardown(struct rig *rig)
{
    ops->close(rig->key);
    ops->fini(rig->backend);
}

// One request. Its error, or 0 and how many bits of the result are wrong.
static int request(struct rig *rig, int *ret_wrong)
{
    uint8_t iv[16] = {9}, data[N_BYTES] = {1}, want[N_BYTES] = {1};
    int r, wrong = 0;

    reference_crypt(rig->algorithm, rig->bytes, iv, true, want, want, N_BYTES);
    r = ops->crypt(rig->key, true, iv, data, data, N_BYTES);
    for (size_t i = 0; i < N_BYTES; i++)
        wrong += __builtin_popcount(data[i] ^ want[i]);
    *ret_wrong = wrong;
    return r;
}

static void expect_good(struct rig *rig)
{
    int wrong;

    cr_expect_eq(request(rig, &wrong), 0);
    cr_expect_eq(wrong, 0);
}

static void expect_error(struct rig *rig)
{
    int wrong;

    cr_expect_eq(request(rig, &wrong), -EIO);
}

Test(backend_fault, is_not_there_without_an_order)
{
    struct backend_settings settings = {.workers = 1};
    struct backend *backend = NULL;

    cr_expect_eq(ops->init(&settings, &backend), -ENOSYS);
    settings.fault = "";
    cr_expect_eq(ops->init(&settings, &backend), -ENOSYS);
    settings.fault = "nonsense";
    cr_expect_eq(ops->init(&settings, &backend), -EINVAL);
    cr_expect_null(backend);
}

Test(backend_fault, fails_after_a_number_of_requests)
{
    struct rig rig;

    setup(&rig, "error_after=2", ALGORITHM_AES_128_CBC);
    expect_good(&rig);
    expect_good(&rig);
    expect_error(&rig);
    expect_error(&rig);
    teardown(&rig);
}

Test(backend_fault, fails_each_nth_request)
{
    struct rig rig;

    setup(&rig, "error_every=3", ALGORITHM_AES_256_CTR);
    for (int i = 0; i < 4; i++) {
        expect_good(&rig);
        expect_good(&rig);
        expect_error(&rig);
    }
    teardown(&rig);
}

Test(backend_fault, flips_one_bit_of_each_nth_request)
{
    struct rig rig;
    int wrong;

    setup(&rig, "wrong_every=2", ALGORITHM_AES_128_CBC);
    for (int i = 0; i < 4; i++) {
        expect_good(&rig);
        cr_expect_eq(request(&rig, &wrong), 0);
        cr_expect_eq(wrong, 1);
    }
    teardown(&rig);
}

Test(backend_fault, delays)
{
    struct timespec start, end;
    struct rig rig;

    setup(&rig, "delay_ms=30", ALGORITHM_AES_128_CBC);
    clock_gettime(CLOCK_MONOTONIC, &start);
    expect_good(&rig);
    clock_gettime(CLOCK_MONOTONIC, &end);
    cr_expect_geq((end.tv_sec - start.tv_sec) * 1000000000L + end.tv_nsec - start.tv_nsec,
                  30000000L);
    teardown(&rig);
}

Test(backend_fault, spares_other_algorithms)
{
    struct rig rig;

    setup(&rig, "algorithm=aes-256-cbc,error_after=0,wrong_every=1", ALGORITHM_AES_128_CBC);
    for (int i = 0; i < 3; i++)
        expect_good(&rig);
    teardown(&rig);
    setup(&rig, "algorithm=aes-256-cbc,error_after=0", ALGORITHM_AES_256_CBC);
    expect_error(&rig);
    teardown(&rig);
}

Test(backend_fault, refuses_keys)
{
    const struct backend_settings settings = {.workers = 1,
                                              .fault = "open_error,algorithm=aes-128-cbc"};
    const uint8_t bytes[ALGORITHM_KEY_MAX] = {0};
    struct backend *backend = NULL;
    struct backend_key *key = NULL;

    cr_assert_eq(ops->init(&settings, &backend), 0);
    cr_expect_eq(ops->open(backend, ALGORITHM_AES_128_CBC, bytes, &key), -EIO);
    cr_expect_null(key);
    cr_expect_eq(ops->open(backend, ALGORITHM_AES_256_CBC, bytes, &key), 0);
    ops->close(key);
    ops->fini(backend);
}

static void *request_forever(void *arg)
{
    int wrong;

    (void)request(arg, &wrong);
    return NULL;
}

Test(backend_fault, hangs)
{
    struct timespec soon;
    pthread_t thread;
    static struct rig rig; // the thread outlives this function

    setup(&rig, "hang_after=1", ALGORITHM_AES_128_CBC);
    expect_good(&rig);
    cr_assert_eq(pthread_create(&thread, NULL, request_forever, &rig), 0);
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec += 1;
    cr_expect_eq(pthread_timedjoin_np(thread, NULL, &soon), ETIMEDOUT);
}

// With a key that is open already, and counted from the new order on.
Test(backend_fault, takes_new_orders)
{
    struct rig rig;
    int wrong;

    setup(&rig, "error_after=1", ALGORITHM_AES_128_CBC);
    expect_good(&rig);
    expect_error(&rig);
    cr_expect_eq(ops->reorder(rig.backend, "error_after=2"), 0);
    expect_good(&rig);
    expect_good(&rig);
    expect_error(&rig);
    cr_expect_eq(ops->reorder(rig.backend, "nonsense"), -EINVAL);
    expect_error(&rig);
    cr_expect_eq(ops->reorder(rig.backend, "wrong_every=2"), 0);
    expect_good(&rig);
    cr_expect_eq(request(&rig, &wrong), 0);
    cr_expect_eq(wrong, 1);
    cr_expect_eq(ops->reorder(rig.backend, "error_after=0,algorithm=aes-256-ctr"), 0);
    expect_good(&rig);
    cr_expect_eq(ops->reorder(rig.backend, ""), 0);
    expect_good(&rig);
    teardown(&rig);
}

Test(backend_fault, probes_as_the_cpu_does)
{
    struct backend_probe probe;
    struct rig rig;

    setup(&rig, "error_after=0", ALGORITHM_AES_128_CBC);
    ops->probe(rig.backend, ALGORITHM_DES_EDE3_CBC, &probe);
    cr_expect_eq(probe.error, 0);
    cr_expect_str_eq(probe.driver, "fault-on-order");
    teardown(&rig);
}

Test(fault_spec, reads_what_is_documented)
{
    struct fault_spec spec;

    cr_assert_eq(fault_spec_parse("", &spec), 0);
    cr_expect(spec.error_after == FAULT_NEVER && spec.hang_after == FAULT_NEVER &&
              spec.error_every == 0 && spec.wrong_every == 0 && spec.delay_ms == 0 &&
              !spec.open_error && !spec.algorithm);
    cr_assert_eq(
        fault_spec_parse("error_after=0,error_every=1,wrong_every=20,hang_after=300,delay_ms=60000,"
                         "open_error,algorithm=DES-EDE3-CBC",
                         &spec),
        0);
    cr_expect_eq(spec.error_after, 0);
    cr_expect_eq(spec.error_every, 1);
    cr_expect_eq(spec.wrong_every, 20);
    cr_expect_eq(spec.hang_after, 300);
    cr_expect_eq(spec.delay_ms, 60000);
    cr_expect(spec.open_error);
    cr_expect_eq(spec.algorithm->id, ALGORITHM_DES_EDE3_CBC);
    cr_expect_eq(spec.n_keys, FAULT_NEVER);
    cr_assert_eq(fault_spec_parse("keys=128,hang_ms=700,jitter_us=1000000,open_hangs", &spec), 0);
    cr_expect_eq(spec.n_keys, 128);
    cr_expect_eq(spec.hang_ms, 700);
    cr_expect_eq(spec.jitter_us, 1000000);
    cr_expect(spec.open_hangs);
}

Test(fault_spec, refuses_the_rest)
{
    static const char *const bad[] = {
        "error_after",
        "error_after=",
        "error_after=-1",
        "error_after=1x",
        "error_after= 1",
        "error_every=0",
        "wrong_every=0",
        "delay_ms=60001",
        "open_error=1",
        "open_hangs=1",
        "hang_ms=0",
        "hang_ms=60001",
        "jitter_us=1000001",
        "keys",
        "algorithm=",
        "algorithm",
        "algorithm=aes",
        "error_after=1,",
        ",error_after=1",
        "error_after=1;delay_ms=1",
        "Error_after=1",
        "error_after=1,,",
        "hang_after=18446744073709551615",
        "error_after=99999999999999999999",
    };
    struct fault_spec spec = {.delay_ms = 77};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_expect_eq(fault_spec_parse(bad[i], &spec), -EINVAL, "'%s'", bad[i]);
    cr_expect_eq(spec.delay_ms, 77);
}
