// SPDX-License-Identifier: MIT
// Blocking sends and receives while signals arrive.
#include "packet.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>

static const struct message stream_open = {
    .type = MESSAGE_STREAM_OPEN,
    .serial = 8,
    .u.stream_open = {.stream = 3, .algorithm = 1},
};

static void make_pair(int ret[2])
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret), 0);
}

// A signal arrives again and again; the fifth one makes the blocked call possible. So a call that
// gave up at a signal would fail, however slow the machine is.
static volatile sig_atomic_t n_signals;
static int signal_drain_fd = -1;
static int signal_fill_fd = -1;

static void on_signal(int number)
{
    char buf[64];

    (void)number;
    if (++n_signals < 5)
        return;
    while (signal_drain_fd >= 0 && recv(signal_drain_fd, buf, sizeof buf, MSG_DONTWAIT) > 0) {
    }
    if (signal_fill_fd >= 0 && n_signals == 5)
        packet_write(signal_fill_fd, &stream_open);
}

static void start_signals(void)
{
    const struct sigaction action = {.sa_handler = on_signal}; // no SA_RESTART
    const struct itimerval every = {.it_interval = {.tv_usec = 20000},
                                    .it_value = {.tv_usec = 20000}};

    n_signals = 0;
    cr_assert_eq(sigaction(SIGALRM, &action, NULL), 0);
    cr_assert_eq(setitimer(ITIMER_REAL, &every, NULL), 0);
}

static void stop_signals(void)
{
    const struct itimerval never = {0};

    setitimer(ITIMER_REAL, &never, NULL);
}

static void fill(int fd)
{
    char buf[24] = {0};

    while (send(fd, buf, sizeof buf, MSG_DONTWAIT) > 0) {
    }
    cr_assert_eq(errno, EAGAIN);
}

Test(packet_signals, do_not_end_a_send, .timeout = 30)
{
    int s[2];

    make_pair(s);
    signal_drain_fd = s[1];
    fill(s[0]);
    start_signals();
    cr_expect_eq(packet_send(s[0], &stream_open, NULL, 0), 0);
    stop_signals();
    cr_expect(n_signals >= 5);
    fill(s[0]);
    start_signals();
    cr_expect_eq(packet_write(s[0], &stream_open), 0);
    stop_signals();
    cr_expect(n_signals >= 5);
}

Test(packet_signals, do_not_end_a_receive, .timeout = 30)
{
    int s[2], fds[MESSAGE_FDS_MAX];
    struct message m;

    make_pair(s);
    signal_fill_fd = s[0];
    start_signals();
    cr_expect_eq(packet_recv(s[1], MESSAGE_CLIENT_TO_FRONT, &m, fds), 0);
    stop_signals();
    cr_expect(n_signals >= 5);
    start_signals();
    cr_expect_eq(packet_read(s[1], MESSAGE_CLIENT_TO_FRONT, &m), 0);
    stop_signals();
    cr_expect(n_signals >= 5);
}
