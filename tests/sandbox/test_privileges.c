// SPDX-License-Identifier: MIT
// What is left of a process after sandbox_harden_process() and sandbox_drop_privileges(): looked at
// from inside and from outside.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/securebits.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confined.h"

#define TEST_UID 61980
#define TEST_GID 61981

static void need_root(void)
{
    if (geteuid() != 0)
        cr_skip_test("needs root, to have something to give up");
}

TestSuite(privileges, .init = need_root, .timeout = 300);

static bool capability_have(cap_flag_t set, cap_value_t value)
{
    cap_flag_value_t is = CAP_CLEAR;
    cap_t caps = cap_get_proc();
    bool have = cap_get_flag(caps, value, set, &is) == 0 && is == CAP_SET;

    cap_free(caps);
    return have;
}

static int look_at_identity(void)
{
    uid_t u[3];
    gid_t g[3];

    CONFINED_STEP(getresuid(&u[0], &u[1], &u[2]) == 0 && getresgid(&g[0], &g[1], &g[2]) == 0);
    CONFINED_STEP(u[0] == TEST_UID && u[1] == TEST_UID && u[2] == TEST_UID);
    CONFINED_STEP(g[0] == TEST_GID && g[1] == TEST_GID && g[2] == TEST_GID);
    CONFINED_STEP(getgroups(0, NULL) == 0);
    CONFINED_STEP(setuid(0) == -1 && errno == EPERM);
    CONFINED_STEP(seteuid(0) == -1 && errno == EPERM);
    CONFINED_STEP(setgid(0) == -1 && errno == EPERM);
    return 0;
}

static int look_at_capabilities(bool net_admin)
{
    for (cap_value_t cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
        bool kept = net_admin && cap == CAP_NET_ADMIN;

        CONFINED_STEP(prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 0);
        CONFINED_STEP(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) == 0);
        CONFINED_STEP(capability_have(CAP_PERMITTED, cap) == kept);
        CONFINED_STEP(capability_have(CAP_EFFECTIVE, cap) == kept);
        CONFINED_STEP(!capability_have(CAP_INHERITABLE, cap));
    }
    CONFINED_STEP(
        (prctl(PR_GET_SECUREBITS) & (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_KEEP_CAPS)) ==
        (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED));
    CONFINED_STEP(prctl(PR_SET_SECUREBITS, 0) == -1);
    return 0;
}

