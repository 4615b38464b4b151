// SPDX-License-Identifier: MIT
// A thread that measures while the engine serves. Knows the jobs that it is given, not where they
// come from; a driver that hangs in it keeps nothing but the thread.
//
// Threads: everything but on_change is the main thread's.
#ifndef CRYPTOD_DAEMON_CALIBRATION_H
#define CRYPTOD_DAEMON_CALIBRATION_H

#include "measure.h"

#define CALIBRATION_JOBS_MAX 32u
#define CALIBRATION_TIME_MS  2500u // of one run, and one operation more

struct calibration;

struct calibration_progress {
    uint32_t done; // of total: sizes of jobs
    uint32_t total;
    uint32_t job; // that it is at
    bool ended;   // the thread is done with everything
};

// Makes what needs descriptors; no thread yet. on_change is called in the thread, after each size
// and at the end; it must only signal. 0 or a negative errno.
int calibration_new(void (*on_change)(void *user), void *user, struct calibration **ret);

// Begins a run over at most CALIBRATION_JOBS_MAX jobs, which are copied. -EBUSY: there is one that
// calibration_finish() has not ended; or another negative errno.
int calibration_start(struct calibration *calibration, const struct measure_subject *jobs,
                      uint32_t n_jobs);

void calibration_get_progress(struct calibration *calibration, struct calibration_progress *ret);

// The result of a job. 0; -ETIMEDOUT: not measured (yet), or only so little of it that it says
// nothing; or the negative errno of the operation that failed.
int calibration_get_result(struct calibration *calibration, uint32_t job,
                           struct measure_table *ret);

// Ends a run that has ended, so that another may begin. false: it still runs.
bool calibration_finish(struct calibration *calibration);

// Cancels the run if there is one, and waits for the thread, timeout_ms at most. false: it hangs in
// a driver, and calibration_free() must not be called.
bool calibration_stop(struct calibration *calibration, uint32_t timeout_ms);

// NULL is allowed.
void calibration_free(struct calibration *calibration);

#endif
