// SPDX-License-Identifier: MIT
// How a role becomes nobody in nowhere. Guarantees: sandbox_drop_privileges() returns 0 only if
// everything was given up and a look back confirms it. Knows nothing of which role it is for.
#include "sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdalign.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECUREBITS                                                                                 \
    (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED |                        \
     SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

// A descriptor 0, 1 or 2 that is not open would be taken by the next socket, and a stray print
// would write into it.
static int standard_descriptors_fill(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        if (open("/dev/null", O_RDWR) != fd)
            return errno != 0 ? -errno : -EBADF;
    }
    return 0;
}

int sandbox_harden_process(void)
{
    const struct rlimit none = {0, 0};
    int r = standard_descriptors_fill();

    if (r < 0)
        return r;
    umask(077);
    if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return 0;
}

static int go_nowhere(void *unused)
{
    (void)unused;
    return chroot("/proc/self/fdinfo") < 0 || chdir("/") < 0 ? errno : 0;
}

// A directory of a process that has ended is empty for good: nothing can be made in it, by anybody
// (Chromium, sandbox/linux/services/credentials.cc). The child shares root and working directory
// with its maker and nothing else. Nothing is made on a disk, so nothing stays there if the process
// is killed in the middle.
static int root_vanish(void)
{
    alignas(16) char stack[16 * 1024]; // a copy of it is the child's
    int status = 0;
    pid_t pid = clone(go_nowhere, stack + sizeof(stack), CLONE_FS, NULL);

    if (pid < 0)
        return -errno;
    while (waitpid(pid, &status, __WALL) < 0)
        if (errno != EINTR)
            return -errno;
    if (!WIFEXITED(status))
        return -ECHILD;
    return -WEXITSTATUS(status);
}

// -ENOTEMPTY, or -EPERM if somebody but root could put something in later.
static int directory_check(int fd)
{
    struct stat st;
    struct dirent *entry;
    DIR *directory;
    int copy, r = 0;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_uid != 0 || (st.st_mode & 022) != 0)
        return -EPERM;
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    directory = copy < 0 ? NULL : fdopendir(copy);
    if (!directory) {
        r = -errno;
        if (copy >= 0)
            close(copy);
        return r;
    }
    while (r == 0 && (entry = readdir(directory)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            r = -ENOTEMPTY;
    closedir(directory);
    return r;
}

static int root_change(const char *root)
{
    int fd, r;

    if (strcmp(root, SANDBOX_ROOT_NOWHERE) == 0)
        return root_vanish();
    fd = open(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = fd < 0 ? -errno : directory_check(fd);
    if (r == 0 && (fchdir(fd) < 0 || chroot(".") < 0 || chdir("/") < 0))
        r = -errno;
    if (fd >= 0)
        close(fd);
    return r;
}

static int bounding_set_empty(void)
{
    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return -errno;
    return 0;
}

// The set that stays: CAP_NET_ADMIN if it is asked for and there, else nothing; never anything
// inheritable. `more` is needed for a moment longer (-1: nothing).
static int capabilities_make(bool net_admin, cap_value_t more, cap_t *ret)
{
    const cap_value_t values[2] = {net_admin ? CAP_NET_ADMIN : more, more};
    const int n = (net_admin ? 1 : 0) + (more >= 0 ? 1 : 0);
    cap_t caps = cap_init();

    if (!caps)
        return -ENOMEM;
    if (n > 0 && (cap_set_flag(caps, CAP_PERMITTED, n, values, CAP_SET) < 0 ||
                  cap_set_flag(caps, CAP_EFFECTIVE, n, values, CAP_SET) < 0)) {
        int r = -errno;

        cap_free(caps);
        return r;
    }
    *ret = caps;
    return 0;
}

static int capabilities_set(bool net_admin, cap_value_t more)
{
    cap_t caps = NULL;
    int r = capabilities_make(net_admin, more, &caps);

    if (r < 0)
        return r;
    if (cap_set_proc(caps) < 0)
        r = -errno;
    cap_free(caps);
    return r;
}

static int capabilities_check(bool net_admin)
{
    cap_t want = NULL, have;
    int r = capabilities_make(net_admin, -1, &want);

    if (r < 0)
        return r;
    have = cap_get_proc();
    if (!have || cap_compare(want, have) != 0)
        r = -EPERM;
    cap_free(have);
    cap_free(want);
    return r;
}

static bool capability_have(cap_value_t value)
{
    cap_flag_value_t set = CAP_CLEAR;
    cap_t caps = cap_get_proc();
    bool have = caps && cap_get_flag(caps, value, CAP_PERMITTED, &set) == 0 && set == CAP_SET;

    cap_free(caps);
    return have;
}

const char *sandbox_describe_capabilities(void)
{
    return capability_have(CAP_NET_ADMIN) ? "CAP_NET_ADMIN" : "no capabilities";
}

// Keeps the permitted set over the change of identity, because locking the secure bits comes last:
// they would forbid the change's own side effects otherwise.
static int identity_change(uint32_t uid, uint32_t gid, bool net_admin)
{
    int r, death_signal = 0;

    if (prctl(PR_GET_PDEATHSIG, &death_signal, 0, 0, 0) < 0 ||
        prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setgroups(0, NULL) < 0 ||
        setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return -errno;
    r = capabilities_set(net_admin, CAP_SETPCAP);
    if (r == 0 && prctl(PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0) < 0)
        r = -errno;
    if (r == 0)
        r = capabilities_set(net_admin, -1);
    // The kernel sets it anew at a change of identity, from fs.suid_dumpable.
    if (r == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        r = -errno;
    // It also forgets how the process shall end when its parent does.
    if (r == 0 && prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0) < 0)
        r = -errno;
    return r;
}

static int privileges_check(uint32_t uid, uint32_t gid, bool net_admin)
{
    uid_t u[3];
    gid_t g[3];

    if (getresuid(&u[0], &u[1], &u[2]) < 0 || getresgid(&g[0], &g[1], &g[2]) < 0)
        return -errno;
    for (size_t i = 0; i < 3; i++)
        if (u[i] != uid || g[i] != gid)
            return -EPERM;
    if (getgroups(0, NULL) != 0 || setuid(0) == 0 || setgid(0) == 0 ||
        prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
        return -EPERM;
    return capabilities_check(net_admin);
}

int sandbox_drop_privileges(const char *root, uint32_t uid, uint32_t gid, bool keep_net_admin)
{
    const bool net_admin = keep_net_admin && capability_have(CAP_NET_ADMIN);
    int r;

    if (uid == 0 || gid == 0)
        return -EINVAL;
    r = root ? root_change(root) : 0;
    if (r == 0)
        r = bounding_set_empty();
    if (r == 0 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        r = -errno;
    if (r == 0)
        r = identity_change(uid, gid, net_admin);
    return r == 0 ? privileges_check(uid, gid, net_admin) : r;
}
