// SPDX-License-Identifier: MIT
// What tests read of other processes in /proc.
#ifndef CRYPTOD_TESTS_FIXTURE_PROC_H
#define CRYPTOD_TESTS_FIXTURE_PROC_H

#include <stdbool.h>
#include <sys/types.h>

// Whether the process exists and is not a zombie.
bool fixture_proc_lives(pid_t pid);

// The youngest living child of parent whose command line begins with title, or 0. Zombies with
// parent == getpid() are reaped on the way if they were cryptod's.
pid_t fixture_proc_find_child(pid_t parent, const char *title);

// How many descriptors the process has open, the one that counts its own included; 0 if that cannot
// be seen.
unsigned fixture_proc_count_descriptors(pid_t pid);

#endif
