// SPDX-License-Identifier: MIT
// Opening a channel. See handshake.h.
#include "handshake.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "clock.h"
#include "wire.h"

// What the daemon may ask for; more would be a mistake of its configuration.
#define DEADLINE_MAX_MS 60000u
#define SPIN_MAX_US     1000u

// Programs close and reuse descriptors that they do not know of: closefrom(), or dup2() onto low
// numbers. A number near the limit is practically never given to another file afterwards, so that
// a closed descriptor shows itself as EBADF instead of leading to somebody else's file.
#define HIGH_MIN  64u
#define HIGH_MAX  65000u
#define HIGH_ROOM 32u

static int descriptor_raise(int fd)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return fd;
    rlim_t top = limit.rlim_cur < HIGH_MAX ? limit.rlim_cur : HIGH_MAX;
    if (top < HIGH_MIN + HIGH_ROOM)
        return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, (int)(top - HIGH_ROOM));
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

static void descriptor_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

// The socket's own timeouts bound every wait of the channel: one read() is a whole bounded wait,
// and a stop and continue in it gives EINTR instead of restart_syscall.
static int bell_limit(int bell, uint32_t deadline_ms)
{
    struct timeval limit = {.tv_sec = (time_t)(deadline_ms / 1000u),
                            .tv_usec = (suseconds_t)(deadline_ms % 1000u) * 1000};

    if (setsockopt(bell, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) < 0 ||
        setsockopt(bell, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) < 0)
        return -errno;
    return 0;
}

static int hello_exchange(int control, uint32_t n_slots, int memory, int bell, uint64_t until_ms,
                          struct message_hello_reply *ret)
{
    struct message hello = {
        .type = MESSAGE_HELLO,
        .serial = 1,
        .u.hello = {.version_min = MESSAGE_VERSION_MIN,
                    .version_max = MESSAGE_VERSION_MAX,
                    .n_slots = n_slots,
                    .n_streams = HANDSHAKE_STREAMS},
    };
    const int fds[2] = {memory, bell};
    struct message answer;

    int r = wire_ask(control, &hello, fds, 2);
    if (r == 0)
        r = wire_receive(control, until_ms, &answer);
    if (r != 0)
        return r;
    if (answer.type != MESSAGE_HELLO_REPLY || answer.serial != hello.serial)
        return -EBADMSG;
    struct message_hello_reply reply = answer.u.hello_reply;
    if (reply.reason != MESSAGE_OK)
        return wire_reason_error(reply.reason);
    if (reply.version < MESSAGE_VERSION_MIN || reply.version > MESSAGE_VERSION_MAX)
        return -EPROTO;
    if (reply.deadline_ms == 0)
        reply.deadline_ms = 1;
    if (reply.deadline_ms > DEADLINE_MAX_MS)
        reply.deadline_ms = DEADLINE_MAX_MS;
    if (reply.spin_us > SPIN_MAX_US)
        reply.spin_us = SPIN_MAX_US;
    *ret = reply;
    return 0;
}

static int handshake_try(const char *path, uint32_t n_slots, uint64_t until_ms,
                         struct handshake *ret)
{
    struct handshake made = {.control = -1, .bell = -1};
    int memory = -1, bells[2] = {-1, -1};

    int r = wire_connect(path, &made.control);
    if (r == 0)
        r = shm_create(n_slots, HANDSHAKE_STREAMS, &made.map, &memory);
    if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, bells) < 0)
        r = -errno;
    if (r == 0)
        r = hello_exchange(made.control, n_slots, memory, bells[1], until_ms, &made.reply);
    if (r == 0)
        r = bell_limit(bells[0], made.reply.deadline_ms);
    descriptor_close(&memory);
    descriptor_close(&bells[1]);
    if (r < 0) {
        descriptor_close(&bells[0]);
        descriptor_close(&made.control);
        shm_unmap(&made.map);
        return r;
    }
    made.control = descriptor_raise(made.control);
    made.bell = descriptor_raise(bells[0]);
    *ret = made;
    return 0;
}

int handshake_run(const char *path, unsigned timeout_ms, struct handshake *ret)
{
    uint64_t until_ms = clock_now_ms() + timeout_ms;
    uint32_t n_slots = HANDSHAKE_SLOTS;
    int r;

    // The channel may be too large for the daemon's limits, or for the process's of file sizes:
    // then there is less memory for keystream, or none. A daemon that refuses closes the
    // connection.
    do {
        r = handshake_try(path, n_slots, until_ms, ret);
        n_slots /= 4;
    } while ((r == -E2BIG || r == -EFBIG) && n_slots >= SHM_SLOTS_REQUEST);
    return r == -E2BIG ? -EUSERS : r;
}
