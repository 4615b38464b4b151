// SPDX-License-Identifier: MIT
// Whose memory is this? A forked child inherits the channel's memory, but the channel is its
// parent's. Told without a system call.
#ifndef CRYPTOD_CLIENT_FORK_H
#define CRYPTOD_CLIENT_FORK_H

#include <stdbool.h>

// Makes the mark of ownership and registers `child` to be called in forked children; once, later
// calls do nothing. Not after a sandbox. 0, or a negative errno (-EINVAL: a kernel before 4.14,
// which cannot keep the mark from children).
int fork_prepare(void (*child)(void));

// Whether this process made the mark, or has claimed it. false in a child that has not, however it
// was made: fork(), or a clone() that calls no handlers.
bool fork_is_ours(void);

// Whether the memory came from a parent that made the mark, and has not been claimed.
bool fork_is_foreign(void);

// In a forked child, when what it inherited is cleared away: from here on the state is its own.
void fork_claim(void);

#endif
