// SPDX-License-Identifier: MIT
// A front with 32 descriptors and 100 clients more than it has room for: it pauses without
// spinning, and serves every one of them in the end.
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "front_raw.h"

#define NOFILE  32
#define HOLDERS 8 // that is how many 32 descriptors are enough for (daemon/front/front.c)
#define OPEN    4 // of those have a channel: the engine, too, has 32 descriptors, and needs more each
#define WAITING 100
#define WATCH_S 3

static struct fixture fixture;

static void teardown(void)
{
    fixture_stop(&fixture);
}

TestSuite(descriptors, .timeout = 300, .fini = teardown);

static void limit_descriptors(void *user)
{
    const struct rlimit few = {NOFILE, NOFILE};

    (void)user;
    prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE); // with which the monitor would raise it again
    setrlimit(RLIMIT_NOFILE, &few);
}

// CPU time that a process has used, in seconds.
static double cpu_of(pid_t pid)
{
    char path[64], text[512] = "";
    unsigned long user = 0, system = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *in = fopen(path, "re");
    cr_assert_not_null(in);
    cr_assert_gt(fread(text, 1, sizeof(text) - 1, in), 0);
    fclose(in);
    const char *rest = strrchr(text, ')');
    cr_assert_not_null(rest);
    cr_assert_eq(
        sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system), 2);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static unsigned count_answered(const int *clients)
{
    unsigned n = 0;

    for (int i = 0; i < WAITING; i++) {
        struct pollfd item = {.fd = clients[i], .events = POLLIN};
        n += poll(&item, 1, 0) > 0;
    }
    return n;
}

static void expect_served(int client)
{
    struct message m;

    raw_expect(client, MESSAGE_STATUS_SUMMARY, &m);
    close(client);
}

Test(descriptors, a_full_front_pauses_and_resumes)
{
    const struct message ask = {.type = MESSAGE_STATUS, .serial = 1};
    struct raw_channel channels[OPEN];
    int holders[HOLDERS], clients[WAITING];

    fixture_launch_with(&fixture, RAW_PATIENT "engine.workers=1\n", limit_descriptors, NULL);
    fixture_wait_serving(&fixture, false);
    fixture_settle(&fixture);
    pid_t front = fixture_role_pid(&fixture, "front");
    for (int i = 0; i < OPEN; i++)
        holders[i] = raw_open(&fixture, &channels[i]);
    // Who says nothing for ten seconds would be closed; these begin to be silent now.
    for (int i = OPEN; i < HOLDERS; i++) {
        holders[i] = raw_connect(&fixture);
        cr_assert(raw_send_message(holders[i], &ask, NULL, 0));
    }
    for (int i = 0; i < WAITING; i++) {
        clients[i] = raw_connect(&fixture);
        cr_assert(raw_send_message(clients[i], &ask, NULL, 0));
    }
    raw_wait_log_count(&fixture, "accepting pauses: Too many open files", NULL, 1);

    // CPU time, which another process's load cannot make longer, by time that has really passed.
    double cpu = cpu_of(front), began = seconds();
    sleep(WATCH_S);
    cpu = cpu_of(front) - cpu;
    double share = cpu / (seconds() - began);
    cr_expect_leq(share, 0.05, "%.3f of a CPU while clients wait", share);
    cr_expect_eq(count_answered(clients), 0, "they wait");

    close(holders[0]); // room for one, who goes on to the next
    for (int i = 0; i < WAITING; i++)
        expect_served(clients[i]);
    cr_expect_eq(fixture_role_pid(&fixture, "front"), front);
    for (int i = 1; i < HOLDERS; i++)
        close(holders[i]);
    for (int i = 0; i < OPEN; i++)
        raw_channel_free(&channels[i]);
    raw_wait_channels(&fixture, 0);
    cr_expect_leq(raw_log_count(&fixture, "accepting pauses", NULL), 30, "one in ten seconds");
}
