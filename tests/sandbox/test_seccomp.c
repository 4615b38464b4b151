// SPDX-License-Identifier: MIT
// Loading, trapping and printing, whatever the policy.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "confined.h"
#include "policy.h"

TestSuite(seccomp, .timeout = 300);

static int status_run(const void *argument)
{
    static char text[8192];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n;

    (void)argument;
    confined_load(SANDBOX_FRONT, SANDBOX_KILL);
    n = read(fd, text, sizeof(text) - 1);
    CONFINED_STEP(n > 0);
    CONFINED_STEP(strstr(text, "\nSeccomp:\t2\n"));
    CONFINED_STEP(strstr(text, "\nNoNewPrivs:\t1\n"));
    return 0;
}

Test(seccomp, kernel_says_that_it_is_loaded)
{
    confined_assert_exit(confined_run(status_run, NULL), 0, "/proc/self/status");
}

static int trap_run(const void *argument)
{
    (void)argument;
    confined_load(SANDBOX_FRONT, SANDBOX_TRAP);
    return socket(AF_INET, SOCK_STREAM, 0) >= 0 ? 2 : 3; // neither is reached
}

Test(seccomp, trap_names_the_call)
{
    char heard[256];
    int status = confined_run_heard(trap_run, NULL, heard, sizeof(heard));

    confined_assert_exit(status, 159, "trapped call");
    cr_assert(strstr(heard, "(socket)"), "%s", heard);
}

Test(seccomp, trap_is_asked_for_in_the_environment)
{
    unsetenv("CRYPTOD_SANDBOX_TRAP");
    cr_assert(sandbox_action_get() == SANDBOX_KILL);
    setenv("CRYPTOD_SANDBOX_TRAP", "0", 1);
    cr_assert(sandbox_action_get() == SANDBOX_KILL);
    setenv("CRYPTOD_SANDBOX_TRAP", "1", 1);
    cr_assert(sandbox_action_get() == SANDBOX_TRAP);
}

Test(seccomp, print_shows_every_row)
{
    char *text = NULL;
    size_t n = 0, lines = 0, rows = 1; // and the line for all other calls
    FILE *out = open_memstream(&text, &n);
    const struct policy_table *table;

    cr_assert(out && sandbox_print(SANDBOX_FRONT, out) == 0);
    fclose(out);
    for (size_t i = 0; (table = policy_role_table(SANDBOX_FRONT, i)); i++)
        rows += table->n_rules;
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    cr_assert(lines == rows, "%zu lines, %zu rows", lines, rows);
    cr_assert(strstr(text, "mmap") && strstr(text, "PROT_READ | PROT_WRITE"));
    free(text);
}

Test(seccomp, print_reports_a_full_disk)
{
    FILE *out = fopen("/dev/full", "w");

    cr_assert(out);
    cr_assert(sandbox_print(SANDBOX_FRONT, out) == -EIO);
    fclose(out);
}
