// SPDX-License-Identifier: MIT
// client-lib/fork.c and session.c: children of every kind, and what they may use.
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cryptod.h"
#include "fake_daemon.h"
#include "reference.h"

#define N_DATA 100000u

TestSuite(fork, .timeout = 120);

static const uint8_t key[32] = {3, 1, 4, 1, 5}, iv[16] = {9, 2, 6};

// Until the daemon has taken the stream's key.
static void wait_for_lane(cryptod_stream *stream)
{
    uint8_t data[16] = {0};

    for (int i = 0; cryptod_stream_lane(stream) != CRYPTOD_LANE_REQUEST; i++) {
        cr_assert_lt(i, 5000, "the stream never got its lane");
        cr_assert_eq(cryptod_stream_crypt(stream, data, data, sizeof data), 0);
        usleep(1000);
    }
    cr_assert_eq(cryptod_stream_init(stream, NULL, iv, true), 0);
}

static cryptod_stream *stream_in_lane(enum cryptod_algorithm algorithm)
{
    cryptod_stream *stream;

    cr_assert_eq(cryptod_stream_new(algorithm, &stream), 0);
    cr_assert_eq(cryptod_stream_init(stream, key, iv, true), 0);
    wait_for_lane(stream);
    return stream;
}

static int exit_status(pid_t pid)
{
    int status;

    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status), "status %#x", status);
    return WEXITSTATUS(status);
}

// The bytes of a stream that a child inherits in the middle; its exit status is 0 if they are
// right.
static void child_goes_on(cryptod_stream *stream, size_t at, bool expect_lane)
{
    uint8_t *plain = calloc(1, N_DATA), *expected = malloc(N_DATA);
    struct cryptod_counters counters;

    cryptod_counters_get(&counters);
    if (counters.software_bytes != 0 || counters.request_operations != 0)
        _exit(2);
    reference_crypt(ALGORITHM_AES_256_CTR, key, iv, true, expected, plain, N_DATA);
    size_t half = at + 20000;
    if (cryptod_stream_crypt(stream, plain + at, plain + at, half - at) != 0)
        _exit(3);
    if (expect_lane)
        for (int i = 0; cryptod_stream_lane(stream) != CRYPTOD_LANE_REQUEST && i < 5000; i++)
            usleep(1000);
    if (cryptod_stream_crypt(stream, plain + half, plain + half, N_DATA - half) != 0)
        _exit(4);
    if (memcmp(plain + at, expected + at, N_DATA - at) != 0)
        _exit(5);
    cryptod_counters_get(&counters);
    if ((counters.request_operations != 0) != expect_lane)
        _exit(6);
    cryptod_stream_free(stream);
    _exit(0);
}

Test(fork, a_child_gets_a_channel_of_its_own)
{
    struct fake_daemon fake;
    uint8_t *data = calloc(1, N_DATA), *expected = calloc(1, N_DATA);

    fake_daemon_init(&fake, 10000);
    fake_daemon_start(&fake);
    cr_assert_eq(cryptod_open(NULL, 10000), 0);
    cryptod_stream *stream = stream_in_lane(CRYPTOD_AES_256_CTR);
    reference_crypt(ALGORITHM_AES_256_CTR, key, iv, true, expected, expected, N_DATA);
    size_t at = 12345;
    cr_assert_eq(cryptod_stream_crypt(stream, data, data, at), 0);
    pid_t pid = fork();
    if (pid == 0)
        child_goes_on(stream, at, true);
    // The parent's stream is not disturbed, neither by the child nor by its end.
    cr_assert_eq(cryptod_stream_crypt(stream, data + at, data + at, 40000), 0);
    cr_assert_eq(exit_status(pid), 0);
    fake_daemon_wait(&fake.lost, 1);
    cr_assert_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_REQUEST);
    at += 40000;
    cr_assert_eq(cryptod_stream_crypt(stream, data + at, data + at, N_DATA - at), 0);
    cr_assert_arr_eq(data, expected, N_DATA);
    cr_assert_eq(atomic_load(&fake.hellos), 2);
    cr_assert_eq(atomic_load(&fake.opens), 2);
    cryptod_stream_free(stream);
    cryptod_close();
    fake_daemon_stop(&fake);
    free(data);
    free(expected);
}

