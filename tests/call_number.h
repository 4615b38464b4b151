// SPDX-License-Identifier: MIT
// The number under which the kernel has a system call.
#ifndef CRYPTOD_TESTS_CALL_NUMBER_H
#define CRYPTOD_TESTS_CALL_NUMBER_H

// As seccomp_syscall_resolve_name(): below zero for a call of other architectures only,
// __NR_SCMP_ERROR for none. But where a call has a number of its own and is part of socketcall or
// ipc too, its own, which libseccomp does not tell.
int call_number(const char *name);

#endif
