// SPDX-License-Identifier: MIT
// Messages as packets. Guarantees: no descriptor that came from a peer outlives a refused packet,
// however many came. Must not know what messages mean, nor who the peer is.
#include "packet.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// The most descriptors that one packet can carry (SCM_MAX_FD in the kernel's include/net/scm.h).
// Room for all of them: so every descriptor of a flood is received and closed here, and MSG_CTRUNC
// can only mean that the kernel could not install one (descriptor limit, security module).
#define FDS_FLOOD 253

union control {
    char bytes[CMSG_SPACE(FDS_FLOOD * sizeof(int))];
    struct cmsghdr align;
};

struct received {
    int fds[FDS_FLOOD];
    size_t n_fds;
    bool foreign; // control data other than descriptors
};

// A connected peer takes a packet whole or not at all.
static int sent_result(ssize_t n, size_t n_expected)
{
    if (n < 0)
        return -errno;
    return (size_t)n == n_expected ? 0 : -EIO;
}

int packet_send(int fd, const struct message *m, const int *fds, size_t n_fds)
{
    uint8_t buf[MESSAGE_LEN_MAX];
    const struct message_info *info = message_info((uint32_t)m->type);
    union {
        char bytes[CMSG_SPACE(MESSAGE_FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {.iov_base = buf};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;
    int r;

    if (!info || n_fds != info->n_fds)
        return -EINVAL;
    r = message_encode(m, buf, sizeof buf, &iov.iov_len);
    if (r < 0)
        return r;
    if (n_fds > 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    do {
        n = sendmsg(fd, &msg, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return sent_result(n, iov.iov_len);
}

int packet_write(int fd, const struct message *m)
{
    uint8_t buf[MESSAGE_LEN_MAX];
    const struct message_info *info = message_info((uint32_t)m->type);
    size_t n_bytes;
    ssize_t n;
    int r;

    if (!info || info->n_fds != 0)
        return -EINVAL;
    r = message_encode(m, buf, sizeof buf, &n_bytes);
    if (r < 0)
        return r;
    do {
        n = write(fd, buf, n_bytes);
    } while (n < 0 && errno == EINTR);
    return sent_result(n, n_bytes);
}

static void received_collect(struct msghdr *msg, struct received *ret)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            ret->foreign = true;
            continue;
        }
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (n > FDS_FLOOD - ret->n_fds)
            n = FDS_FLOOD - ret->n_fds; // cannot be: the buffer holds no more
        memcpy(&ret->fds[ret->n_fds], CMSG_DATA(c), n * sizeof(int));
        ret->n_fds += n;
    }
}

static void received_close(struct received *received)
{
    for (size_t i = 0; i < received->n_fds; i++)
        close(received->fds[i]);
    received->n_fds = 0;
}

// Reading 0 bytes is the end of file, or a packet without a byte, which is a violation: after that
// the socket has more to say or is still open. (An empty packet right before the end counts as the
// end: nothing is lost.) recvmsg rather than recv: the sandboxes of the daemon need not know one
// more system call.
static int empty_result(int fd, const struct msghdr *msg, const struct received *received)
{
    char byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr peek = {.msg_iov = &iov, .msg_iovlen = 1};

    if (received->n_fds > 0 || received->foreign || (msg->msg_flags & MSG_CTRUNC))
        return -EBADMSG;
    return recvmsg(fd, &peek, MSG_PEEK | MSG_DONTWAIT) == 0 ? -ENODATA : -EBADMSG;
}

static int received_decode(const struct msghdr *msg, const uint8_t *buf, size_t n,
                           enum message_direction direction, const struct received *received,
                           struct message *ret)
{
    int r;

    if ((msg->msg_flags & MSG_TRUNC) || received->foreign)
        return -EBADMSG;
    r = message_decode(buf, n, direction, ret);
    if (r < 0)
        return r;
    uint32_t n_fds = message_info((uint32_t)ret->type)->n_fds;
    if ((msg->msg_flags & MSG_CTRUNC) && n_fds > 0 && received->n_fds < n_fds)
        return PACKET_FDS_LOST;
    return received->n_fds == n_fds && !(msg->msg_flags & MSG_CTRUNC) ? 0 : -EBADMSG;
}

int packet_recv(int fd, enum message_direction direction, struct message *ret,
                int ret_fds[MESSAGE_FDS_MAX])
{
    uint8_t buf[MESSAGE_LEN_MAX];
    union control control;
    struct iovec iov = {.iov_base = buf, .iov_len = sizeof buf};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof control.bytes,
    };
    struct received received = {.n_fds = 0};
    struct message m;
    ssize_t n;
    int r;

    do {
        n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    received_collect(&msg, &received);
    if (n == 0)
        r = empty_result(fd, &msg, &received);
    else
        r = received_decode(&msg, buf, (size_t)n, direction, &received, &m);
    if (r != 0)
        received_close(&received);
    if (r < 0)
        return r;
    for (size_t i = 0; i < MESSAGE_FDS_MAX; i++)
        ret_fds[i] = i < received.n_fds ? received.fds[i] : -1;
    *ret = m;
    return r;
}

int packet_read(int fd, enum message_direction direction, struct message *ret)
{
    uint8_t buf[MESSAGE_LEN_MAX +
                1]; // so that a packet which is too long does not look like one that is not
    struct message m;
    ssize_t n;
    int r;

    do {
        n = read(fd, buf, sizeof buf);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if (n == 0)
        return -ENODATA;
    r = message_decode(buf, (size_t)n, direction, &m);
    if (r < 0)
        return r;
    if (message_info((uint32_t)m.type)->n_fds != 0)
        return -EBADMSG; // its descriptors are gone
    *ret = m;
    return 0;
}

int packet_connect(const char *path, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    int fd;

    if (n == 0)
        return -ENOENT; // an empty sun_path would be an abstract name, which anybody may own
    if (n >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, n);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0) {
        int r = -errno;
        close(fd);
        return r;
    }
    *ret_fd = fd;
    return 0;
}
