// SPDX-License-Identifier: MIT
// Packets over real sockets: exact lengths, exact descriptor counts, and that no refused packet
// leaves a descriptor behind.
#include "packet.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture_proc.h"

#define FDS_FLOOD 253 // the most that the kernel carries

static const struct message hello = {
    .type = MESSAGE_HELLO,
    .serial = 7,
    .u.hello = {.version_min = 1, .version_max = 1, .n_slots = 4, .n_streams = 16},
};
static const struct message stream_open = {
    .type = MESSAGE_STREAM_OPEN,
    .serial = 8,
    .u.stream_open = {.stream = 3, .algorithm = 1},
};
static const struct message stream_reply = {
    .type = MESSAGE_STREAM_REPLY,
    .serial = 9,
    .u.stream_reply = {.stream = 3, .reason = 1},
};

static void make_pair(int ret[2], int flags)
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0, ret), 0);
}

// Sends any bytes with any number of copies of one descriptor, in one packet; credentials too if
// asked.
static void send_raw(int fd, const void *bytes, size_t n_bytes, size_t n_fds)
{
    union {
        char bytes[CMSG_SPACE(FDS_FLOOD * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = n_bytes};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    int fds[FDS_FLOOD];

    for (size_t i = 0; i < FDS_FLOOD; i++)
        fds[i] = fd;
    if (n_fds > 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    cr_assert_eq(sendmsg(fd, &msg, MSG_NOSIGNAL), (ssize_t)n_bytes, "%s", strerror(errno));
}

static void send_encoded(int fd, const struct message *m, size_t n_fds)
{
    uint8_t buf[MESSAGE_LEN_MAX];
    size_t n;

    cr_assert_eq(message_encode(m, buf, sizeof buf, &n), 0);
    send_raw(fd, buf, n, n_fds);
}

// Receives what must be refused with `want`: outputs untouched, no descriptor more than before.
static void expect_refusal(int fd, int want, const char *what)
{
    struct message m, before;
    int fds[MESSAGE_FDS_MAX] = {-7, -7};
    size_t n_open = fixture_proc_count_descriptors(getpid());

    memset(&m, 0x5a, sizeof m);
    before = m;
    int r = packet_recv(fd, MESSAGE_CLIENT_TO_FRONT, &m, fds);
    cr_expect_eq(r, want, "%s: %s", what, strerror(-r));
    cr_expect_eq(memcmp(&m, &before, sizeof m), 0, "%s: message touched", what);
    cr_expect(fds[0] == -7 && fds[1] == -7, "%s: descriptors touched", what);
    cr_expect_eq(fixture_proc_count_descriptors(getpid()), n_open, "%s: descriptors left open",
                 what);
}

Test(packet, message_without_descriptors)
{
    int s[2], fds[MESSAGE_FDS_MAX] = {-7, -7};
    struct message m;

    make_pair(s, 0);
    cr_assert_eq(packet_send(s[0], &stream_open, NULL, 0), 0);
    cr_assert_eq(packet_recv(s[1], MESSAGE_CLIENT_TO_FRONT, &m, fds), 0);
    cr_expect_eq(m.serial, 8);
    cr_expect_eq(m.u.stream_open.stream, 3);
    cr_expect(fds[0] == -1 && fds[1] == -1);
}

Test(packet, descriptors_arrive_in_order_and_cloexec)
{
    int s[2], pipe_fds[2], fds[MESSAGE_FDS_MAX];
    struct message m;
    struct stat sent, got;

    make_pair(s, 0);
    cr_assert_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
    int sending[2] = {pipe_fds[0], s[0]};
    cr_assert_eq(packet_send(s[0], &hello, sending, 2), 0);
    cr_assert_eq(packet_recv(s[1], MESSAGE_CLIENT_TO_FRONT, &m, fds), 0);
    cr_expect_eq(m.type, MESSAGE_HELLO);
    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(fstat(sending[i], &sent), 0);
        cr_assert_eq(fstat(fds[i], &got), 0);
        cr_expect_eq(sent.st_ino, got.st_ino);
        cr_expect_neq(fds[i], sending[i]);
        cr_expect_eq(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
        cr_expect_eq(fcntl(sending[i], F_GETFD), FD_CLOEXEC, "the sender keeps his own");
    }
}

Test(packet, write_and_read_speak_the_same)
{
    int s[2], fds[MESSAGE_FDS_MAX];
    struct message m;

    make_pair(s, 0);
    cr_assert_eq(packet_write(s[0], &stream_open), 0);
    cr_assert_eq(packet_recv(s[1], MESSAGE_CLIENT_TO_FRONT, &m, fds), 0);
    cr_expect_eq(m.u.stream_open.stream, 3);
    cr_assert_eq(packet_send(s[1], &stream_reply, NULL, 0), 0);
    cr_assert_eq(packet_read(s[0], MESSAGE_FRONT_TO_CLIENT, &m), 0);
    cr_expect_eq(m.serial, 9);
    cr_expect_eq(m.u.stream_reply.reason, 1);
}

Test(packet, sender_checks_the_count)
{
    int s[2];
    struct message unknown = {.type = (enum message_type)99};

    make_pair(s, SOCK_NONBLOCK);
    const int fds[3] = {s[0], s[0], s[0]};
    cr_expect_eq(packet_send(s[0], &hello, NULL, 0), -EINVAL);
    cr_expect_eq(packet_send(s[0], &hello, fds, 1), -EINVAL);
    cr_expect_eq(packet_send(s[0], &hello, fds, 3), -EINVAL);
    cr_expect_eq(packet_send(s[0], &stream_open, fds, 1), -EINVAL);
    cr_expect_eq(packet_send(s[0], &unknown, NULL, 0), -EINVAL);
    cr_expect_eq(packet_write(s[0], &hello), -EINVAL);
    cr_expect_eq(packet_write(s[0], &unknown), -EINVAL);
    expect_refusal(s[1], -EAGAIN, "nothing was sent");
}

Test(packet, any_other_count_is_refused_and_closed)
{
    static const size_t counts[] = {0, 1, 3, 4, 16, 252, FDS_FLOOD};
    int s[2];

    make_pair(s, 0);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        send_encoded(s[0], &hello, counts[i]);
        expect_refusal(s[1], -EBADMSG, "HELLO");
        if (counts[i] == 0)
            continue;
        send_encoded(s[0], &stream_open, counts[i]);
        expect_refusal(s[1], -EBADMSG, "STREAM_OPEN");
    }
}

// The socket goes on after each: whoever receives decides to close it.
Test(packet, bad_bytes_are_refused_and_their_descriptors_closed)
{
    int s[2], fds[MESSAGE_FDS_MAX];
    uint8_t buf[2 * MESSAGE_LEN_MAX] = {0};
    struct message m;
    size_t n;

    make_pair(s, 0);
    cr_assert_eq(message_encode(&hello, buf, sizeof buf, &n), 0);
    send_raw(s[0], buf, n - 1, 2);
    expect_refusal(s[1], -EBADMSG, "one byte short");
    send_raw(s[0], buf, 1, 2);
    expect_refusal(s[1], -EBADMSG, "one byte");
    send_raw(s[0], buf, n + 1, 2);
    expect_refusal(s[1], -EBADMSG, "one byte too many");
    send_raw(s[0], buf, MESSAGE_LEN_MAX, 2);
    expect_refusal(s[1], -EBADMSG, "as long as the buffer");
    send_raw(s[0], buf, MESSAGE_LEN_MAX + 1, 2);
    expect_refusal(s[1], -EBADMSG, "longer than the buffer");
    send_raw(s[0], buf, sizeof buf, FDS_FLOOD);
    expect_refusal(s[1], -EBADMSG, "longer, with many descriptors");
    send_encoded(s[0], &stream_reply, 0);
    expect_refusal(s[1], -EBADMSG, "wrong direction");
    send_encoded(s[0], &hello, 2);
    cr_assert_eq(packet_recv(s[1], MESSAGE_CLIENT_TO_FRONT, &m, fds), 0);
}

Test(packet, other_control_data_is_refused)
{
    int s[2], on = 1;

    make_pair(s, 0);
    cr_assert_eq(setsockopt(s[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    send_encoded(s[0], &hello, 2);
    expect_refusal(s[1], -EBADMSG, "credentials");
}

// The kernel then installs what fits and says MSG_CTRUNC.
Test(packet, own_descriptor_limit_closes_what_came)
{
    int s[2], top;
    struct rlimit limit, small;
    struct message m;
    int fds[MESSAGE_FDS_MAX] = {-7, -7};

    make_pair(s, 0);
    for (top = 0; top < 200; top++) // no gaps below, nothing above
        cr_assert(fcntl(top, F_GETFD) >= 0 || fcntl(s[0], F_DUPFD_CLOEXEC, top) == top);
    cr_assert(fcntl(top, F_GETFD) < 0 && fcntl(top + 1, F_GETFD) < 0);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (unsigned room = 0; room < 3; room++) {
        send_encoded(s[0], &hello, 2);
        small = limit;
        small.rlim_cur = (rlim_t)top + room;
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &small), 0);
        int r = packet_recv(s[1], MESSAGE_CLIENT_TO_FRONT, &m, fds);
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        cr_expect_eq(r, room == 2 ? 0 : PACKET_FDS_LOST, "room for %u: %d", room, r);
        if (room < 2) {
            cr_expect(fds[0] == -1 && fds[1] == -1);
            cr_expect_eq(m.type, MESSAGE_HELLO);
            cr_expect_eq(m.serial, hello.serial);
            cr_expect(fcntl(top, F_GETFD) < 0 && errno == EBADF, "left open");
        }
    }
    cr_expect(fds[0] == top && fds[1] == top + 1);
}

Test(packet, end_of_file)
{
    int s[2], fds[MESSAGE_FDS_MAX];
    struct message m;

    make_pair(s, 0);
    cr_assert_eq(packet_send(s[0], &stream_open, NULL, 0), 0);
    close(s[0]);
    cr_expect_eq(packet_recv(s[1], MESSAGE_CLIENT_TO_FRONT, &m, fds), 0, "what came before it");
    expect_refusal(s[1], -ENODATA, "end of file");
    expect_refusal(s[1], -ENODATA, "end of file again");
    cr_expect_eq(packet_read(s[1], MESSAGE_CLIENT_TO_FRONT, &m), -ENODATA);
}

Test(packet, empty_packet_is_no_end_of_file)
{
    int s[2], fds[MESSAGE_FDS_MAX];
    struct message m;

    make_pair(s, 0);
    send_raw(s[0], "", 0, 0);
    expect_refusal(s[1], -EBADMSG, "alone");
    send_raw(s[0], "", 0, 2);
    expect_refusal(s[1], -EBADMSG, "with descriptors");
    send_raw(s[0], "", 0, 0);
    send_encoded(s[0], &hello, 2);
    expect_refusal(s[1], -EBADMSG, "before another");
    cr_expect_eq(packet_recv(s[1], MESSAGE_CLIENT_TO_FRONT, &m, fds), 0,
                 "the other is still there");
}

Test(packet, would_block)
{
    int s[2], r;
    size_t n = 0;
    struct message m;

    make_pair(s, SOCK_NONBLOCK);
    expect_refusal(s[1], -EAGAIN, "empty");
    cr_expect_eq(packet_read(s[1], MESSAGE_CLIENT_TO_FRONT, &m), -EAGAIN);
    while ((r = packet_send(s[0], &stream_open, NULL, 0)) == 0)
        n++;
    cr_expect_eq(r, -EAGAIN);
    cr_expect_eq(packet_write(s[0], &stream_open), -EAGAIN);
    for (; n > 0; n--)
        cr_assert_eq(packet_read(s[1], MESSAGE_CLIENT_TO_FRONT, &m), 0, "each packet is whole");
    cr_expect_eq(packet_read(s[1], MESSAGE_CLIENT_TO_FRONT, &m), -EAGAIN);
}

// Without a handler for SIGPIPE: the test's process would die of it.
Test(packet, dead_peer_is_an_error_and_no_signal)
{
    int s[2];

    signal(SIGPIPE, SIG_DFL);
    make_pair(s, 0);
    const int fds[2] = {s[0], s[0]};
    close(s[1]);
    cr_expect_eq(packet_send(s[0], &stream_open, NULL, 0), -EPIPE);
    cr_expect_eq(packet_send(s[0], &hello, fds, 2), -EPIPE);
    cr_expect_eq(packet_write(s[0], &stream_open), -EPIPE);
    cr_expect_eq(packet_send(-1, &stream_open, NULL, 0), -EBADF);
    cr_expect_eq(packet_write(-1, &stream_open), -EBADF);
}

Test(packet, read_drops_descriptors)
{
    int s[2];
    struct message m;
    uint8_t buf[2 * MESSAGE_LEN_MAX] = {0};
    size_t n;

    make_pair(s, 0);
    size_t n_open = fixture_proc_count_descriptors(getpid());
    send_encoded(s[0], &hello, 2);
    cr_expect_eq(packet_read(s[1], MESSAGE_CLIENT_TO_FRONT, &m), -EBADMSG);
    send_encoded(s[0], &stream_open, FDS_FLOOD);
    cr_expect_eq(packet_read(s[1], MESSAGE_CLIENT_TO_FRONT, &m), 0);
    cr_expect_eq(fixture_proc_count_descriptors(getpid()), n_open);
    cr_assert_eq(message_encode(&stream_open, buf, sizeof buf, &n), 0);
    send_raw(s[0], buf, sizeof buf, 0);
    cr_expect_eq(packet_read(s[1], MESSAGE_CLIENT_TO_FRONT, &m), -EBADMSG, "too long");
    send_raw(s[0], buf, n - 1, 0);
    cr_expect_eq(packet_read(s[1], MESSAGE_CLIENT_TO_FRONT, &m), -EBADMSG, "too short");
    send_encoded(s[0], &stream_reply, 0);
    cr_expect_eq(packet_read(s[1], MESSAGE_CLIENT_TO_FRONT, &m), -EBADMSG, "wrong direction");
}
