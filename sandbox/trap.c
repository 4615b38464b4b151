// SPDX-License-Identifier: MIT
// Guarantees: the handler calls nothing but write() and _exit(). Even here a refused call is never
// carried out.
#include "trap.h"

#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALLS_MAX 600 // numbers are dense and below 500 today
#define NAME_SIZE 32

static char names[CALLS_MAX][NAME_SIZE];

static void text_write(const char *text)
{
    size_t n = strlen(text);

    while (n > 0) {
        ssize_t done = write(STDERR_FILENO, text, n);

        if (done <= 0)
            return;
        text += done;
        n -= (size_t)done;
    }
}

static void number_write(unsigned number)
{
    char text[16];
    size_t at = sizeof(text) - 1;

    text[at] = '\0';
    do {
        text[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    text_write(text + at);
}

static void signal_handle(int signal_number, siginfo_t *info, void *context)
{
    unsigned call = (unsigned)info->si_syscall;

    (void)signal_number;
    (void)context;
    text_write("sandbox: system call ");
    number_write(call);
    text_write(" (");
    text_write(call < CALLS_MAX && names[call][0] != '\0' ? names[call] : "unknown");
    text_write(") is not in the policy\n");
    _exit(TRAP_EXIT_STATUS);
}

static void names_fill(void)
{
    for (int call = 0; call < CALLS_MAX; call++) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call);

        if (name) {
            (void)snprintf(names[call], sizeof(names[call]), "%s", name);
            free(name);
        }
    }
}

int trap_install(void)
{
    struct sigaction action = {.sa_sigaction = signal_handle, .sa_flags = SA_SIGINFO};
    sigset_t only;

    names_fill();
    sigemptyset(&action.sa_mask);
    sigemptyset(&only);
    sigaddset(&only, SIGSYS);
    if (sigaction(SIGSYS, &action, NULL) < 0 || sigprocmask(SIG_UNBLOCK, &only, NULL) < 0)
        return -errno;
    return 0;
}
