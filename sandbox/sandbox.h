// SPDX-License-Identifier: MIT
// The sandboxes of the daemon's roles: seccomp policies as tables with a reason a line, and the
// loss of every privilege. Knows nothing of messages or engines. Single-threaded use, before
// threads are made: a filter is inherited by threads made later.
#ifndef CRYPTOD_SANDBOX_H
#define CRYPTOD_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum sandbox_role {
    SANDBOX_FRONT,
    SANDBOX_ENGINE,
};

enum sandbox_action {
    SANDBOX_KILL, // the process dies at a call that is not listed (default)
    SANDBOX_TRAP, // SIGSYS; the handler names the call on stderr and exits 159: for tests that look
                  // for missing lines
};

// Not dumpable, no core, no new privileges, no descriptor inheritance surprises. First thing in
// every role.
int sandbox_harden_process(void);

// A root for sandbox_drop_privileges(): a directory that is made for it and removed at once, so
// that nothing can ever be in it.
#define SANDBOX_ROOT_NOWHERE ""

// Locks the process away: chroot to `root` (SANDBOX_ROOT_NOWHERE; or an empty directory, root's,
// not writable to anybody else; NULL: no chroot), no supplementary groups, gid, uid, no
// capabilities beyond keep_net_admin (CAP_NET_ADMIN if the process has it, permitted and
// effective). 0 or a negative errno; after a failure the caller must exit.
int sandbox_drop_privileges(const char *root, uint32_t uid, uint32_t gid, bool keep_net_admin);

// SANDBOX_TRAP if the environment says CRYPTOD_SANDBOX_TRAP=1, else SANDBOX_KILL. Safe to heed: a
// trapped call is not carried out either.
enum sandbox_action sandbox_action_get(void);

// Loads the role's filter for this thread and all made later. 0 or a negative errno.
int sandbox_load(enum sandbox_role role, enum sandbox_action action);

// One line a rule: system call, argument condition, reason; for `cryptod --print-sandbox`.
int sandbox_print(enum sandbox_role role, FILE *out);

#endif
