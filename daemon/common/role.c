// SPDX-License-Identifier: MIT
// How a role starts: it takes its orders from the monitor, closes what it does not own, and says
// when it serves. Guarantees that a role never runs with orders that are not whole. Must not know
// what a role does with them.
#include "role.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "packet.h"

#define ROLE_CONFIG_WAIT_MS 10000

static int64_t role_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int role_wait_readable(int fd, int64_t deadline_ms)
{
    for (;;) {
        int64_t left = deadline_ms - role_now_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int n = poll(&p, 1, left > 0 ? (int)left : 0);

        if (n > 0)
            return 0;
        if (n == 0)
            return -ETIMEDOUT;
        if (errno != EINTR)
            return -errno;
    }
}

// What must hold whatever the monitor's version: a role never becomes root, and never counts past
// an array.
static bool role_config_is_sane(const struct message_role_config *config)
{
    return config->uid != 0 && config->gid != 0 && config->n_uids <= MESSAGE_IDS_MAX &&
           config->n_gids <= MESSAGE_IDS_MAX;
}

int role_receive_message(struct message *ret)
{
    int64_t deadline_ms = role_now_ms() + ROLE_CONFIG_WAIT_MS;
    int fds[MESSAGE_FDS_MAX];
    int r;

    do {
        r = role_wait_readable(ROLE_FD_MONITOR, deadline_ms);
        if (r == 0)
            r = packet_recv(ROLE_FD_MONITOR, MESSAGE_MONITOR_TO_ROLE, ret, fds);
    } while (r == -EAGAIN || r == -EINTR);
    return r;
}

int role_receive_config(int first_free, struct message_role_config *ret)
{
    struct message m = {0};
    int r;

    closefrom(first_free);
    r = role_receive_message(&m);
    if (r < 0)
        return r;
    if (m.type != MESSAGE_ROLE_CONFIG || !role_config_is_sane(&m.u.role_config))
        return -EPROTO;
    *ret = m.u.role_config;
    return 0;
}

int role_send(const struct message *m)
{
    return packet_send(ROLE_FD_MONITOR, m, NULL, 0);
}

int role_send_ready(void)
{
    struct message m = {.type = MESSAGE_ROLE_READY};

    return role_send(&m);
}
