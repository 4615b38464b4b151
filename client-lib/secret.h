// SPDX-License-Identifier: MIT
// Memory for keys. A small arena is mapped, kept out of core files and locked (both best effort)
// before a sandbox goes on; blocks are handed out without system calls. When it is used up, or was
// never made, blocks come from malloc. All are wiped when they are given back.
// Lock-free, so that a forked child needs no repair.
#ifndef CRYPTOD_CLIENT_SECRET_H
#define CRYPTOD_CLIENT_SECRET_H

#include <stddef.h>

#define SECRET_BLOCK_SIZE 320u // bytes, the largest that may be asked for

// Makes the arena if there is none and locks it (memory locks are not inherited over a fork).
// Not after a sandbox.
void secret_prepare(void);

// A zeroed block of SECRET_BLOCK_SIZE bytes, or NULL.
void *secret_new(void);

// Wipes the block and gives it back. NULL is allowed.
void secret_free(void *block);

#endif
