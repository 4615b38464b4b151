// SPDX-License-Identifier: MIT
// Talking to the daemon before a sandbox. See wire.h.
#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "cryptod.h"
#include "packet.h"

int wire_find_path(const char *path, char ret_path[WIRE_PATH_SIZE])
{
    if (!path) {
        path = secure_getenv("CRYPTOD_SOCKET");
        if (!path || *path == '\0')
            path = CRYPTOD_SOCKET;
    }
    size_t n = strlen(path);
    if (n >= WIRE_PATH_SIZE)
        return -ENAMETOOLONG;
    memcpy(ret_path, path, n + 1);
    return 0;
}

int wire_connect(const char *path, int *ret_fd)
{
    int r = packet_connect(path, ret_fd);

    return r == -EAGAIN ? -ETIMEDOUT : r;
}

// A daemon that has no room for this connection says so before it has read what was asked, and
// closes. 1: it is such a word.
static int wire_is_parting(const struct message *m)
{
    return m->type == MESSAGE_HELLO_REPLY && m->serial == 0 &&
           m->u.hello_reply.reason != MESSAGE_OK;
}

static int wire_receive_one(int fd, struct message *ret)
{
    int r = packet_read(fd, MESSAGE_FRONT_TO_CLIENT, ret);

    // The kernel reports that the daemon has left something unread before it gives what the daemon
    // had said.
    if (r == -ECONNRESET)
        r = packet_read(fd, MESSAGE_FRONT_TO_CLIENT, ret);
    if (r == -ENODATA)
        return -ECONNRESET;
    return r == 0 && wire_is_parting(ret) ? wire_reason_error(ret->u.hello_reply.reason) : r;
}

int wire_ask(int fd, const struct message *question, const int *fds, size_t n_fds)
{
    struct message m;
    int r = packet_send(fd, question, fds, n_fds);

    if (r != -EPIPE && r != -ECONNRESET)
        return r;
    r = wire_receive_one(fd, &m);
    return r < 0 && r != -EAGAIN ? r : -ECONNRESET;
}

int wire_receive(int fd, uint64_t until_ms, struct message *ret)
{
    for (;;) {
        int r = wire_receive_one(fd, ret);
        if (r != -EAGAIN)
            return r;
        uint64_t now = clock_now_ms();
        if (now >= until_ms)
            return -ETIMEDOUT;
        struct pollfd item = {.fd = fd, .events = POLLIN};
        struct timespec left = {.tv_sec = (time_t)((until_ms - now) / 1000u),
                                .tv_nsec = (long)((until_ms - now) % 1000u) * 1000000L};
        if (ppoll(&item, 1, &left, NULL) < 0 && errno != EINTR)
            return -errno;
    }
}

int wire_reason_error(uint32_t reason)
{
    switch (reason) {
    case MESSAGE_OK:
        return 0;
    case MESSAGE_REASON_VERSION:
        return -EPROTO;
    case MESSAGE_REASON_ACCESS:
        return -EACCES;
    case MESSAGE_REASON_LIMIT:
        return -EUSERS;
    case MESSAGE_REASON_CONNECTS:
        return -EDQUOT;
    case MESSAGE_REASON_SIZE:
        return -E2BIG;
    case MESSAGE_REASON_ENGINE:
    case MESSAGE_REASON_SOFTWARE:
        return -EOPNOTSUPP;
    case MESSAGE_REASON_BUSY:
        return -EBUSY;
    case MESSAGE_REASON_INTERNAL:
        return -ENOBUFS;
    default: // what we sent was not to the daemon's liking
        return -EBADMSG;
    }
}
