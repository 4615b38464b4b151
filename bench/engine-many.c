// SPDX-License-Identifier: MIT
// bench-engine-many DRIVER: 32 KiB aes-128-cbc updates through provider and daemon by four
// processes at once, their sum over one process with direct libkcapi requests of 32 KiB to the same
// driver.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "kernel.h"
#include "provider.h"

#define N_BYTES   32768
#define PROCESSES 4
#define CALLS     500 // of each process
#define PAIRS     9

struct context {
    int workers[PROCESSES];
    struct kernel_cipher *kernel;
};

// A byte in: a run. A byte out: it is done, or at first, ready.
static _Noreturn void work(int fd)
{
    char byte = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct provider_cipher *cipher =
        provider_cipher_new("AES-128-CBC", CRYPTOD_LANE_REQUEST, N_BYTES);
    while (write(fd, &byte, 1) == 1 && read(fd, &byte, 1) == 1)
        provider_cipher_run(cipher, CALLS);
    provider_cipher_free(cipher);
    _exit(0);
}

static void await_workers(const struct context *context)
{
    char byte;
    for (int i = 0; i < PROCESSES; i++)
        if (read(context->workers[i], &byte, 1) != 1)
            harness_die("a process has ended");
}

// Before this process has anything of OpenSSL's or the library's.
static void start_workers(struct context *context)
{
    for (int i = 0; i < PROCESSES; i++) {
        int sv[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
            harness_die("socketpair: %s", strerror(errno));
        pid_t pid = fork();
        if (pid < 0)
            harness_die("fork: %s", strerror(errno));
        if (pid == 0) {
            close(sv[0]);
            for (int j = 0; j < i; j++) // the others see this process's end of theirs as the end
                close(context->workers[j]);
            work(sv[1]);
        }
        close(sv[1]);
        context->workers[i] = sv[0];
    }
    await_workers(context);
}

static struct harness_pair measure(void *argument)
{
    const struct context *context = argument;
    char byte = 0;
    double start = harness_now();
    for (int i = 0; i < PROCESSES; i++)
        if (write(context->workers[i], &byte, 1) != 1)
            harness_die("a process has ended");
    await_workers(context);
    double ours = harness_now() - start;
    double direct = kernel_cipher_run(context->kernel, CALLS * PROCESSES);
    return (struct harness_pair){(double)CALLS * PROCESSES * N_BYTES / ours / 1e6,
                                 (double)CALLS * PROCESSES * N_BYTES / direct / 1e6};
}

int main(int argc, char **argv)
{
    struct context context = {.kernel = NULL};
    if (argc != 2)
        harness_die("usage: bench-engine-many DRIVER");
    start_workers(&context);
    context.kernel = kernel_cipher_new(argv[1], N_BYTES);
    if (context.kernel == NULL)
        harness_die("this kernel has no %s", argv[1]);
    printf("engine-many: MB/s, cryptod in %d processes / libkcapi alone in one, %d bytes\n",
           PROCESSES, N_BYTES);
    harness_run("engine-many", PAIRS, measure, &context);
    for (int i = 0; i < PROCESSES; i++)
        close(context.workers[i]);
    while (wait(NULL) > 0)
        ;
    kernel_cipher_free(context.kernel);
    return 0;
}
