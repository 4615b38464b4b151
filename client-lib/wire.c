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

int wire_receive(int fd, uint64_t until_ms, struct message *ret)
{
    for (;;) {
        int r = packet_read(fd, MESSAGE_FRONT_TO_CLIENT, ret);
        if (r == -ENODATA)
            return -ECONNRESET;
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
