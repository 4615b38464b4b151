// SPDX-License-Identifier: MIT
// A thread that does for others what could keep them: setting and closing keys in a driver. If it
// never comes back, its driver's jobs pile up, and nobody else waits. Knows nothing of keys.
//
// Threads: any, but for making, looking and ending: the main thread.
#ifndef CRYPTOD_DAEMON_KEEPER_H
#define CRYPTOD_DAEMON_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

struct keeper;

struct keeper_job {
    struct keeper_job *next; // the keeper's
    // In the keeper's thread; the job is not touched afterwards.
    void (*run)(struct keeper_job *job);
};

// No thread yet: that comes with the first job. 0 or a negative errno.
int keeper_new(struct keeper **ret);

// Appends a job, which stays in the keeper's hands until it runs. Never waits. Without a thread
// (none can be made) the job runs here.
void keeper_push(struct keeper *keeper, struct keeper_job *job);

// Waits until *done (set by a job) is true, timeout_ms at most, and not at all while the keeper is
// in a job that somebody has waited for in vain. Returns *done.
bool keeper_wait(struct keeper *keeper, const bool *done, uint32_t timeout_ms);

// For a job: sets *done, and wakes whoever waits for it.
void keeper_tell(struct keeper *keeper, bool *done);

// For how many looks it has been in one job, this one included; 0: it has nothing to do.
uint32_t keeper_look(struct keeper *keeper);

// Does what is left, ends the thread, and frees it. false: it has not ended within timeout_ms, and
// goes on having all of its own. NULL is allowed.
bool keeper_free(struct keeper *keeper, uint32_t timeout_ms);

#endif
