// SPDX-License-Identifier: MIT
// Counts what a process asks the C library's allocator for. One thread at a time counts.
#ifndef CRYPTOD_TESTS_ALLOCATIONS_H
#define CRYPTOD_TESTS_ALLOCATIONS_H

// Counts from zero, in the calling thread.
void allocations_begin(void);

// Calls that took or gave back memory since then, and counts no more.
unsigned allocations_end(void);

#endif
