// SPDX-License-Identifier: MIT
// The keystream lane used by several threads, and by processes that were forked in the middle of a
// call.
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cryptod.h"
#include "fake_daemon.h"
#include "reference.h"

#define N_SLOT    65536u
#define N_MOST    (4u << 20)
#define N_THREADS 4u
#define N_WINDOW  8u

TestSuite(keystream_sharing, .timeout = 300);

static struct fake_daemon fake;
static uint8_t key[ALGORITHM_KEY_MAX], iv[16];
static uint8_t *plain, *expected;

static void start(uint32_t n_window)
{
    struct reference_random random;

    reference_random_init(&random);
    reference_random_fill(&random, key, sizeof key);
    reference_random_fill(&random, iv, sizeof iv);
    plain = malloc(N_MOST);
    expected = malloc(N_MOST);
    cr_assert(plain && expected);
    reference_random_fill(&random, plain, N_MOST);
    reference_crypt(ALGORITHM_AES_256_CTR, key, iv, true, expected, plain, N_MOST);
    fake_daemon_init(&fake, 10000);
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++)
        fake.hello.offer[id].lanes |= MESSAGE_LANE_KEYSTREAM;
    fake.hello.keystream_slots = n_window;
    fake_daemon_start(&fake);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
}

static void stop(void)
{
    cryptod_close();
    fake_daemon_stop(&fake);
    free(plain);
    free(expected);
}

static uint64_t keystream_bytes(void)
{
    struct cryptod_counters now;

    cryptod_counters_get(&now);
    return now.keystream_bytes;
}

// All of the message, in pieces of n bytes, in place.
static bool message_is_right(cryptod_stream *stream, uint8_t *buffer, size_t n)
{
    memcpy(buffer, plain, N_MOST);
    if (cryptod_stream_init(stream, NULL, iv, true) != 0)
        return false;
    for (size_t at = 0; at < N_MOST; at += n) {
        size_t piece = N_MOST - at < n ? N_MOST - at : n;
        if (cryptod_stream_crypt(stream, buffer + at, buffer + at, piece) != 0)
            return false;
    }
    return memcmp(buffer, expected, N_MOST) == 0;
}

static void *work(void *argument)
{
    size_t n = *(const size_t *)argument;
    uint8_t *buffer = malloc(N_MOST);
    cryptod_stream *stream;
    bool right = buffer && cryptod_stream_new(CRYPTOD_AES_256_CTR, &stream) == 0;

    if (!right)
        return argument;
    cryptod_stream_init(stream, key, iv, true);
    for (int i = 0; i < 5 && right; i++)
        right = message_is_right(stream, buffer, n);
    cryptod_stream_free(stream);
    free(buffer);
    return right ? NULL : argument;
}

// Whoever finds the channel in use goes on in software, and passes over its keystream.
Test(keystream_sharing, threads)
{
    size_t sizes[N_THREADS] = {1000, 10007, 32768, 200000};
    pthread_t threads[N_THREADS];
    void *wrong;

    start(N_WINDOW);
    for (uint32_t i = 0; i < N_THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, work, &sizes[i]), 0);
    for (uint32_t i = 0; i < N_THREADS; i++) {
        cr_assert_eq(pthread_join(threads[i], &wrong), 0);
        cr_assert_null(wrong, "thread %u", i);
    }
    cr_assert_gt(keystream_bytes(), 0);
    stop();
}

static volatile sig_atomic_t is_child;
static pid_t children[6]; // and their parent: no more than FAKE_CLIENTS
static volatile sig_atomic_t n_children;

static void fork_here(int number)
{
    (void)number;
    if (is_child || n_children >= (int)(sizeof children / sizeof *children))
        return;
    pid_t pid = fork();
    if (pid == 0)
        is_child = 1;
    else if (pid > 0)
        children[n_children++] = pid;
}

static void children_wait(void)
{
    cr_assert_gt(n_children, 0);
    for (int i = 0; i < n_children; i++) {
        int status;
        cr_assert_eq(waitpid(children[i], &status, 0), children[i]);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %d: %#x", i, status);
    }
}

// Both processes finish the call that the signal came in, from the byte that it was at.
static void fork_in_handlers(uint32_t n_window)
{
    struct itimerval often = {.it_interval = {.tv_usec = 3000}, .it_value = {.tv_usec = 3000}};
    uint8_t *buffer = malloc(N_MOST);
    cryptod_stream *stream;
    sigset_t alarm;

    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    cr_assert_eq(pthread_sigmask(SIG_BLOCK, &alarm, NULL), 0); // the daemon's thread must not fork
    start(n_window);
    cr_assert_eq(pthread_sigmask(SIG_UNBLOCK, &alarm, NULL), 0);
    cr_assert_not_null(buffer);
    cr_assert_eq(cryptod_stream_new(CRYPTOD_AES_256_CTR, &stream), 0);
    cr_assert_eq(cryptod_stream_init(stream, key, iv, true), 0);
    cr_assert(message_is_right(stream, buffer, N_SLOT));
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = fork_here, .sa_flags = SA_RESTART}, NULL);
    for (int round = 0; round < 5; round++) {
        n_children = 0;
        setitimer(ITIMER_REAL, &often, NULL);
        for (int i = 0; i < 1000 && n_children < (int)(sizeof children / sizeof *children); i++) {
            bool right = message_is_right(stream, buffer, 50000);
            if (is_child)
                _exit(right ? 0 : 1);
            cr_assert(right);
        }
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_usec = 0}}, NULL);
        children_wait();
    }
    cr_assert_eq(keystream_bytes() > 0, n_window > 0);
    cryptod_stream_free(stream);
    free(buffer);
    stop();
}

Test(keystream_sharing, forks_in_signal_handlers)
{
    fork_in_handlers(N_WINDOW);
}

// The same for the request lane.
Test(keystream_sharing, forks_in_signal_handlers_without_keystream)
{
    fork_in_handlers(0);
}

// A process that may not make files of the full size has a channel without keystream.
Test(keystream_sharing, a_small_limit_of_file_sizes)
{
    struct rlimit limit = {.rlim_cur = 512u << 10, .rlim_max = 512u << 10};
    cryptod_stream *stream;
    uint8_t block[4096] = {0};

    start(N_WINDOW);
    cryptod_close();
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    cr_assert_eq(cryptod_stream_new(CRYPTOD_AES_256_CTR, &stream), 0);
    cr_assert_eq(cryptod_stream_init(stream, key, iv, true), 0);
    for (int i = 0; cryptod_stream_lane(stream) != CRYPTOD_LANE_REQUEST; i++) {
        cr_assert_lt(i, 5000);
        cr_assert_eq(cryptod_stream_crypt(stream, block, block, sizeof block), 0);
        usleep(1000);
    }
    cr_assert_eq(keystream_bytes(), 0);
    cryptod_stream_free(stream);
    stop();
}