static int look_at_process(void)
{
    struct rlimit core;

    CONFINED_STEP(prctl(PR_GET_DUMPABLE) == 0);
    CONFINED_STEP(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    CONFINED_STEP(getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur == 0 && core.rlim_max == 0);
    CONFINED_STEP(umask(0) == 077);
    return 0;
}

// Nothing is there, nothing can be made there, and no way leads out.
static int look_at_root(void)
{
    CONFINED_STEP(access("/proc", F_OK) == -1);
    CONFINED_STEP(access("/etc/passwd", F_OK) == -1);
    CONFINED_STEP(open("/x", O_CREAT | O_WRONLY | O_CLOEXEC, 0600) == -1);
    CONFINED_STEP(mkdir("/x", 0700) == -1);
    CONFINED_STEP(chdir("../../..") == 0 || errno == EACCES || errno == ESRCH); // by kernel
    CONFINED_STEP(access("etc/passwd", F_OK) == -1);
    CONFINED_STEP(chroot(".") == -1);
    return 0;
}

static int drop_run(const void *argument)
{
    const bool *net_admin = argument;
    const bool have = capability_have(CAP_PERMITTED, CAP_NET_ADMIN);
    int r;

    CONFINED_STEP(sandbox_harden_process() == 0);
    CONFINED_STEP(sandbox_drop_privileges(SANDBOX_ROOT_NOWHERE, TEST_UID, TEST_GID, *net_admin) ==
                  0);
    r = look_at_identity();
    if (r == 0)
        r = look_at_capabilities(*net_admin && have);
    if (r == 0)
        r = look_at_process();
    return r == 0 ? look_at_root() : r;
}

Test(privileges, all_are_gone)
{
    const bool net_admin = false;

    confined_assert_exit(confined_run(drop_run, &net_admin), 0, "the child");
}

Test(privileges, net_admin_alone_is_kept)
{
    const bool net_admin = true;

    confined_assert_exit(confined_run(drop_run, &net_admin), 0, "the child");
}

static int without_net_admin_run(const void *argument)
{
    const cap_value_t lost = CAP_NET_ADMIN;
    const bool net_admin = true;
    cap_t caps = cap_get_proc();

    (void)argument;
    CONFINED_STEP(cap_set_flag(caps, CAP_EFFECTIVE, 1, &lost, CAP_CLEAR) == 0);
    CONFINED_STEP(cap_set_flag(caps, CAP_PERMITTED, 1, &lost, CAP_CLEAR) == 0);
    CONFINED_STEP(cap_set_proc(caps) == 0);
    cap_free(caps);
    return drop_run(&net_admin);
}

Test(privileges, net_admin_that_is_not_there_is_not_missed)
{
    confined_assert_exit(confined_run(without_net_admin_run, NULL), 0, "the child");
}

// ---------------------------------------------------------------- roots that will not do

struct root_case {
    const char *path;
    int expected;
};

static int root_run(const void *argument)
{
    const struct root_case *c = argument;
    int r = sandbox_drop_privileges(c->path, TEST_UID, TEST_GID, false);

    CONFINED_STEP(r == c->expected);
    if (r == 0)
        CONFINED_STEP(access("/etc/passwd", F_OK) == -1 && look_at_identity() == 0);
    else
        CONFINED_STEP(geteuid() == 0); // the caller must exit, and can still say why
    return 0;
}

static void root_try(const char *path, int expected)
{
    const struct root_case c = {path, expected};

    confined_assert_exit(confined_run(root_run, &c), 0, path);
}

Test(privileges, roots_are_checked)
{
    char folder[] = "/tmp/cryptod-test-XXXXXX";
    char inner[PATH_MAX];

    cr_assert(mkdtemp(folder));
    root_try(folder, 0);
    cr_assert(chmod(folder, 0777) == 0);
    root_try(folder, -EPERM);
    cr_assert(chmod(folder, 0755) == 0 && chown(folder, TEST_UID, TEST_GID) == 0);
    root_try(folder, -EPERM);
    cr_assert(chown(folder, 0, 0) == 0);
    (void)snprintf(inner, sizeof(inner), "%s/link", folder);
    cr_assert(symlink("/", inner) == 0);
    root_try(inner, -ENOTDIR);
    root_try(folder, -ENOTEMPTY);
    (void)unlink(inner);
    (void)rmdir(folder);
    root_try(folder, -ENOENT);
    root_try("/etc/passwd", -ENOTDIR);
}

// A killed start could leave behind what it had made.
static int make_nothing_run(const void *argument)
{
    static const int calls[] = {SCMP_SYS(mkdir), SCMP_SYS(mkdirat), SCMP_SYS(mknod),
                                SCMP_SYS(mknodat)};
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

    CONFINED_STEP(filter);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        CONFINED_STEP(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EROFS), calls[i], 0) == 0);
    CONFINED_STEP(seccomp_load(filter) == 0);
    seccomp_release(filter);
    CONFINED_STEP(mkdir("/tmp/cryptod-test-refused", 0700) == -1 && errno == EROFS);
    return drop_run(argument);
}

Test(privileges, nowhere_needs_nothing_made)
{
    const bool net_admin = false;

    confined_assert_exit(confined_run(make_nothing_run, &net_admin), 0, "the child");
}

static int no_root_run(const void *argument)
{
    (void)argument;
    CONFINED_STEP(sandbox_drop_privileges(NULL, TEST_UID, TEST_GID, false) == 0);
    CONFINED_STEP(access("/etc/passwd", F_OK) == 0);
    return look_at_identity();
}