Test(fork, a_child_does_not_try_again_what_has_just_failed)
{
    struct fake_daemon fake;

    fake_daemon_init(&fake, 10000);
    fake_daemon_start(&fake);
    cr_assert_eq(cryptod_open(NULL, 200), 0);
    cryptod_stream *stream = stream_in_lane(CRYPTOD_AES_256_CTR);
    atomic_store(&fake.on_hello, FAKE_SILENT);
    pid_t pid = fork(); // its try fails
    if (pid == 0) {
        pid_t grandchild = fork(); // makes none
        if (grandchild == 0)
            child_goes_on(stream, 0, false);
        int status;
        waitpid(grandchild, &status, 0);
        _exit(WEXITSTATUS(status));
    }
    cr_assert_eq(exit_status(pid), 0);
    cr_assert_eq(atomic_load(&fake.hellos), 2);
    cr_assert_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_REQUEST);
    cryptod_stream_free(stream);
    cryptod_close();
    fake_daemon_stop(&fake);
}

Test(fork, nothing_to_offer_means_no_channel_for_children)
{
    struct fake_daemon fake;

    fake_daemon_init(&fake, 10000);
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++)
        fake.hello.offer[id].lanes = 0;
    fake_daemon_start(&fake);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    cr_assert_eq(exit_status(pid), 0);
    fake_daemon_settle(&fake);
    cr_assert_eq(atomic_load(&fake.hellos), 1);
    cryptod_close();
    fake_daemon_stop(&fake);
}

// A child that was made behind the C library's back runs no handlers. It must see by itself that
// the channel is not its own.
Test(fork, a_bare_clone_stays_in_software)
{
    struct fake_daemon fake;

    fake_daemon_init(&fake, 10000);
    fake_daemon_start(&fake);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    cryptod_stream *stream = stream_in_lane(CRYPTOD_AES_256_CTR);
    uint32_t requests = atomic_load(&fake.requests);
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        uint8_t data[5000] = {0}, expected[5000] = {0};
        if (cryptod_stream_lane(stream) != CRYPTOD_LANE_SOFTWARE ||
            cryptod_offers(CRYPTOD_AES_256_CTR) || cryptod_open(NULL, 1000) != -ECHILD ||
            cryptod_stream_crypt(stream, data, data, sizeof data) != 0)
            _exit(1);
        reference_crypt(ALGORITHM_AES_256_CTR, key, iv, true, expected, expected, sizeof expected);
        int wrong = memcmp(data, expected, sizeof data) != 0;
        cryptod_stream_free(stream);
        cryptod_close();
        _exit(wrong ? 2 : 0);
    }
    cr_assert_eq(exit_status(pid), 0);
    fake_daemon_settle(&fake);
    cr_assert_eq(atomic_load(&fake.requests), requests);
    cr_assert_eq(atomic_load(&fake.closes), 0);
    cr_assert_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_REQUEST);
    cryptod_stream_free(stream);
    cryptod_close();
    fake_daemon_stop(&fake);
}

static pid_t alarm_child;

static void fork_on_alarm(int number)
{
    (void)number;
    alarm_child = fork();
}

// fork() in a signal handler, while this very thread waits for the engine.
Test(fork, a_fork_in_the_middle_of_a_request)
{
    struct fake_daemon fake;
    uint8_t *data = calloc(1, N_DATA), *expected = calloc(1, N_DATA);

    fake_daemon_init(&fake, 2000);
    fake_daemon_start(&fake);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    cryptod_stream *stream = stream_in_lane(CRYPTOD_AES_256_CTR);
    reference_crypt(ALGORITHM_AES_256_CTR, key, iv, true, expected, expected, N_DATA);
    atomic_store(&fake.request_from, atomic_load(&fake.requests));
    atomic_store(&fake.on_request, FAKE_SILENT);
    signal(SIGALRM, fork_on_alarm);
    // Both kinds: a fork while asleep, with requests published, and none at all in time.
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_usec = 100000}}, NULL);
    cr_assert_eq(cryptod_stream_crypt(stream, data, data, N_DATA), 0);
    bool right = memcmp(data, expected, N_DATA) == 0;
    if (alarm_child == 0)
        _exit(right ? 0 : 1);
    cr_assert(right);
    cr_assert_eq(exit_status(alarm_child), 0);
    cryptod_stream_free(stream);
    cryptod_close();
    fake_daemon_stop(&fake);
    free(data);
    free(expected);
}
