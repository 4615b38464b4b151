// SPDX-License-Identifier: MIT
// Threads of the engine that work for drivers: how they are made, and until when one waits for
// them.
#ifndef CRYPTOD_DAEMON_THREAD_H
#define CRYPTOD_DAEMON_THREAD_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

// Starts a thread with a small stack (256 KiB) that takes no signals: those are the main thread's,
// and one that hit a driver's call would cut it short. 0 or a negative errno.
int thread_start(void *(*run)(void *arg), void *arg, pthread_t *ret);

// The time of that clock in ms milliseconds, for pthread_timedjoin_np() and the like.
struct timespec thread_deadline(clockid_t clock, uint32_t ms);

#endif
