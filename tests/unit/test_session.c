// SPDX-License-Identifier: MIT
// client-lib/session.c, handshake.c and wire.c: opening, refusals, descriptors.
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "clock.h"
#include "cryptod.h"
#include "fake_daemon.h"

TestSuite(session, .timeout = 120);

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
        {MESSAGE_REASON_LIMIT, -EUSERS},      {MESSAGE_REASON_SIZE, -EUSERS},
        {MESSAGE_REASON_CONNECTS, -EDQUOT},   {MESSAGE_REASON_SOFTWARE, -EOPNOTSUPP},
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

// A smaller channel is asked for only if the size was the reason.
Test(session, only_what_was_too_large_is_asked_for_again)
{
    struct fake_daemon fake;

    fake_daemon_init(&fake, 5000);
    fake_daemon_start(&fake);
    fake.hello.reason = MESSAGE_REASON_LIMIT;
    cr_assert_eq(cryptod_open(NULL, 5000), -EUSERS);
    cr_assert_eq(atomic_load(&fake.hellos), 1);
    fake.hello.reason = MESSAGE_REASON_SIZE;
    cr_assert_eq(cryptod_open(NULL, 5000), -EUSERS);
    cr_assert_eq(atomic_load(&fake.hellos), 1 + 3, "64, 16 and 4 slots");
    fake_daemon_stop(&fake);
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
    cr_assert(cryptod_offers(CRYPTOD_AES_128_CBC));
    cryptod_close();
    fake_daemon_stop(&fake);
}
