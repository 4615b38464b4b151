// SPDX-License-Identifier: MIT
// Runs a piece of a test in a child that may be killed for it, and judges how the child ended.
#ifndef CRYPTOD_TESTS_CONFINED_H
#define CRYPTOD_TESTS_CONFINED_H

#include <sys/types.h>

#include "sandbox.h"

// In the child; the result is its exit status: 0 if all went well.
typedef int (*confined_body)(const void *argument);

// Forks, runs, waits; returns the status of waitpid(). A child that hangs is ended by SIGALRM after
// a minute.
int confined_run(confined_body body, const void *argument);

// The same, with everything that the child wrote to standard error (n_text bytes, terminated).
int confined_run_heard(confined_body body, const void *argument, char *ret_text, size_t n_text);

// For use in a body: names the condition that does not hold on standard error, and returns 1.
#define CONFINED_STEP(condition)                                                                   \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return confined_complain(__FILE__, __LINE__, #condition);                              \
    } while (0)
int confined_complain(const char *file, unsigned line, const char *condition);

// For use in a body: loads the policy, or ends the child with status 120.
void confined_load(enum sandbox_role role, enum sandbox_action action);

// Waits until a process is in this state of /proc/PID/stat; fails the test after half a minute.
void confined_wait_state(pid_t pid, char state);

// Assertions on a status, which name `what`.
void confined_assert_exit(int status, int expected, const char *what);
void confined_assert_killed(int status, const char *what); // by SIGSYS

#endif