Test(privileges, a_root_is_optional)
{
    confined_assert_exit(confined_run(no_root_run, NULL), 0, "the child");
}

static int become_root_run(const void *argument)
{
    (void)argument;
    CONFINED_STEP(sandbox_drop_privileges(NULL, 0, TEST_GID, false) == -EINVAL);
    CONFINED_STEP(sandbox_drop_privileges(NULL, TEST_UID, 0, false) == -EINVAL);
    CONFINED_STEP(geteuid() == 0 && getegid() == 0);
    return 0;
}

Test(privileges, root_is_no_identity_to_take)
{
    confined_assert_exit(confined_run(become_root_run, NULL), 0, "the child");
}

static int not_root_run(const void *argument)
{
    (void)argument;
    CONFINED_STEP(setgroups(0, NULL) == 0 && setresgid(TEST_GID, TEST_GID, TEST_GID) == 0);
    CONFINED_STEP(setresuid(TEST_UID, TEST_UID, TEST_UID) == 0);
    CONFINED_STEP(sandbox_drop_privileges(NULL, TEST_UID + 1, TEST_GID, false) < 0);
    return 0;
}

Test(privileges, who_cannot_give_up_fails)
{
    confined_assert_exit(confined_run(not_root_run, NULL), 0, "the child");
}

// ---------------------------------------------------------------- the hardened process

static int descriptors_run(const void *argument)
{
    struct stat null, st;

    (void)argument;
    CONFINED_STEP(stat("/dev/null", &null) == 0);
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    CONFINED_STEP(sandbox_harden_process() == 0);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        CONFINED_STEP(fstat(fd, &st) == 0 && st.st_rdev == null.st_rdev);
    CONFINED_STEP(fcntl(STDERR_FILENO + 1, F_GETFD) == -1);
    return 0;
}

static int open_descriptors_run(const void *argument)
{
    struct stat before, after;

    CONFINED_STEP(fstat(STDERR_FILENO, &before) == 0);
    for (int fd = STDERR_FILENO + 1; fd < 64; fd++)
        close(fd);
    CONFINED_STEP(sandbox_harden_process() == 0);
    CONFINED_STEP(fstat(STDERR_FILENO, &after) == 0 && before.st_ino == after.st_ino);
    close(STDIN_FILENO);
    return descriptors_run(argument);
}

Test(privileges, standard_descriptors_are_never_free)
{
    confined_assert_exit(confined_run(open_descriptors_run, NULL), 0, "the child");
}

// One child gives everything up and waits; another of the same uid tries to look into it.
static int spy_run(const void *argument)
{
    const pid_t *victim = argument;

    CONFINED_STEP(setgroups(0, NULL) == 0 && setresgid(TEST_GID, TEST_GID, TEST_GID) == 0);
    CONFINED_STEP(setresuid(TEST_UID, TEST_UID, TEST_UID) == 0);
    CONFINED_STEP(ptrace(PTRACE_ATTACH, *victim, 0, 0) == -1 && errno == EPERM);
    return 0;
}

Test(privileges, same_user_cannot_look_in)
{
    int ready[2], status = 0;
    char byte;
    pid_t victim;

    cr_assert(pipe2(ready, O_CLOEXEC) == 0);
    victim = fork();
    cr_assert(victim >= 0);
    if (victim == 0) {
        alarm(60);
        if (sandbox_harden_process() != 0 ||
            sandbox_drop_privileges(SANDBOX_ROOT_NOWHERE, TEST_UID, TEST_GID, false) != 0)
            _exit(1);
        (void)!write(ready[1], "r", 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    cr_assert(read(ready[0], &byte, 1) == 1, "the victim did not start");
    confined_assert_exit(confined_run(spy_run, &victim), 0, "the child");
    cr_assert(kill(victim, SIGKILL) == 0 && waitpid(victim, &status, 0) == victim);
}
