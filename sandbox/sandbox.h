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
    SANDBOX_FAULTY_ENGINE, // may sleep, too: backend `fault`
    SANDBOX_ROLES,
};

enum sandbox_action {
    SANDBOX_KILL, // the process dies at a call that is not listed (default)
    SANDBOX_TRAP, // SIGSYS; the handler names the call on stderr and exits 159: for tests that look
                  // for missing lines
};

// Not dumpable, no core, no new privileges, no descriptor inheritance surprises. First thing in
// every role.
int sandbox_harden_process(void);

// A root for sandbox_drop_privileges(): the directory in /proc of a process that has ended, so that
// nothing can ever be in it. Needs /proc (-ENOENT).
#define SANDBOX_ROOT_NOWHERE ""

// Locks the process away: chroot to `root` (SANDBOX_ROOT_NOWHERE; or an empty directory, root's,
// not writable to anybody else; NULL: no chroot), no supplementary groups, gid, uid, no
// capabilities beyond keep_net_admin (CAP_NET_ADMIN if the process has it, permitted and
// effective). 0 or a negative errno; after a failure the caller must exit.
int sandbox_drop_privileges(const char *root, uint32_t uid, uint32_t gid, bool keep_net_admin);

enum sandbox_use {
    SANDBOX_USE_READ,  // files and directories
    SANDBOX_USE_RUN,   // read, execute
    SANDBOX_USE_WRITE, // read and write what is there
    SANDBOX_USE_KEEP,  // a directory: read, write, make and remove
    SANDBOX_USE_CLEAR, // a directory: remove empty directories, no more
};

struct sandbox_place {
    const char *path; // and what is beneath it; of no use if it does not exist now
    enum sandbox_use use;
};

// Landlock: from now on this process, its threads to come and its children reach these places of
// the file system and no other (n_places 0: none at all), no TCP port, and, where the kernel can,
// no process outside by a signal and, with n_places 0, no abstract socket outside. What is open
// stays so. The kernel's ABI (1 or more), or a negative errno: nothing was restricted; -ENOSYS and
// -EOPNOTSUPP: this kernel cannot.
int sandbox_limit_files(const struct sandbox_place *places, size_t n_places);

// What sandbox_limit_files() gave, in words.
void sandbox_describe_limit(int limit, char *ret, size_t n);

// What else of privileges is left, in words: "no capabilities" or "CAP_NET_ADMIN".
const char *sandbox_describe_capabilities(void);

// SANDBOX_TRAP if the environment says CRYPTOD_SANDBOX_TRAP=1, else SANDBOX_KILL. Safe to heed: a
// trapped call is not carried out either.
enum sandbox_action sandbox_action_get(void);

// Loads the role's filter for this thread and all made later. 0 or a negative errno.
int sandbox_load(enum sandbox_role role, enum sandbox_action action);

// One line a rule: system call, argument condition, reason; for `cryptod --print-sandbox`.
int sandbox_print(enum sandbox_role role, FILE *out);

#endif
