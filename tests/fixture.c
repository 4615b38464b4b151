// SPDX-License-Identifier: MIT
// Guarantees that a test sees a daemon that serves, and leaves no process, socket or folder of it
// behind.
#include "fixture.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fixture_conf.h"
#include "fixture_proc.h"
#include "packet.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FIXTURE_WAIT_MS 40000
#else
#define FIXTURE_WAIT_MS 10000
#endif
#define FIXTURE_STEP_MS 10

static void fixture_sleep_step(void)
{
    nanosleep(&(struct timespec){.tv_nsec = FIXTURE_STEP_MS * 1000000L}, NULL);
}

const char *fixture_built(const char *name)
{
    static _Thread_local char path[4096];
    const char *folder = getenv("CRYPTOD_BUILD");

    if (folder == NULL || *folder == '\0')
        folder = "build/release";
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

char *fixture_log(const struct fixture *f)
{
    FILE *in = fopen(f->log, "re");
    char *text = NULL;
    size_t n = 0;

    cr_assert_not_null(in, "%s: %s", f->log, strerror(errno));
    if (getdelim(&text, &n, '\0', in) < 0) { // an empty log
        free(text);
        text = strdup("");
    }
    fclose(in);
    cr_assert_not_null(text);
    return text;
}

static bool fixture_log_contains(const struct fixture *f, const char *text)
{
    char *log = fixture_log(f);
    bool found = strstr(log, text) != NULL;

    free(log);
    return found;
}

// Fails the test, and shows why in the daemon's own words.
static void fixture_fail(const struct fixture *f, const char *what)
{
    char *log = fixture_log(f);

    cr_log_error("%s; log of the daemon:\n%s", what, log);
    free(log);
    cr_assert_fail("%s", what);
}

void fixture_configure(const struct fixture *f, const char *extra_conf)
{
    char defaults[768];

    snprintf(defaults, sizeof(defaults),
             "daemon.socket=%s\ndaemon.state_directory=%s\ndaemon.front_user=%d\n"
             "daemon.engine_user=%d\n"
             "daemon.log_level=debug\nlanes.offload=always\nlanes.bulk_threshold=0\n"
             "lanes.request_min=1\nengine.backends=cpu\n",
             f->socket, f->state, FIXTURE_FRONT_UID, FIXTURE_ENGINE_UID);
    int r = fixture_conf_write(f->config, defaults, extra_conf);
    cr_assert_eq(r, 0, "%s: %s", f->config, strerror(-r));
}

static void fixture_make_folder(struct fixture *f)
{
    const char *parent = getenv("TMPDIR");

    // The socket's path has 108 bytes.
    if (parent == NULL || *parent != '/' || strlen(parent) > sizeof(f->folder) - 24)
        parent = P_tmpdir;
    snprintf(f->folder, sizeof(f->folder), "%s/cryptod-test.XXXXXX", parent);
    cr_assert_not_null(mkdtemp(f->folder), "%s: %s", f->folder, strerror(errno));
    cr_assert_eq(chmod(f->folder, 0755), 0);
    snprintf(f->socket, sizeof(f->socket), "%s/run/cryptod.sock", f->folder);
    snprintf(f->config, sizeof(f->config), "%s/cryptod.conf", f->folder);
    snprintf(f->log, sizeof(f->log), "%s/log", f->folder);
    snprintf(f->state, sizeof(f->state), "%s/state", f->folder);
    cr_assert_eq(mkdir(f->state, 0700), 0, "%s: %s", f->state, strerror(errno));
}

__attribute__((noreturn)) static void fixture_exec(const struct fixture *f, const char *program,
                                                   int log_fd, pid_t test)
{
    sigset_t none;

    prctl(PR_SET_PDEATHSIG, SIGTERM); // a test that crashes takes its daemon with it
    if (getppid() != test)
        _exit(126);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    if (f->prepare != NULL)
        f->prepare(f->prepare_user);
    execl(program, "cryptod", "--config", f->config, (char *)NULL);
    dprintf(STDERR_FILENO, "%s: %s\n", program, strerror(errno));
    _exit(127);
}

void fixture_launch(struct fixture *f, const char *extra_conf)
{
    fixture_launch_with(f, extra_conf, NULL, NULL);
}

void fixture_launch_with(struct fixture *f, const char *extra_conf, void (*prepare)(void *user),
                         void *user)
{
    const char *program = fixture_built("cryptod");
    pid_t test = getpid();

    *f = (struct fixture){.prepare = prepare, .prepare_user = user};
    if (geteuid() != 0)
        cr_skip_test("cryptod starts as root only");
    cr_assert_eq(access(program, X_OK), 0, "%s: %s", program, strerror(errno));
    // Roles that outlive their monitor become children of the test and are found.
    cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    fixture_make_folder(f);
    fixture_configure(f, extra_conf);
    int log_fd = open(f->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    cr_assert_geq(log_fd, 0, "%s: %s", f->log, strerror(errno));
    setenv("CRYPTOD_SOCKET", f->socket, 1);
    f->monitor = fork();
    cr_assert_geq(f->monitor, 0, "fork: %s", strerror(errno));
    if (f->monitor == 0)
        fixture_exec(f, program, log_fd, test);
    close(log_fd);
}

void fixture_start(struct fixture *f, const char *extra_conf)
{
    fixture_launch(f, extra_conf);
    fixture_wait_serving(f, false);
    fixture_settle(f);
}

static bool fixture_serves(const struct fixture *f, bool software_only)
{
    struct cryptod_status *status = NULL;

    if (cryptod_status_get(f->socket, 2000, &status) < 0)
        return false;
    bool serves = status->software_only == software_only;
    cryptod_status_free(status);
    return serves && (software_only || fixture_role_pid(f, "engine") != 0);
}

void fixture_wait_serving(const struct fixture *f, bool software_only)
{
    for (int waited = 0; !fixture_serves(f, software_only); waited += FIXTURE_STEP_MS) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)f->monitor, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid != 0)
            fixture_fail(f, "cryptod ended before it served");
        if (waited >= FIXTURE_WAIT_MS)
            fixture_fail(f, "cryptod does not serve in time");
        fixture_sleep_step();
    }
}

