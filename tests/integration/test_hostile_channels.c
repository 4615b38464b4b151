// SPDX-License-Identifier: MIT
// Descriptors that are no memory and no bell, bells that nobody reads, channels and streams in
// numbers; with a transfer beside them that must not notice.
#include "hostile_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "packet.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define USER  61996

static struct hostile_rig rig;

static void setup(void)
{
    hostile_setup(&rig, NULL);
}

static void teardown(void)
{
    hostile_teardown(&rig);
}

TestSuite(hostile_channels, .init = setup, .fini = teardown, .timeout = 500);

// HELLO with these; the descriptors stay the caller's. The reason of the answer.
static uint32_t say_hello(int control, int memory, int bell)
{
    struct message m;

    raw_hello_fill(&m);
    m.u.hello.n_slots = HOSTILE_SLOTS;
    m.u.hello.n_streams = HOSTILE_STREAMS;
    cr_assert(raw_send_message(control, &m, (const int[]){memory, bell}, 2));
    raw_expect(control, MESSAGE_HELLO_REPLY, &m);
    return m.u.hello_reply.reason;
}

// Memory, or a bell, that is refused.
static void expect_refused(int memory, int bell, uint32_t reason)
{
    struct hostile_client good;
    int good_bell, control = raw_connect(&rig.fixture);

    hostile_client_make(&good, &good_bell);
    cr_expect_eq(
        say_hello(control, memory >= 0 ? memory : good.memory, bell >= 0 ? bell : good_bell),
        reason);
    raw_expect_closed(control);
    close(control);
    close(good_bell);
    hostile_client_close(&good);
    hostile_check_all(&rig);
}

// ---------------------------------------------------------------- memory

static int open_checked(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);

    cr_assert_geq(fd, 0, "%s: %s", path, strerror(errno));
    return fd;
}

// Sealed and of the right size, but of 2 MiB pages, which a fault may not find.
Test(hostile_channels, huge_pages_as_memory)
{
    int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

    if (fd < 0)
        cr_skip_test("no huge pages in this kernel");
    cr_assert_eq(ftruncate(fd, 2 << 20), 0);
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, SEALS), 0);
    expect_refused(fd, -1, MESSAGE_REASON_MEMORY);
    close(fd);
}

Test(hostile_channels, devices_and_files_as_memory)
{
    int zero = open_checked("/dev/zero", O_RDWR), null = open_checked("/dev/null", O_RDWR),
        file = open_checked(P_tmpdir, O_RDWR | O_TMPFILE),
        shared = open_checked("/dev/shm", O_RDWR | O_TMPFILE);

    cr_assert_eq(posix_fallocate(file, 0, (off_t)shm_size(HOSTILE_SLOTS)), 0);
    cr_assert_eq(posix_fallocate(shared, 0, (off_t)shm_size(HOSTILE_SLOTS)), 0);
    const int fds[] = {zero, null, file, shared};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        expect_refused(fds[i], -1, MESSAGE_REASON_MEMORY);
        close(fds[i]);
    }
}

// The right file, but a descriptor that opens nothing, or not for both.
Test(hostile_channels, memory_opened_otherwise)
{
    static const int flags[] = {O_PATH, O_RDONLY, O_WRONLY};
    struct hostile_client good;
    char path[64];
    int bell;

    hostile_client_make(&good, &bell);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", good.memory);
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        int fd = open_checked(path, flags[i]);
        expect_refused(fd, -1, MESSAGE_REASON_MEMORY);
        close(fd);
    }
    close(bell);
    hostile_client_close(&good);
}

// Cannot be shared with anybody's process but lies in memory all the same.
Test(hostile_channels, secret_memory)
{
    int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);

    if (fd < 0)
        cr_skip_test("no memfd_secret() in this kernel");
    cr_assert_eq(ftruncate(fd, (off_t)shm_size(HOSTILE_SLOTS)), 0);
    expect_refused(fd, -1, MESSAGE_REASON_MEMORY);
    close(fd);
}

// ---------------------------------------------------------------- bells

Test(hostile_channels, devices_as_bell)
{
    static const char *const paths[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        int fd = open_checked(paths[i], O_RDWR);
        expect_refused(-1, fd, MESSAGE_REASON_BELL);
        close(fd);
    }
}

Test(hostile_channels, the_same_descriptor_twice)
{
    struct hostile_client good;
    int bell;

    hostile_client_make(&good, &bell);
    expect_refused(good.memory, good.memory, MESSAGE_REASON_BELL);
    expect_refused(bell, bell, MESSAGE_REASON_MEMORY);
    close(bell);
    hostile_client_close(&good);
}

// A connection to the daemon: what the engine rings comes to the front as if the client had said
// it.
static int bring_own_connection(const struct fixture *f)
{
    struct hostile_client client;
    struct message m;
    int bell, status = 0;

    hostile_client_make(&client, &bell);
    client.control = raw_connect(f);
    raw_hello_fill(&m);
    m.u.hello.n_slots = HOSTILE_SLOTS;
    if (!raw_send_message(client.control, &m, (const int[]){client.memory, client.control}, 2))
        status = 1;
    if (packet_read(client.control, MESSAGE_FRONT_TO_CLIENT, &m) < 0 ||
        m.type != MESSAGE_HELLO_REPLY || m.u.hello_reply.reason != MESSAGE_REASON_BELL)
        status = 2;
    close(bell);
    hostile_client_close(&client);
    return status;
}

