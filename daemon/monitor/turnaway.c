// SPDX-License-Identifier: MIT
// Guarantees that no client costs more than one accept and one close. Must not know why nobody is
// served.
#include "turnaway.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define TURNAWAY_ACCEPTS_MAX 64 // in one go; signals and timers wait meanwhile

struct turnaway {
    struct event *readable;
};

static void turnaway_handle_readable(evutil_socket_t listener, short what, void *user)
{
    struct turnaway *turnaway = user;

    (void)what;
    for (int i = 0; i < TURNAWAY_ACCEPTS_MAX; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            close(fd);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            turnaway_end(turnaway);
            return;
        }
    }
}

int turnaway_new(struct event_base *base, int listener_fd, struct turnaway **ret)
{
    struct turnaway *turnaway = calloc(1, sizeof(*turnaway));

    if (turnaway == NULL)
        return -ENOMEM;
    turnaway->readable =
        event_new(base, listener_fd, EV_READ | EV_PERSIST, turnaway_handle_readable, turnaway);
    if (turnaway->readable == NULL) {
        free(turnaway);
        return -ENOMEM;
    }
    *ret = turnaway;
    return 0;
}

void turnaway_free(struct turnaway *turnaway)
{
    if (turnaway == NULL)
        return;
    event_free(turnaway->readable);
    free(turnaway);
}

void turnaway_begin(struct turnaway *turnaway)
{
    event_add(turnaway->readable, NULL);
}

void turnaway_end(struct turnaway *turnaway)
{
    event_del(turnaway->readable);
}