// A connection whose question has been answered: every connection that was closed before it was
// opened has been dealt with by then.
static int fixture_hold_connection(const struct fixture *f)
{
    const struct message ask = {.type = MESSAGE_STATUS};
    int fd = -1;

    if (packet_connect(f->socket, &fd) < 0 || packet_write(fd, &ask) < 0 ||
        poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, FIXTURE_WAIT_MS) != 1)
        fixture_fail(f, "no connection can be held");
    return fd;
}

void fixture_settle(const struct fixture *f)
{
    pid_t front = fixture_role_pid(f, "front");
    int fd = fixture_hold_connection(f);
    unsigned n_quiet = fixture_proc_count_descriptors(front) - 1;

    close(fd);
    for (int waited = 0; fixture_proc_count_descriptors(front) != n_quiet;
         waited += FIXTURE_STEP_MS) {
        if (waited >= FIXTURE_WAIT_MS)
            fixture_fail(f, "front keeps a connection that was closed");
        fixture_sleep_step();
    }
}

pid_t fixture_role_pid(const struct fixture *f, const char *role)
{
    char title[64];

    if (f->monitor == 0)
        return 0;
    if (strcmp(role, "monitor") == 0)
        return fixture_proc_lives(f->monitor) ? f->monitor : 0;
    snprintf(title, sizeof(title), "cryptod: %s", role);
    return fixture_proc_find_child(f->monitor, title);
}

pid_t fixture_wait_role(const struct fixture *f, const char *role, pid_t old)
{
    for (int waited = 0; waited < FIXTURE_WAIT_MS; waited += FIXTURE_STEP_MS) {
        pid_t pid = fixture_role_pid(f, role);
        if (pid != 0 && pid != old)
            return pid;
        fixture_sleep_step();
    }
    fixture_fail(f, "no process of the role appears");
    return 0;
}

void fixture_wait_log(const struct fixture *f, const char *text)
{
    int waited;

    for (waited = 0; !fixture_log_contains(f, text); waited += FIXTURE_STEP_MS) {
        if (waited >= FIXTURE_WAIT_MS) {
            cr_log_error("not in the log: %s", text);
            fixture_fail(f, "a line is missing in the log");
        }
        fixture_sleep_step();
    }
}

int fixture_wait_end(struct fixture *f)
{
    int waited = 0, status = 0;

    while (waitpid(f->monitor, &status, WNOHANG) == 0) {
        if (waited >= FIXTURE_WAIT_MS) {
            kill(f->monitor, SIGKILL);
            fixture_fail(f, "the monitor does not end in time");
        }
        fixture_sleep_step();
        waited += FIXTURE_STEP_MS;
    }
    f->monitor = 0;
    // A role that was killed at the very end may still be on its way out.
    for (waited = 0; fixture_proc_find_child(getpid(), "cryptod: ") != 0;
         waited += FIXTURE_STEP_MS) {
        if (waited >= FIXTURE_WAIT_MS)
            fixture_fail(f, "a role outlived the monitor");
        fixture_sleep_step();
    }
#ifdef __SANITIZE_THREAD__
    if (fixture_log_contains(f, "WARNING: ThreadSanitizer"))
        fixture_fail(f, "a data race in the daemon");
#endif
    return status;
}

static int fixture_remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

// Whatever a test was about: a role that did what its policy does not let it do is a fault, also
// if the test did not notice that it was replaced. With CRYPTOD_SANDBOX_TRAP=1 the log names the
// call.
static void fixture_expect_no_violation(const struct fixture *f)
{
    if (fixture_log_contains(f, "is not in the policy") ||
        fixture_log_contains(f, "Bad system call"))
        fixture_fail(f, "a role left its sandbox's policy");
}

void fixture_stop(struct fixture *f)
{
    int status = 0;

    if (f->folder[0] == '\0')
        return;
    if (f->monitor != 0) {
        kill(f->monitor, SIGCONT);
        kill(f->monitor, SIGTERM);
        status = fixture_wait_end(f);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fixture_fail(f, "the monitor did not end with status 0");
        cr_assert_neq(access(f->socket, F_OK), 0, "the socket is left behind");
    }
    fixture_expect_no_violation(f);
    cr_assert_eq(nftw(f->folder, fixture_remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0, "%s: %s",
                 f->folder, strerror(errno));
    f->folder[0] = '\0';
    unsetenv("CRYPTOD_SOCKET");
}
