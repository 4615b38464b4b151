// SPDX-License-Identifier: MIT
// client-lib/session.c, handshake.c, fork.c and wire.c: opening, refusals, forks, descriptors.
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "cryptod.h"
#include "fake_daemon.h"
#include "reference.h"

#define N_DATA 100000u

TestSuite(session, .timeout = 120);

static const uint8_t key[32] = {3, 1, 4, 1, 5}, iv[16] = {9, 2, 6};

static size_t count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t n = 0;

    cr_assert_not_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

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

Test(session, opens_once_and_closes)
{
    struct fake_daemon fake;

    fake_daemon_init(&fake, 5000);
    fake_daemon_start(&fake);
    cr_assert_not(cryptod_offers(CRYPTOD_AES_128_CBC));
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    cr_assert_eq(cryptod_open("/nonexistent", 0), 0, "a channel is open already");
    cr_assert_eq(atomic_load(&fake.hellos), 1);
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++)
        cr_assert(cryptod_offers((enum cryptod_algorithm)id));
    cryptod_close();
    cr_assert_not(cryptod_offers(CRYPTOD_AES_128_CBC));
    fake_daemon_wait(&fake.lost, 1);
    cryptod_close();
    cr_assert_eq(cryptod_open(fake.socket, 5000), 0);
    cr_assert_eq(atomic_load(&fake.hellos), 2);
    cryptod_close();
    fake_daemon_stop(&fake);
}

// Nobody has used the channel since the daemon went away, but asking for one again must not find
// the dead one.
Test(session, opens_again_when_the_daemon_has_gone)
{
    struct fake_daemon fake;

    fake_daemon_init(&fake, 5000);
    fake_daemon_start(&fake);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    fake_daemon_stop(&fake);
    cr_assert_eq(cryptod_open(fake.socket, 5000), -ENOENT);
    cr_assert_not(cryptod_offers(CRYPTOD_AES_128_CBC));
    fake_daemon_init(&fake, 5000);
    fake_daemon_start(&fake);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    cr_assert(cryptod_offers(CRYPTOD_AES_128_CBC));
    cryptod_close();
    fake_daemon_stop(&fake);
}

Test(session, refusals_have_names)
{
    static const struct {
        uint32_t reason;
        int error;
    } rows[] = {
        {MESSAGE_REASON_VERSION, -EPROTO},    {MESSAGE_REASON_ACCESS, -EACCES},
        {MESSAGE_REASON_LIMIT, -EUSERS},      {MESSAGE_REASON_SOFTWARE, -EOPNOTSUPP},
        {MESSAGE_REASON_ENGINE, -EOPNOTSUPP}, {MESSAGE_REASON_MEMORY, -EBADMSG},
        {MESSAGE_REASON_INTERNAL, -ENOBUFS},  {MESSAGE_REASON_COUNT + 7, -EBADMSG},
    };
    struct fake_daemon fake;
    size_t n_fds = count_descriptors();

    fake_daemon_init(&fake, 5000);
    fake_daemon_start(&fake);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fake.hello.reason = rows[i].reason;
        cr_assert_eq(cryptod_open(NULL, 5000), rows[i].error, "reason %u", rows[i].reason);
        cr_assert_not(cryptod_offers(CRYPTOD_AES_128_CBC));
    }
    fake_daemon_stop(&fake);
    cr_assert_eq(count_descriptors(), n_fds);
    cr_assert_eq(cryptod_open("/nonexistent/cryptod.sock", 100), -ENOENT);
    cr_assert_eq(cryptod_open(fake.socket, 100), -ENOENT);
    char path[200];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    cr_assert_eq(cryptod_open(path, 100), -ENAMETOOLONG);
}

static void wrong_version(struct message *m)
{
    m->u.hello_reply.version = MESSAGE_VERSION_MAX + 1;
}

static void wrong_serial(struct message *m)
{
    m->serial++;
}

static void wrong_type(struct message *m)
{
    m->type = MESSAGE_STREAM_REPLY;
}

Test(session, believes_no_nonsense)
{
    struct fake_daemon fake;
    size_t n_fds = count_descriptors();

    fake_daemon_init(&fake, 5000);
    fake_daemon_start(&fake);
    fake.hello_garbage = wrong_version;
    cr_assert_eq(cryptod_open(NULL, 5000), -EPROTO);
    fake.hello_garbage = wrong_serial;
    cr_assert_eq(cryptod_open(NULL, 5000), -EBADMSG);
    fake.hello_garbage = wrong_type;
    cr_assert_eq(cryptod_open(NULL, 5000), -EBADMSG);
    fake.hello_garbage = NULL;
    atomic_store(&fake.on_hello, FAKE_HANG_UP);
    cr_assert_eq(cryptod_open(NULL, 5000), -ECONNRESET);
    fake_daemon_stop(&fake);
    cr_assert_eq(count_descriptors(), n_fds);
}

Test(session, a_silent_daemon_costs_the_timeout_at_most)
{
    struct fake_daemon fake;
    size_t n_fds;

    fake_daemon_init(&fake, 5000);
    fake_daemon_start(&fake);
    n_fds = count_descriptors();
    atomic_store(&fake.on_hello, FAKE_SILENT);
    uint64_t start = clock_now_ms();
    cr_assert_eq(cryptod_open(NULL, 50), -ETIMEDOUT);
    cr_assert_geq(clock_now_ms() - start, 50);
    fake_daemon_wait(&fake.lost, 1);
    cr_assert_eq(count_descriptors(), n_fds);
    fake_daemon_stop(&fake);
}

// Two descriptors, high and not inherited over an exec; none is left after closing.
Test(session, keeps_two_high_descriptors)
{
    struct fake_daemon fake;
    struct rlimit limit;

    fake_daemon_init(&fake, 5000);
    fake_daemon_start(&fake);
    size_t n_fds = count_descriptors();
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t top = limit.rlim_cur < 65000 ? limit.rlim_cur : 65000;
    for (int round = 0; round < 50; round++) {
        int n_high = 0;
        cr_assert_eq(cryptod_open(NULL, 5000), 0);
        for (int fd = (int)top - 64; fd < (int)top; fd++) {
            int flags = fcntl(fd, F_GETFD);
            cr_assert(flags < 0 || (flags & FD_CLOEXEC));
            n_high += flags >= 0;
        }
        cr_assert_eq(n_high, 2);
        cryptod_close();
        fake_daemon_wait(&fake.lost, (uint32_t)round + 1);
        cr_assert_eq(count_descriptors(), n_fds);
    }
    fake_daemon_stop(&fake);
}

// With a limit too low for high numbers the channel works all the same.
Test(session, opens_under_a_low_descriptor_limit)
{
    struct fake_daemon fake;

    fake_daemon_init(&fake, 5000);
    fake_daemon_start(&fake);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){50, 50}), 0);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    cryptod_stream *stream = stream_in_lane(CRYPTOD_AES_128_CBC);
    cryptod_stream_free(stream);
    cryptod_close();
    fake_daemon_stop(&fake);
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

Test(session, a_child_gets_a_channel_of_its_own)
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

Test(session, a_child_does_not_try_again_what_has_just_failed)
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

Test(session, nothing_to_offer_means_no_channel_for_children)
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
    fake_daemon_settle();
    cr_assert_eq(atomic_load(&fake.hellos), 1);
    cryptod_close();
    fake_daemon_stop(&fake);
}

// A child that was made behind the C library's back runs no handlers. It must see by itself that
// the channel is not its own.
Test(session, a_bare_clone_stays_in_software)
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
    fake_daemon_settle();
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
Test(session, a_fork_in_the_middle_of_a_request)
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