Test(hostile_channels, the_daemons_own_socket_as_bell)
{
    struct hostile_client client;
    int bell;

    // Of another user: refused, since the engine would speak to a service that is not the client's.
    char conf[64];
    snprintf(conf, sizeof(conf), "daemon.allow_users=%d\n%s", USER, RAW_PATIENT);
    fixture_configure(&rig.fixture, conf);
    cr_assert_eq(kill(rig.fixture.monitor, SIGHUP), 0);
    raw_wait_log_count(&rig.fixture, "configuration", NULL, 1);
    raw_run_as(&rig.fixture, USER, NULL, 0, bring_own_connection);

    // Of root, whose service it is: the engine may take the answers away, and what it rings comes
    // to the front as from the client.
    struct message m;
    hostile_client_make(&client, &bell);
    client.control = raw_connect(&rig.fixture);
    raw_hello_fill(&m);
    m.u.hello.n_slots = HOSTILE_SLOTS;
    cr_assert(
        raw_send_message(client.control, &m, (const int[]){client.memory, client.control}, 2));
    atomic_store(&shm_header(&client.map)->client_waits, SHM_WAITS_ANY);
    (void)send(client.control, "", 1, MSG_NOSIGNAL);
    raw_expect_closed(client.control);
    close(bell);
    hostile_client_close(&client);
    hostile_check_all(&rig);
}

// Whoever holds a copy of the engine's end takes its own rings away, and writes as the engine.
Test(hostile_channels, both_ends_the_same)
{
    struct hostile_client client;
    int bell;

    hostile_client_make(&client, &bell);
    client.control = raw_connect(&rig.fixture);
    cr_assert_eq(say_hello(client.control, client.memory, bell), MESSAGE_OK);
    hostile_client_open_stream(&client, 0, ALGORITHM_AES_128_CBC);
    cr_assert_eq(fcntl(bell, F_SETFL, 0), 0); // blocking, for the engine too
    for (int i = 0; i < 2000; i++) {
        uint8_t byte;
        const struct shm_request request = hostile_client_make_request(&client, false);

        atomic_store(&shm_header(&client.map)->client_waits, SHM_WAITS_ANY);
        hostile_client_submit(&client, &request);
        if (i % 4 == 3)
            hostile_client_wait(&client);
        (void)recv(bell, &byte, 1, MSG_DONTWAIT);
        (void)send(bell, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (i % 100 == 0)
            hostile_check(&rig);
    }
    close(bell);
    hostile_client_close(&client);
    hostile_check_all(&rig);
}

// Its buffer is full: the engine's rings go nowhere, and its requests are done all the same.
Test(hostile_channels, a_bell_that_nobody_reads)
{
    struct hostile_client client;
    const int least = 1;
    int bell;

    hostile_client_make(&client, &bell);
    cr_assert_eq(setsockopt(bell, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
    while (send(bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
        ;
    cr_assert_eq(errno, EAGAIN);
    client.control = raw_connect(&rig.fixture);
    cr_assert_eq(say_hello(client.control, client.memory, bell), MESSAGE_OK);
    close(bell);
    hostile_client_open_stream(&client, 0, ALGORITHM_AES_128_CBC);
    hostile_client_open_stream(&client, 1, ALGORITHM_AES_128_CTR);
    for (int i = 0; i < 500; i++) {
        const struct shm_request request = hostile_client_make_request(&client, i & 1);

        atomic_store(&shm_header(&client.map)->client_waits, SHM_WAITS_ANY);
        hostile_client_submit(&client, &request);
        hostile_client_wait(&client);
    }
    hostile_client_close(&client);
    hostile_check_all(&rig);
}

// ---------------------------------------------------------------- many

static int bomb(const struct fixture *f)
{
    enum { PROCESSES = 24, CHANNELS = 8 };
    pid_t children[PROCESSES];
    int status = 0;

    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] != 0)
            continue;
        for (int k = 0; k < CHANNELS; k++) {
            struct hostile_client client;
            struct message m;
            int bell;

            hostile_client_make(&client, &bell);
            client.control = raw_connect(f);
            raw_hello_fill(&m);
            m.u.hello.n_slots = HOSTILE_SLOTS;
            // Refused ones are closed: there is nothing to be said of either.
            if (raw_send_message(client.control, &m, (const int[]){client.memory, bell}, 2))
                (void)packet_read(client.control, MESSAGE_FRONT_TO_CLIENT, &m);
        }
        _exit(0); // with all of them open
    }
    for (int i = 0; i < PROCESSES; i++) {
        int ended;
        if (children[i] < 0 || waitpid(children[i], &ended, 0) != children[i] || ended != 0)
            status = 1;
    }
    return status;
}

Test(hostile_channels, fork_bomb_of_channels)
{
    struct hostile_client mine;

    for (int round = 0; round < 2; round++)
        raw_run_as(&rig.fixture, 0, NULL, 0, bomb);
    raw_wait_channels(&rig.fixture, 1); // the transfer's
    hostile_client_open(&mine, &rig);   // there is room again
    hostile_client_close(&mine);
    raw_wait_channels(&rig.fixture, 1);
    hostile_check_all(&rig);
}

// Opens and closes streams as fast as it can and never reads an answer.
Test(hostile_channels, a_slow_reader_of_answers)
{
    enum { MOST = 200000 };
    const struct message open = {.type = MESSAGE_STREAM_OPEN},
                         close_it = {.type = MESSAGE_STREAM_CLOSE};
    struct hostile_client client;
    int i = 0;

    hostile_client_open(&client, &rig);
    while (i < MOST && raw_send_message(client.control, &open, NULL, 0) &&
           raw_send_message(client.control, &close_it, NULL, 0))
        i++;
    cr_assert_lt(i, MOST, "it is never closed");
    raw_expect_closed(client.control);
    hostile_client_close(&client);
    hostile_check_all(&rig);
}
