// SPDX-License-Identifier: MIT
// Floods, silence and slow readers: limits hold, and everything comes back.
#include "front_raw.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "packet.h"
#include "fixture_proc.h"

#define USER            61995
#define CONNECTIONS     256 // in all, without a channel (daemon/front/front.c)
#define CONNECTIONS_UID 64

static struct fixture fixture;

static void limits_teardown(void)
{
    fixture_stop(&fixture);
}

TestSuite(front_limits, .fini = limits_teardown, .timeout = 300);

static bool is_closed(int client, int timeout_ms)
{
    struct pollfd item = {.fd = client}; // not POLLIN: a refusal comes before the end
    return poll(&item, 1, timeout_ms) > 0 && (item.revents & POLLHUP) != 0;
}

// Connects n times and keeps all; the number that the daemon closes, which is known when the last
// has been served.
static unsigned count_refused(const struct fixture *f, int *clients, unsigned n)
{
    unsigned n_closed = 0;

    for (unsigned i = 0; i < n; i++)
        clients[i] = raw_connect(f);
    // The last connection is beyond the limit: the front has dealt with all when it is closed.
    cr_assert(is_closed(clients[n - 1], 30000));
    for (unsigned i = 0; i < n; i++)
        n_closed += is_closed(clients[i], 0);
    return n_closed;
}

static int flood_as_user(const struct fixture *f)
{
    enum { MORE = CONNECTIONS_UID + 100 };
    int clients[MORE];

    return count_refused(f, clients, MORE) == MORE - CONNECTIONS_UID ? 0 : 1;
}

Test(front_limits, flood_of_connects_of_a_user)
{
    fixture_start(&fixture, RAW_PATIENT);
    pid_t front = fixture_role_pid(&fixture, "front");
    unsigned n_fds = fixture_proc_count_descriptors(front);

    raw_run_as(&fixture, USER, NULL, 0, flood_as_user);
    raw_wait_log_count(&fixture, "client refused: ", "uid 61995: too many connects", 1);
    raw_wait_fds(front, n_fds);
    raw_witness_start(&fixture);
    raw_witness_stop();
}

Test(front_limits, flood_of_connects_of_root)
{
    enum { MORE = CONNECTIONS + 50 };
    int clients[MORE];

    fixture_start(&fixture, RAW_PATIENT);
    raw_witness_start(&fixture);
    pid_t front = fixture_role_pid(&fixture, "front");
    unsigned n_fds = fixture_proc_count_descriptors(front);

    cr_assert_eq(count_refused(&fixture, clients, MORE), MORE - CONNECTIONS);
    cr_assert_eq(fixture_proc_count_descriptors(front), n_fds + CONNECTIONS);
    raw_witness_check(); // those who are in do not notice
    for (unsigned i = 0; i < MORE; i++)
        close(clients[i]);
    raw_wait_fds(front, n_fds);
    raw_witness_stop();
}

Test(front_limits, flood_that_comes_and_goes)
{
    fixture_start(&fixture, RAW_PATIENT);
    raw_witness_start(&fixture);
    pid_t front = fixture_role_pid(&fixture, "front"),
          engine = fixture_role_pid(&fixture, "engine");
    unsigned n_front = fixture_proc_count_descriptors(front),
             n_engine = fixture_proc_count_descriptors(engine);
    struct raw_channel channel;
    struct message m;

    raw_channel_make(&channel);
    raw_hello_fill(&m);
    for (int i = 0; i < 2000; i++) {
        int client = raw_connect(&fixture);
        if (i % 2 == 0)
            raw_send_message(client, &m, (const int[]){channel.memory, channel.bell[1]}, 2);
        close(client);
    }
    raw_channel_free(&channel);
    raw_wait_channels(&fixture, 1);
    raw_wait_fds(front, n_front);
    raw_wait_fds(engine, n_engine);
    raw_witness_check();
    raw_witness_stop();
    cr_assert_eq(fixture_role_pid(&fixture, "front"), front);
    cr_assert_eq(fixture_role_pid(&fixture, "engine"), engine);
}

// Many violations a second: few lines, and the number of the rest.
Test(front_limits, flood_of_violations_does_not_fill_the_log)
{
    enum { VIOLATIONS = 3000 };
    int fds[RAW_FDS_MAX];
    struct message_status_summary summary;

    fixture_start(&fixture, RAW_PATIENT);
    pid_t front = fixture_role_pid(&fixture, "front");
    unsigned n_fds = fixture_proc_count_descriptors(front);
    for (size_t i = 0; i < RAW_FDS_MAX; i++)
        fds[i] = STDERR_FILENO;
    for (int i = 0; i < VIOLATIONS; i++) {
        int client = raw_connect(&fixture);
        raw_send(client, "nonsense", 8, fds, i % 16 == 0 ? RAW_FDS_MAX : 0);
        raw_expect_closed(client);
        close(client);
    }
    raw_status(&fixture, &summary);
    cr_assert_eq(summary.violations_total, VIOLATIONS);
    unsigned n_lines = raw_log_count(&fixture, "client closed: ", NULL);
    cr_assert_geq(n_lines, 20);
    cr_assert_lt(n_lines, VIOLATIONS);
    raw_wait_fds(front, n_fds);
    cr_assert_eq(fixture_role_pid(&fixture, "front"), front);
}

