// SPDX-License-Identifier: MIT
// Forks of every kind in mid-stream, against the real daemon: right bytes on both sides, a channel
// for each, and no byte written to a file that is not the channel's.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client_flow.h"
#include "fixture.h"

static struct fixture fixture;

static void stop(void)
{
    fixture_stop(&fixture);
}

TestSuite(client_fork, .timeout = 300, .fini = stop);

// In a child: n steps.
static int child_run(struct client_flow *flow, int n)
{
    for (int i = 0; i < n; i++)
        if (!client_flow_step_is_right(flow, 30000 + (size_t)i))
            return 1;
    return 0;
}

// In a child: steps until the stream is in the child's own lane.
static int child_enter_lane(struct client_flow *flow)
{
    for (int i = 0; i < 10000; i++) {
        if (cryptod_stream_lane(flow->stream) != CRYPTOD_LANE_SOFTWARE)
            return 0;
        if (!client_flow_step_is_right(flow, 4099))
            return 1;
        usleep(1000);
    }
    return 2;
}

static void start(const char *extra_conf)
{
    fixture_start(&fixture, extra_conf);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
}

Test(client_fork, both_go_on_from_the_same_byte)
{
    start(CLIENT_PATIENT);
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++) {
        struct client_flow flow;
        client_flow_init(&flow, id, id % 2 == 0);
        if (id != ALGORITHM_CHACHA20)
            client_flow_enter_lane(&flow);
        client_flow_step(&flow, 100001);
        pid_t pid = fork();
        if (pid == 0) {
            struct cryptod_counters counters = client_counters();
            if (client_lane_bytes() != 0 || counters.software_bytes != 0)
                _exit(10);
            int r = child_run(&flow, 20);
            if (r == 0 && id != ALGORITHM_CHACHA20)
                r = child_enter_lane(&flow);
            if (r == 0)
                r = child_run(&flow, 20);
            if (r == 0 && id != ALGORITHM_CHACHA20 && client_lane_bytes() < 300000)
                r = 11;
            cryptod_stream_free(flow.stream); // not the parent's
            _exit(r);
        }
        client_flow_run(&flow, 20);
        cr_assert_eq(client_wait(pid), 0, "%s", flow.info->name);
        if (id != ALGORITHM_CHACHA20)
            cr_assert_neq(cryptod_stream_lane(flow.stream), CRYPTOD_LANE_SOFTWARE);
        client_flow_run(&flow, 20);
        client_flow_fini(&flow);
    }
    cr_assert_eq(client_counters().fallbacks, 0);
    cryptod_close();
    fixture_stop(&fixture);
}

// Five processes deep, each with a channel that status shows under its own pid; then all at once.
Test(client_fork, every_process_has_its_own_channel)
{
    struct client_flow flow;
    struct cryptod_status *status;
    pid_t top = getpid();
    int depth = 0;

    start(CLIENT_PATIENT);
    client_flow_init(&flow, ALGORITHM_AES_128_CTR, true);
    client_flow_enter_lane(&flow);
    pid_t pid = 0;
    while (depth < 5 && (pid = fork()) == 0) {
        depth++;
        if (child_enter_lane(&flow) != 0)
            _exit(20 + depth);
    }
    int r = depth < 5 ? client_wait(pid) : 0;
    if (r == 0)
        r = child_run(&flow, 10);
    if (r == 0 && cryptod_status_get(NULL, 10000, &status) < 0)
        r = 30;
    bool found = false;
    for (size_t i = 0; r == 0 && i < status->n_channel_rows; i++)
        found |= status->channel_rows[i].pid == (uint32_t)getpid();
    if (r == 0 && !found)
        r = 31;
    if (getpid() != top)
        _exit(r);
    cr_assert_eq(r, 0);
    cryptod_status_free(status);
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);
}

// What a program's child does before it runs a shell: closes everything, opens its own files.
// Streams are used and freed after that; the files must stay as they are.
Test(client_fork, closed_descriptors_are_never_somebody_elses_files)
{
    enum { N_FILES = 200 };
    struct client_flow flow;
    char path[128];

    start(CLIENT_PATIENT);
    client_flow_init(&flow, ALGORITHM_AES_128_CBC, true);
    client_flow_enter_lane(&flow);
    snprintf(path, sizeof path, "%s/files", fixture.folder);
    cr_assert_eq(mkdir(path, 0700), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int r = child_enter_lane(&flow), first = 0;
        closefrom(3);
        for (int i = 0; r == 0 && i < N_FILES; i++) {
            snprintf(path, sizeof path, "%s/files/%d", fixture.folder, i);
            int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
            if (fd < 0 || (i == 0 && fd != 3))
                r = 40;
            first = i == 0 ? fd : first;
        }
        if (r == 0)
            r = child_run(&flow, 20);
        if (r == 0 && cryptod_stream_lane(flow.stream) != CRYPTOD_LANE_SOFTWARE)
            r = 41;
        cryptod_stream_free(flow.stream);
        cryptod_close();
        for (int i = 0; r == 0 && i < N_FILES; i++) {
            struct stat st;
            if (fstat(first + i, &st) != 0 || st.st_size != 0)
                r = 42;
        }
        _exit(r);
    }
    cr_assert_eq(client_wait(pid), 0);
    client_flow_run(&flow, 10);
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);
}

