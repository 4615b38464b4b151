// SPDX-License-Identifier: MIT
// Guarantees: the caller's signal mask is as before. Must not know what threads do.
#include "thread.h"

#include <signal.h>

#define THREAD_STACK ((size_t)256 * 1024) // bytes; OpenSSL and libkcapi need a few KiB

int thread_start(void *(*run)(void *arg), void *arg, pthread_t *ret)
{
    sigset_t all, before;
    pthread_attr_t attr;
    int r = -pthread_attr_init(&attr);

    if (r < 0)
        return r;
    sigfillset(&all);
    sigdelset(&all, SIGSYS); // SANDBOX_TRAP's handler names the call
    r = -pthread_attr_setstacksize(&attr, THREAD_STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (r == 0)
        r = -pthread_create(ret, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return r;
}

struct timespec thread_deadline(clockid_t clock, uint32_t ms)
{
    struct timespec until;

    clock_gettime(clock, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    return until;
}