Test(front_limits, channels_per_uid)
{
    enum { CHANNELS = 3 };
    struct raw_channel channels[CHANNELS], more;
    int clients[CHANNELS];
    struct message m;

    fixture_start(&fixture, "limits.channels_per_uid=3\n");
    for (int i = 0; i < CHANNELS; i++)
        clients[i] = raw_open(&fixture, &channels[i]);
    raw_channel_make(&more);
    int client = raw_connect(&fixture);
    raw_hello_fill(&m);
    cr_assert(raw_send_message(client, &m, (const int[]){more.memory, more.bell[1]}, 2));
    raw_expect(client, MESSAGE_HELLO_REPLY, &m);
    cr_assert_eq(m.u.hello_reply.reason, MESSAGE_REASON_LIMIT);
    raw_expect_closed(client);
    close(client);
    raw_channel_free(&more);
    raw_wait_log_count(&fixture,
                       "client refused: ", "a limit of this user or of the daemon is reached", 1);

    close(clients[1]); // makes room
    raw_channel_free(&channels[1]);
    raw_wait_channels(&fixture, 2);
    clients[1] = raw_open(&fixture, &channels[1]);
    for (int i = 0; i < CHANNELS; i++) {
        close(clients[i]);
        raw_channel_free(&channels[i]);
    }
    raw_wait_channels(&fixture, 0);
}

// Asks for its status again and again and reads nothing, until the daemon cannot send any more;
// then it is silent.
static void stop_reading(int client)
{
    const struct message ask = {.type = MESSAGE_STATUS, .serial = 1};
    struct message_status_summary summary;

    for (int i = 0; i < 1000; i++) {
        cr_assert(raw_send_message(client, &ask, NULL, 0));
        // The answer to another question shows that this one has been dealt with, as far as its
        // reader lets it.
        raw_status(&fixture, &summary);
        struct pollfd item = {.fd = client, .events = POLLIN};
        cr_assert_eq(poll(&item, 1, 30000), 1);
        if ((item.revents & POLLHUP) != 0)
            return;
    }
    cr_assert_fail("it is never closed");
}

Test(front_limits, slow_reader)
{
    fixture_start(&fixture, RAW_PATIENT);
    raw_witness_start(&fixture);
    pid_t front = fixture_role_pid(&fixture, "front");
    unsigned n_fds = fixture_proc_count_descriptors(front);

    int client = raw_connect(&fixture);
    stop_reading(client);
    raw_wait_log_count(&fixture, "client closed: ", "STATUS before the last one was answered", 1);
    raw_expect_closed(client);
    close(client);
    raw_wait_fds(front, n_fds);
    raw_witness_check();
    raw_witness_stop();
}

// Who says nothing is closed; who has a channel may be silent.
Test(front_limits, silence)
{
    struct raw_channel channel;
    struct message m = {.type = MESSAGE_STATUS, .serial = 1};

    fixture_start(&fixture, RAW_PATIENT);
    int open = raw_open(&fixture, &channel);
    int silent = raw_connect(&fixture);
    raw_expect_closed(silent); // waits for it
    cr_assert(raw_send_message(open, &m, NULL, 0));
    raw_expect(open, MESSAGE_STATUS_SUMMARY, &m);
    cr_assert_eq(m.u.status_summary.channels, 1);
    close(silent);
    close(open);
    raw_channel_free(&channel);
}

// A process that holds n connections until it is killed.
static pid_t hold_connections(const struct fixture *f, unsigned n)
{
    pid_t child = fork();

    cr_assert_geq(child, 0);
    if (child == 0) {
        for (unsigned i = 0; i < n; i++)
            raw_connect(f);
        for (;;)
            pause();
    }
    return child;
}

// The front runs out of descriptors: it rests instead of spinning, and goes on when there are some
// again.
Test(front_limits, no_descriptors_left)
{
    enum { LIMIT = 60, HOLDERS = 3, EACH = 30 };
    const struct rlimit few = {LIMIT, LIMIT};
    struct message_status_summary summary;
    pid_t holders[HOLDERS];

    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few),
                 0); // inherited; front only raises the soft limit to the hard one
    fixture_start(&fixture, RAW_PATIENT);
    raw_witness_start(&fixture);
    pid_t front = fixture_role_pid(&fixture, "front");
    for (int i = 0; i < HOLDERS; i++)
        holders[i] = hold_connections(&fixture, EACH);
    raw_wait_log_count(&fixture, "accepting pauses: Too many open files", NULL, 1);
    raw_witness_check();
    for (int i = 0; i < HOLDERS; i++) {
        cr_assert_eq(kill(holders[i], SIGKILL), 0);
        cr_assert_eq(waitpid(holders[i], NULL, 0), holders[i]);
    }
    raw_status(&fixture, &summary);
    cr_assert_eq(summary.violations_total, 0);
    cr_assert_eq(fixture_role_pid(&fixture, "front"), front);
    raw_witness_stop();
}
