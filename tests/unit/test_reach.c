// SPDX-License-Identifier: MIT
// Who else can reach AF_ALG, in words; and the trial itself, compared with a socket of the test's.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reach.h"

static char folder[64];

static void setup(void)
{
    snprintf(folder, sizeof(folder), "/tmp/cryptod-reach.XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void drop_in_remove(const char *unit)
{
    char path[160];

    snprintf(path, sizeof(path), "%s/%s.d/cryptod-no-af-alg.conf", folder, unit);
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
}

static void teardown(void)
{
    drop_in_remove("ssh.service");
    drop_in_remove("user@.service");
    rmdir(folder);
}

TestSuite(reach, .init = setup, .fini = teardown, .timeout = 60);

static void drop_in_make(const char *unit)
{
    char path[160];

    snprintf(path, sizeof(path), "%s/%s.d", folder, unit);
    cr_assert_eq(mkdir(path, 0755), 0);
    snprintf(path, sizeof(path), "%s/%s.d/cryptod-no-af-alg.conf", folder, unit);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    cr_assert_geq(fd, 0);
    close(fd);
}

static void expect_words(int result, const char *words)
{
    char text[224];

    reach_describe(result, folder, text, sizeof(text));
    cr_expect_str_eq(text, words);
}

Test(reach, names_the_units_that_deny_it)
{
    expect_words(0, "in reach of any process of this machine; cryptod(8) says how to keep it");
    drop_in_make("ssh.service");
    expect_words(0, "in reach of any process of this machine but those of: ssh.service");
    drop_in_make("user@.service");
    expect_words(
        0, "in reach of any process of this machine but those of: ssh.service, user@.service");
}

Test(reach, says_why_nobody_reaches_it)
{
    expect_words(EAFNOSUPPORT, "out of reach for an ordinary process: Address family not supported "
                               "by protocol");
    expect_words(-ETIMEDOUT, "who else can reach it is not known: Connection timed out");
}

Test(reach, is_tried)
{
    int fd = socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), error = errno;

    if (geteuid() != 0)
        cr_skip_test("needs root, to become nobody");
    int r = reach_try();
    if (fd < 0)
        cr_expect_eq(r, error, "%d, not %d", r, error);
    else
        cr_expect_geq(r, 0, "%s", strerror(-r));
    if (fd >= 0)
        close(fd);
    cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "no process is left behind");
    cr_expect_eq(errno, ECHILD);
}
