// SPDX-License-Identifier: MIT
// The thread that measures: results, one run at a time, and drivers that are slow or hang.
#include "calibration.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#define MAKES_BOTH (BACKEND_MAKES_REQUESTS | BACKEND_MAKES_KEYSTREAM)
#define BULK       6u
#define WAIT_MS    60000

TestSuite(calibration, .timeout = 180);

static struct backend *cpu;
static struct calibration *calibration;
static _Atomic unsigned n_changes;

static void on_change(void *user)
{
    (void)user;
    n_changes++;
}

static struct backend *start(const struct backend_ops *ops, const char *fault)
{
    const struct backend_settings settings = {.workers = 1, .fault = fault};
    struct backend *backend = NULL;

    cr_assert_eq(ops->init(&settings, &backend), 0);
    return backend;
}

static void begin(void)
{
    cpu = start(&backend_cpu_ops, NULL);
    cr_assert_eq(calibration_new(on_change, NULL, &calibration), 0);
}

static void end(void)
{
    cr_assert(calibration_stop(calibration, WAIT_MS));
    calibration_free(calibration);
    backend_cpu_ops.fini(cpu);
}

static struct measure_subject subject(const struct backend_ops *ops, struct backend *backend)
{
    return (struct measure_subject){
        .ops = ops,
        .backend = backend,
        .software_ops = &backend_cpu_ops,
        .software = cpu,
        .algorithm = ALGORITHM_AES_128_CTR,
        .makes = MAKES_BOTH,
        .driver = ops->name,
    };
}

static void wait_end(void)
{
    for (int i = 0; i < WAIT_MS && !calibration_finish(calibration); i++)
        usleep(1000);
    cr_assert(calibration_finish(calibration), "the run does not end");
}

Test(calibration, measures_job_by_job)
{
    struct measure_subject jobs[2];
    struct calibration_progress progress;
    struct measure_table table;

    begin();
    struct backend *broken = start(&backend_fault_ops, "error_after=0");
    cr_expect_eq(calibration_get_result(calibration, 0, &table), -ETIMEDOUT, "none yet");
    cr_expect_eq(calibration_start(calibration, jobs, 0), -EINVAL);
    for (int round = 0; round < 2; round++) {
        jobs[0] = subject(&backend_fault_ops, broken);
        jobs[1] = subject(&backend_cpu_ops, cpu);
        n_changes = 0;
        cr_assert_eq(calibration_start(calibration, jobs, 2), 0);
        cr_expect_eq(calibration_start(calibration, jobs, 2), -EBUSY);
        wait_end();
        calibration_get_progress(calibration, &progress);
        cr_expect_eq(progress.total, 2 * MESSAGE_SIZES);
        cr_expect_eq(progress.done, progress.total);
        cr_expect_eq(n_changes, progress.total + 1);
        cr_expect_eq(calibration_get_result(calibration, 0, &table), -EIO);
        cr_expect_eq(calibration_get_result(calibration, 1, &table), 0);
        cr_expect_neq(table.costs[MESSAGE_COST_TAKE].ns[BULK], MEASURE_NONE);
        cr_expect_eq(calibration_get_result(calibration, 2, &table), -ETIMEDOUT);
    }
    end();
    backend_fault_ops.fini(broken);
}

// Seven jobs whose operations take longer than their shares: none of them gets anywhere, the last
// job is measured all the same.
Test(calibration, slow_drivers_leave_time_for_others)
{
    struct measure_subject jobs[8];
    struct measure_table table;

    begin();
    struct backend *slow = start(&backend_fault_ops, "delay_ms=300");
    for (int i = 0; i < 7; i++)
        jobs[i] = subject(&backend_fault_ops, slow);
    jobs[7] = subject(&backend_cpu_ops, cpu);
    cr_assert_eq(calibration_start(calibration, jobs, 8), 0);
    wait_end();
    for (uint32_t i = 0; i < 7; i++)
        cr_expect_eq(calibration_get_result(calibration, i, &table), -ETIMEDOUT, "job %u", i);
    cr_expect_eq(calibration_get_result(calibration, 7, &table), 0);
    end();
    backend_fault_ops.fini(slow);
}

Test(calibration, can_be_stopped)
{
    struct measure_subject jobs[2];
    struct measure_table table;

    begin();
    struct backend *slow = start(&backend_fault_ops, "delay_ms=20");
    jobs[0] = jobs[1] = subject(&backend_fault_ops, slow);
    cr_assert_eq(calibration_start(calibration, jobs, 2), 0);
    cr_expect(calibration_stop(calibration, WAIT_MS));
    cr_expect_eq(calibration_get_result(calibration, 1, &table), -ETIMEDOUT);
    // And used again.
    jobs[0] = subject(&backend_cpu_ops, cpu);
    cr_assert_eq(calibration_start(calibration, jobs, 1), 0);
    wait_end();
    cr_expect_eq(calibration_get_result(calibration, 0, &table), 0);
    end();
    backend_fault_ops.fini(slow);
}

static _Atomic bool hangs;

static int crypt_hang(struct backend_key *key, bool encrypt, const uint8_t iv[16], uint8_t *out,
                      const uint8_t *in, size_t n_bytes)
{
    (void)key;
    (void)encrypt;
    (void)iv;
    (void)out;
    (void)in;
    (void)n_bytes;
    hangs = true;
    while (hangs)
        pause();
    return 0;
}

Test(calibration, a_driver_that_hangs_is_not_waited_for)
{
    struct backend_ops ops = backend_cpu_ops;
    struct measure_subject jobs[2];
    struct measure_table table;

    begin();
    ops.name = "hung";
    ops.crypt = crypt_hang;
    jobs[0] = subject(&backend_cpu_ops, cpu);
    jobs[1] = subject(&ops, cpu);
    cr_assert_eq(calibration_start(calibration, jobs, 2), 0);
    for (int i = 0; i < WAIT_MS && !hangs; i++)
        usleep(1000);
    cr_assert(hangs);
    cr_expect_not(calibration_stop(calibration, 200));
    cr_expect_not(calibration_finish(calibration));
    cr_expect_eq(calibration_start(calibration, jobs, 1), -EBUSY);
    cr_expect_eq(calibration_get_result(calibration, 0, &table), 0);
    cr_expect_eq(calibration_get_result(calibration, 1, &table), -ETIMEDOUT);
}
