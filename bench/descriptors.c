// SPDX-License-Identifier: MIT
// bench-descriptors PID: the CPU time of process PID (the daemon's front, which is out of
// descriptors) over real time, while 100 clients more than it has room for wait to be accepted.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness.h"

#define WAITING 100
#define WATCH_S 3
#define SAMPLES 5

static void connect_one(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0 || strlen(path) >= sizeof address.sun_path)
        harness_die("no socket for %s", path);
    strcpy(address.sun_path, path);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        harness_die("%s: %s", path, strerror(errno));
}

static double cpu_of(const char *pid)
{
    char path[64], text[512] = "";
    unsigned long user = 0, system = 0;

    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    FILE *in = fopen(path, "re");
    const char *rest = in && fread(text, 1, sizeof text - 1, in) > 0 ? strrchr(text, ')') : NULL;
    if (in)
        fclose(in);
    if (!rest ||
        sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        harness_die("process %s has ended", pid);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static struct harness_pair measure(void *pid)
{
    double cpu = cpu_of(pid), began = harness_now();

    sleep(WATCH_S);
    cpu = cpu_of(pid) - cpu;
    return (struct harness_pair){cpu, harness_now() - began};
}

int main(int argc, char **argv)
{
    const char *path = getenv("CRYPTOD_SOCKET");

    if (argc != 2 || !path)
        harness_die("usage: CRYPTOD_SOCKET=PATH bench-descriptors PID");
    for (int i = 0; i < WAITING; i++)
        connect_one(path);
    printf("descriptors: seconds of CPU time / seconds, front with no descriptor left, %d clients "
           "waiting\n",
           WAITING);
    harness_run("descriptors", SAMPLES, measure, argv[1]);
    return 0;
}
