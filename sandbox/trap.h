// SPDX-License-Identifier: MIT
// SANDBOX_TRAP's signal handler: names the system call that the policy lacks, then ends the
// process.
#ifndef CRYPTOD_SANDBOX_TRAP_H
#define CRYPTOD_SANDBOX_TRAP_H

#define TRAP_EXIT_STATUS 159 // what a shell reports for a process that SIGSYS killed

// Handles SIGSYS from now on. 0 or a negative errno. Makes its table of names now: in the handler
// nothing may allocate.
int trap_install(void);

#endif
