// SPDX-License-Identifier: MIT
// Landlock, by its bare system calls. Guarantees: asks a kernel only for what that kernel knows, so
// that an old one restricts what it can; a place that does not exist is left out. Must not know
// which process it is for.
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// The kernel's interface as it has grown; the system's headers may be older than the kernel.
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule       445
#define SYS_landlock_restrict_self  446
#endif
#define CREATE_RULESET_VERSION 1u
#define RULE_PATH_BENEATH      1

#define FS_EXECUTE     (1u << 0)
#define FS_WRITE_FILE  (1u << 1)
#define FS_READ_FILE   (1u << 2)
#define FS_READ_DIR    (1u << 3)
#define FS_REMOVE_DIR  (1u << 4)
#define FS_REMOVE_FILE (1u << 5)
#define FS_MAKE_DIR    (1u << 7)
#define FS_MAKE_REG    (1u << 8)
#define FS_MAKE_SOCK   (1u << 9)
#define FS_REFER       (1u << 13) // from ABI 2 on
#define FS_TRUNCATE    (1u << 14) // 3
#define FS_IOCTL_DEV   (1u << 15) // 5
#define FS_FIRST_ABI   ((1u << 13) - 1)
#define FS_OF_FILES    (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

#define NET_TCP ((1u << 0) | (1u << 1)) // bind, connect; 4

#define SCOPE_ABSTRACT_SOCKETS (1u << 0) // 6
#define SCOPE_SIGNALS          (1u << 1) // 6

struct ruleset {
    uint64_t fs;
    uint64_t net;
    uint64_t scoped;
};

struct rule {
    uint64_t access;
    int32_t fd;
} __attribute__((packed));

static uint64_t access_of_use(enum sandbox_use use)
{
    switch (use) {
    case SANDBOX_USE_RUN:
        return FS_READ_FILE | FS_READ_DIR | FS_EXECUTE;
    case SANDBOX_USE_WRITE:
        return FS_READ_FILE | FS_WRITE_FILE;
    case SANDBOX_USE_KEEP:
        return FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE | FS_MAKE_REG |
               FS_MAKE_DIR | FS_MAKE_SOCK | FS_REMOVE_FILE | FS_REMOVE_DIR;
    case SANDBOX_USE_CLEAR:
        return FS_REMOVE_DIR;
    case SANDBOX_USE_READ:
        break;
    }
    return FS_READ_FILE | FS_READ_DIR;
}

// What a kernel of this ABI knows, and how many bytes of the struct it does.
static size_t ruleset_fill(int abi, bool lone, struct ruleset *ret)
{
    *ret = (struct ruleset){.fs = FS_FIRST_ABI};
    if (abi >= 2)
        ret->fs |= FS_REFER;
    if (abi >= 3)
        ret->fs |= FS_TRUNCATE;
    if (abi >= 4)
        ret->net = NET_TCP;
    if (abi >= 5)
        ret->fs |= FS_IOCTL_DEV;
    if (abi >= 6) // a monitor may be told of an abstract socket to notify
        ret->scoped = SCOPE_SIGNALS | (lone ? SCOPE_ABSTRACT_SOCKETS : 0);
    return abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
}

static int place_add(int ruleset_fd, uint64_t handled, const struct sandbox_place *place)
{
    struct rule rule = {.access = access_of_use(place->use) & handled};
    struct stat st;
    int r = 0, fd = open(place->path, O_PATH | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
    rule.fd = fd;
    if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
        rule.access &= FS_OF_FILES;
    if (syscall(SYS_landlock_add_rule, ruleset_fd, RULE_PATH_BENEATH, &rule, 0) < 0)
        r = -errno;
    close(fd);
    return r;
}

static int restrict_to(int abi, const struct sandbox_place *places, size_t n_places)
{
    struct ruleset ruleset;
    size_t n_bytes = ruleset_fill(abi, n_places == 0, &ruleset);
    int fd = (int)syscall(SYS_landlock_create_ruleset, &ruleset, n_bytes, 0);
    int r = fd < 0 ? -errno : 0;

    for (size_t i = 0; r == 0 && i < n_places; i++)
        r = place_add(fd, ruleset.fs, &places[i]);
    if (r == 0 && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                   syscall(SYS_landlock_restrict_self, fd, 0) < 0))
        r = -errno;
    if (fd >= 0)
        close(fd);
    return r;
}

int sandbox_limit_files(const struct sandbox_place *places, size_t n_places)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
    int r;

    if (abi < 0)
        return -errno;
    r = restrict_to((int)abi, places, n_places);
    return r < 0 ? r : (int)abi;
}

void sandbox_describe_limit(int limit, char *ret, size_t n)
{
    if (limit > 0)
        (void)snprintf(ret, n, "Landlock (ABI %d)", limit);
    else if (limit == -ENOSYS)
        (void)snprintf(ret, n, "no Landlock (this kernel has none)");
    else if (limit == -EOPNOTSUPP)
        (void)snprintf(ret, n, "no Landlock (off since this kernel's start)");
    else
        (void)snprintf(ret, n, "no Landlock (%s)", strerror(-limit));
}
