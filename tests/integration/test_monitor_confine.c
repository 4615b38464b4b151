// SPDX-License-Identifier: MIT
// The monitor with no more than the unit gives it: capabilities, files, and what it says of both.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "monitor_rig.h"

static struct fixture f;
static char elsewhere[64];

static void teardown(void)
{
    if (elsewhere[0] != '\0')
        unlink(elsewhere);
    fixture_stop(&f);
}

TestSuite(monitor_confine, .fini = teardown, .timeout = 180);

static bool kernel_has_landlock(void)
{
    return syscall(444, NULL, 0, 1u) > 0; // landlock_create_ruleset()
}

static const char *note_get(const struct cryptod_status *status, const char *topic)
{
    for (size_t i = 0; i < status->n_notes; i++)
        if (strcmp(status->notes[i].topic, topic) == 0)
            return status->notes[i].text;
    cr_assert_fail("status says nothing of %s", topic);
    return NULL;
}

// ---------------------------------------------------------------- policies

// What `cryptod --print-sandbox role` prints (n_text bytes); its exit status.
static int print_sandbox(const char *role, char *ret_text, size_t n_text)
{
    char command[256];

    snprintf(command, sizeof(command), "'%s' --print-sandbox %s 2>&1", fixture_built("cryptod"),
             role);
    FILE *in = popen(command, "re");
    cr_assert_not_null(in);
    ret_text[fread(ret_text, 1, n_text - 1, in)] = '\0';
    int status = pclose(in);
    cr_assert(WIFEXITED(status), "%#x", (unsigned)status);
    return WEXITSTATUS(status);
}

Test(monitor_confine, policies_are_printed)
{
    static char text[65536];

    cr_assert_eq(print_sandbox("front", text, sizeof(text)), 0);
    cr_expect_not_null(
        strstr(text, "front      accept4                 allow  # takes in a client\n"));
    cr_expect_not_null(strstr(text, "front      socket                  kill  # "));
    cr_expect_null(strstr(text, "AF_ALG"), "nothing of the engine's");
    cr_assert_eq(print_sandbox("engine", text, sizeof(text)), 0);
    cr_expect_not_null(strstr(text, "engine     socket                  allow if arg0 == AF_ALG, "
                                    "arg1 == SOCK_SEQPACKET (SOCK_FLAGS allowed), arg2 == 0  # "));
    cr_expect_not_null(strstr(text, "any other call: kill; any call of another ABI: kill\n"));
    cr_expect_null(strstr(text, "nanosleep"), "only an engine that fails on order sleeps");
    cr_assert_eq(print_sandbox("monitor", text, sizeof(text)), 2);
    cr_expect_not_null(strstr(text, "takes 'front' or 'engine', not 'monitor'"));
}

// ---------------------------------------------------------------- capabilities

// As systemd/cryptod.service does.
static void take_all_but_the_unit_s(void *user)
{
    static const int kept[] = {CAP_SETUID, CAP_SETGID, CAP_SETPCAP, CAP_SYS_CHROOT};
    const struct rlimit memory = {RLIM_INFINITY, RLIM_INFINITY}, files = {65536, 65536};

    (void)user;
    (void)setrlimit(RLIMIT_MEMLOCK, &memory); // in some containers not even root may
    (void)setrlimit(RLIMIT_NOFILE, &files);
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++) {
        bool keep = false;
        for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
            keep = keep || kept[i] == cap;
        if (!keep && prctl(PR_CAPBSET_DROP, cap) < 0)
            _exit(99);
    }
}

Test(monitor_confine, the_unit_s_capabilities_are_enough)
{
    struct cryptod_status *status = NULL;

    fixture_launch_with(&f, "daemon.ping_interval_ms=100\ndaemon.ping_limit=5\n",
                        take_all_but_the_unit_s, NULL);
    fixture_wait_serving(&f, false);
    pid_t engine = fixture_role_pid(&f, "engine"), front = fixture_role_pid(&f, "front");
    cr_expect_eq(rig_hello(f.socket, NULL), MESSAGE_OK);
    bool locked = rig_proc_status_number(engine, "VmLck:") > 0;

    // One that stands still can be ended by nobody but the monitor, which has no CAP_KILL.
    cr_assert_eq(kill(engine, SIGSTOP), 0);
    fixture_wait_role(&f, "engine", engine);
    fixture_wait_role(&f, "front", front);
    fixture_wait_serving(&f, false);
    cr_expect_eq(kill(engine, 0), -1, "it is gone");
    char *monitor = rig_read_proc(f.monitor, "status");
    cr_expect_not_null(strstr(monitor, "\nUid:\t0\t0\t0\t0\n"), "root again: %s", monitor);
    free(monitor);
    cr_assert_eq(cryptod_status_get(NULL, 2000, &status), 0);
    cr_expect_not_null(strstr(note_get(status, "engine"), "no capabilities"));
    cr_expect_not_null(
        strstr(note_get(status, "engine"), locked ? ", memory locked" : ", memory not locked"));
    cryptod_status_free(status);
}

// ---------------------------------------------------------------- files

Test(monitor_confine, status_says_what_keeps_each_process_in)
{
    const char *landlock = kernel_has_landlock() ? "Landlock (ABI " : "no Landlock (";
    static const char *const roles[] = {"front", "engine"};
    struct cryptod_status *status = NULL;

    fixture_start(&f, NULL);
    cr_assert_eq(cryptod_status_get(NULL, 2000, &status), 0);
    for (size_t i = 0; i < 2; i++) {
        const char *text = note_get(status, roles[i]);
        cr_expect(strstr(text, "seccomp, empty root, ") == text, "%s", text);
        cr_expect_not_null(strstr(text, landlock), "%s", text);
        cr_expect_not_null(strstr(text, "no capabilities"), "%s", text);
    }
    cr_expect_not_null(strstr(note_get(status, "monitor"), landlock));
    cr_expect_not_null(strstr(note_get(status, "AF_ALG"), "not looked at: no backend afalg"));
    cryptod_status_free(status);
}

static void replace_config(const char *with)
{
    char name[128];

    snprintf(name, sizeof(name), "%s.new", f.config);
    cr_assert_eq(symlink(with, name), 0, "%s", strerror(errno));
    cr_assert_eq(rename(name, f.config), 0);
    cr_assert_eq(kill(f.monitor, SIGHUP), 0);
}

// In the folder of the configuration a file may be replaced; a link out of it leads nowhere.
Test(monitor_confine, reads_no_configuration_from_elsewhere)
{
    char inside[128];

    if (!kernel_has_landlock())
        cr_skip_test("this kernel has no Landlock");
    fixture_start(&f, NULL);
    snprintf(inside, sizeof(inside), "%s.inside", f.config);
    cr_assert_eq(rename(f.config, inside), 0);
    replace_config(inside);
    fixture_wait_log(&f, "configuration read again");

    snprintf(elsewhere, sizeof(elsewhere), "/var/tmp/cryptod-test.XXXXXX");
    int fd = mkstemp(elsewhere);
    cr_assert_geq(fd, 0);
    close(fd);
    replace_config(elsewhere);
    fixture_wait_log(&f, "Permission denied; the old configuration stays");
    fixture_wait_serving(&f, false);
}
