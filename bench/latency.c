// SPDX-License-Identifier: MIT
// A 16-byte request through client library, bell, engine and back, over the round trip of a bare
// Unix seqpacket ping-pong between two processes. Needs a daemon with the cpu backend (bench/run
// starts it).
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define ROUND_TRIPS 20000
#define PAIRS       7
#define N_BYTES     16

struct context {
    cryptod_stream *stream;
    int ping_fd;
};

// The other end of the bare ping-pong; a process of its own, as the engine is.
static pid_t start_ponger(int *ret_fd)
{
    int sv[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
        harness_die("socketpair: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        harness_die("fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(sv[0]);
        uint8_t packet[N_BYTES];
        while (read(sv[1], packet, sizeof packet) == (ssize_t)sizeof packet)
            if (write(sv[1], packet, sizeof packet) != (ssize_t)sizeof packet)
                break;
        _exit(0);
    }
    close(sv[1]);
    *ret_fd = sv[0];
    return pid;
}

static struct harness_pair measure(void *argument)
{
    struct context *context = argument;
    uint8_t packet[N_BYTES] = {0};
    struct cryptod_counters before, after;

    double start = harness_now();
    for (int i = 0; i < ROUND_TRIPS; i++)
        if (write(context->ping_fd, packet, sizeof packet) != (ssize_t)sizeof packet ||
            read(context->ping_fd, packet, sizeof packet) != (ssize_t)sizeof packet)
            harness_die("ping-pong: %s", strerror(errno));
    double bare = harness_now() - start;

    cryptod_counters_get(&before);
    start = harness_now();
    for (int i = 0; i < ROUND_TRIPS; i++)
        if (cryptod_stream_crypt(context->stream, packet, packet, sizeof packet) < 0)
            harness_die("crypt failed");
    double ours = harness_now() - start;
    cryptod_counters_get(&after);
    if (after.request_operations - before.request_operations != ROUND_TRIPS)
        harness_die("only %llu of %d calls went through the daemon",
                    (unsigned long long)(after.request_operations - before.request_operations),
                    ROUND_TRIPS);
    return (struct harness_pair){ours / ROUND_TRIPS * 1e6, bare / ROUND_TRIPS * 1e6};
}

int main(void)
{
    struct context context = {.ping_fd = -1};
    pid_t ponger = start_ponger(&context.ping_fd);
    context.stream = harness_request_stream(CRYPTOD_AES_128_CBC, N_BYTES);
    printf("latency: microseconds a round trip, cryptod / bare seqpacket, %d round trips each\n",
           ROUND_TRIPS);
    harness_run("latency", PAIRS, measure, &context);
    cryptod_stream_free(context.stream);
    cryptod_close();
    close(context.ping_fd);
    waitpid(ponger, NULL, 0);
    return 0;
}
