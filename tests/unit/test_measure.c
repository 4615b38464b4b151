// SPDX-License-Identifier: MIT
// That each lane is measured, and what happens when a driver is slow, fails or is not waited for.
// What the figures are is the machine's business.
#include "measure.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAKES_BOTH (BACKEND_MAKES_REQUESTS | BACKEND_MAKES_KEYSTREAM)
#define BULK       6u // index of 64 KiB
#define MS         UINT64_C(1000000)

static struct backend *cpu, *other;
static struct measure_bench *bench;
static int bell[2];
static _Atomic bool cancelled;
static uint32_t n_sizes;

static struct backend *start(const struct backend_ops *ops, const char *fault)
{
    const struct backend_settings settings = {.workers = 1, .fault = fault};
    struct backend *backend = NULL;

    cr_assert_eq(ops->init(&settings, &backend), 0);
    return backend;
}

static void setup(void)
{
    cpu = start(&backend_cpu_ops, NULL);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, bell), 0);
    cr_assert_eq(measure_bench_new(bell, &bench), 0);
    cancelled = false;
    n_sizes = 0;
}

static void teardown(void)
{
    measure_bench_free(bench);
    close(bell[0]);
    close(bell[1]);
    if (other)
        backend_fault_ops.fini(other);
    backend_cpu_ops.fini(cpu);
}

TestSuite(measure, .init = setup, .fini = teardown, .timeout = 120);

static void count_size(void *user)
{
    (void)user;
    n_sizes++;
}

static int run(const char *fault, enum algorithm_id algorithm, uint32_t makes, uint64_t time_ns,
               struct measure_table *ret)
{
    struct measure_subject subject = {
        .ops = &backend_cpu_ops,
        .backend = cpu,
        .software_ops = &backend_cpu_ops,
        .software = cpu,
        .algorithm = algorithm,
        .makes = makes,
    };
    const struct measure_limits limits = {
        .until_ns = measure_now_ns() + time_ns, .cancelled = &cancelled, .on_size = count_size};

    if (fault) {
        other = start(&backend_fault_ops, fault);
        subject.ops = &backend_fault_ops;
        subject.backend = other;
    }
    measure_table_clear(ret);
    return measure_run(bench, &subject, &limits, ret);
}

Test(measure, makes_every_cell)
{
    struct measure_table table;

    cr_assert_eq(run(NULL, ALGORITHM_AES_128_CTR, MAKES_BOTH, 60000 * MS, &table), 0);
    cr_expect_eq(n_sizes, MESSAGE_SIZES);
    cr_expect_gt(table.wake_ns, 0);
    for (uint32_t i = 0; i < MESSAGE_SIZES; i++) {
        for (enum message_cost cost = 0; cost < MESSAGE_COST_COUNT; cost++) {
            cr_expect_gt(table.costs[cost].ns[i], 0);
            cr_expect_neq(table.costs[cost].ns[i], MEASURE_NONE, "cost %d, size %u", cost, i);
            cr_expect_neq(table.costs[cost].cpu_ns[i], MEASURE_NONE);
        }
        cr_expect_gt(table.costs[MESSAGE_COST_REQUEST].ns[i], table.wake_ns,
                     "a wake-up is part of each request");
    }
}

Test(measure, measures_what_there_is)
{
    struct measure_table table;

    cr_assert_eq(run(NULL, ALGORITHM_DES_EDE3_CBC, BACKEND_MAKES_REQUESTS, 60000 * MS, &table), 0);
    for (uint32_t i = 0; i < MESSAGE_SIZES; i++) {
        cr_expect_neq(table.costs[MESSAGE_COST_REQUEST].ns[i], MEASURE_NONE);
        cr_expect_eq(table.costs[MESSAGE_COST_KEYSTREAM].ns[i], MEASURE_NONE);
        cr_expect_eq(table.costs[MESSAGE_COST_TAKE].ns[i], MEASURE_NONE);
    }
    cr_assert_eq(run(NULL, ALGORITHM_CHACHA20, BACKEND_MAKES_KEYSTREAM, 60000 * MS, &table), 0);
    cr_expect_eq(table.costs[MESSAGE_COST_REQUEST].ns[BULK], MEASURE_NONE);
    cr_expect_neq(table.costs[MESSAGE_COST_KEYSTREAM].ns[BULK], MEASURE_NONE);
}

// 64 KiB take 5 ms each here, and 256 KiB four times that.
Test(measure, tells_waiting_from_working)
{
    struct measure_table table;

    cr_assert_eq(run("delay_ms=5", ALGORITHM_AES_128_CTR, MAKES_BOTH, 60000 * MS, &table), 0);
    cr_expect_geq(table.costs[MESSAGE_COST_REQUEST].ns[BULK], 5 * MS + table.wake_ns);
    cr_expect_geq(table.costs[MESSAGE_COST_KEYSTREAM].ns[BULK], 5 * MS);
    cr_expect_geq(table.costs[MESSAGE_COST_KEYSTREAM].ns[BULK + 1], 20 * MS);
    cr_expect_lt(table.costs[MESSAGE_COST_KEYSTREAM].cpu_ns[BULK],
                 table.costs[MESSAGE_COST_KEYSTREAM].ns[BULK], "a delay is no work");
}

// A round of 64 KiB takes 80 ms, so two of them and one to begin with leave no time for the rest.
Test(measure, a_slow_driver_is_left)
{
    struct measure_table table;

    cr_assert_eq(run("delay_ms=40", ALGORITHM_AES_128_CTR, MAKES_BOTH, 400 * MS, &table), 0);
    cr_expect_eq(n_sizes, MESSAGE_SIZES, "progress goes on to the end");
    for (uint32_t i = 0; i < BULK; i++)
        cr_expect_eq(table.costs[MESSAGE_COST_REQUEST].ns[i], MEASURE_NONE, "size %u", i);
}

Test(measure, ends_when_cancelled)
{
    struct measure_table table;

    cancelled = true;
    cr_assert_eq(run("error_after=0", ALGORITHM_AES_128_CTR, MAKES_BOTH, 60000 * MS, &table), 0,
                 "no operation begins");
    cr_expect_eq(table.costs[MESSAGE_COST_SOFTWARE].ns[BULK], MEASURE_NONE);
}

Test(measure, reports_errors)
{
    struct measure_table table, before;

    measure_table_clear(&before);
    cr_expect_eq(
        run("error_after=2", ALGORITHM_AES_128_CBC, BACKEND_MAKES_REQUESTS, 60000 * MS, &table),
        -EIO);
    cr_expect_eq(memcmp(&table, &before, sizeof(table)), 0);
    backend_fault_ops.fini(other);
    cr_expect_eq(
        run("open_error", ALGORITHM_AES_128_CBC, BACKEND_MAKES_REQUESTS, 60000 * MS, &table), -EIO);
    cr_expect_eq(n_sizes, MESSAGE_SIZES, "of the first one alone");
}