// The same in the process that opened the channel.
Test(client_fork, a_program_that_closes_everything_goes_on_in_software)
{
    struct client_flow flow;
    int pair[2];

    start(CLIENT_PATIENT);
    client_flow_init(&flow, ALGORITHM_AES_256_CTR, true);
    client_flow_enter_lane(&flow);
    pid_t pid = fork();
    if (pid == 0) {
        int r = child_enter_lane(&flow);
        closefrom(3);
        if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0)
            r = 50;
        for (int fd = 10; fd < 60 && r == 0; fd++)
            r = dup2(pair[fd % 2], fd) == fd ? 0 : 51;
        if (r == 0)
            r = child_run(&flow, 5);
        if (r == 0 && client_counters().fallbacks != 1)
            r = 52;
        char byte;
        if (r == 0 && (recv(pair[0], &byte, 1, MSG_DONTWAIT) != -1 ||
                       recv(pair[1], &byte, 1, MSG_DONTWAIT) != -1))
            r = 53;
        if (r == 0 && cryptod_open(NULL, 5000) != 0) // a new channel, by the program's own will
            r = 54;
        _exit(r != 0 ? r : child_enter_lane(&flow));
    }
    cr_assert_eq(client_wait(pid), 0);
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);
}

// The daemon is stopped: a child must not pay more than the timeout of cryptod_open(), and a second
// one in a row nothing.
Test(client_fork, a_stopped_daemon_does_not_hold_children_up)
{
    struct client_flow flow;

    fixture_start(&fixture, CLIENT_PATIENT);
    cr_assert_eq(cryptod_open(NULL, 300), 0);
    client_flow_init(&flow, ALGORITHM_AES_128_CTR, true);
    client_flow_enter_lane(&flow);
    pid_t front = fixture_role_pid(&fixture, "front"),
          engine = fixture_role_pid(&fixture, "engine");
    kill(fixture.monitor, SIGSTOP);
    kill(front, SIGSTOP);
    kill(engine, SIGSTOP);
    pid_t pid = fork();
    if (pid == 0) {
        int r = child_run(&flow, 3);
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(client_lane_bytes() == 0 ? child_run(&flow, 3) : 60);
        int status;
        waitpid(grandchild, &status, 0);
        _exit(r != 0 ? r : WEXITSTATUS(status));
    }
    cr_assert_eq(client_wait(pid), 0);
    kill(engine, SIGCONT);
    kill(front, SIGCONT);
    kill(fixture.monitor, SIGCONT);
    client_flow_run(&flow, 5);
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);
}

static _Atomic bool threads_stop;

static void *keep_busy(void *argument)
{
    struct client_flow *flow = argument;

    while (!threads_stop)
        if (!client_flow_step_is_right(flow, 65536))
            return flow;
    return NULL;
}

// Other threads hold the channel at the moment of the fork, again and again.
Test(client_fork, among_busy_threads)
{
    struct client_flow flows[3], flow;
    pthread_t threads[3];
    void *wrong;

    start(CLIENT_PATIENT);
    client_flow_init(&flow, ALGORITHM_AES_256_CBC, true);
    client_flow_step(&flow, 50000);
    for (uint32_t i = 0; i < 3; i++) {
        client_flow_init(&flows[i], i + 2, true);
        cr_assert_eq(pthread_create(&threads[i], NULL, keep_busy, &flows[i]), 0);
    }
    for (int i = 0; i < 30; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            // A stream that a vanished thread was using may be freed, if nothing else.
            cryptod_stream_free(flows[0].stream);
            int r = child_run(&flow, 3);
            _exit(r != 0 ? r : child_enter_lane(&flow));
        }
        client_flow_step(&flow, 50000);
        cr_assert_eq(client_wait(pid), 0, "fork %d", i);
    }
    threads_stop = true;
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(pthread_join(threads[i], &wrong), 0);
        cr_assert_null(wrong, "thread %u", i);
        client_flow_fini(&flows[i]);
    }
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);
}

// A program that is executed finds nothing of the channel; without one it finds as much.
Test(client_fork, nothing_survives_an_exec)
{
    char counts[2][16] = {"", ""};

    for (int round = 0; round < 2; round++) {
        if (round == 1)
            start(CLIENT_PATIENT);
        int out[2];
        cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
        pid_t pid = fork();
        if (pid == 0) {
            dup2(out[1], STDOUT_FILENO);
            execl("/bin/sh", "sh", "-c", "ls /proc/self/fd | wc -l", (char *)NULL);
            _exit(127);
        }
        cr_assert_gt(read(out[0], counts[round], sizeof counts[round] - 1), 0);
        cr_assert_eq(client_wait(pid), 0);
        close(out[0]);
        close(out[1]);
    }
    cr_assert_str_eq(counts[0], counts[1]);
    cryptod_close();
    fixture_stop(&fixture);
}
