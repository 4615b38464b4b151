// SPDX-License-Identifier: MIT
// accept4() that fails for want of descriptors leaves the connection in the backlog and the
// listener readable: without a rest the loop would spin.
#include "acceptor.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "front.h"
#include "log.h"

#define ACCEPTS_PER_EVENT                                                                          \
    16 // so that a flood of connects does not starve the clients that are here
#define REST_MS     100L
#define SAY_AGAIN_S 10 // it may last

static void acceptor_rest(struct acceptor *acceptor, int error)
{
    const struct timeval rest = {.tv_usec = REST_MS * 1000};
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (acceptor->said_s == 0 || now.tv_sec - acceptor->said_s >= SAY_AGAIN_S) {
        acceptor->said_s = now.tv_sec;
        complaint_write(&acceptor->front->complaint, LOG_LEVEL_WARNING, "accepting pauses: %s",
                        strerror(error));
    }
    event_del(&acceptor->event);
    event_add(&acceptor->resume_timer, &rest);
}

static void acceptor_on_timer(evutil_socket_t fd, short what, void *data)
{
    struct acceptor *acceptor = data;
    (void)fd;
    (void)what;
    event_add(&acceptor->event, NULL);
}

// Errors of accept4() that concern the one connection alone, or no connection (accept(2)).
static bool error_is_passing(int error)
{
    return error == ECONNABORTED || error == EINTR || error == EPROTO || error == EPERM;
}

static void acceptor_on_readable(evutil_socket_t fd, short what, void *data)
{
    struct acceptor *acceptor = data;
    (void)what;
    for (int i = 0; i < ACCEPTS_PER_EVENT; i++) {
        if (front_is_short_of_fds(acceptor->front)) {
            acceptor_rest(acceptor, EMFILE);
            return;
        }
        int client_fd = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client_fd < 0) {
            if (errno == EAGAIN)
                return;
            if (error_is_passing(errno))
                continue;
            acceptor_rest(acceptor, errno);
            return;
        }
        client_new(acceptor->front, client_fd); // says itself why not
    }
}

int acceptor_init(struct acceptor *acceptor, struct front *front, int fd)
{
    *acceptor = (struct acceptor){.front = front, .fd = fd};
    if (fd < 0)
        return 0;
    if (evutil_make_socket_nonblocking(fd) < 0)
        return -errno;
    if (event_assign(&acceptor->event, front->base, fd, EV_READ | EV_PERSIST, acceptor_on_readable,
                     acceptor) < 0 ||
        evtimer_assign(&acceptor->resume_timer, front->base, acceptor_on_timer, acceptor) < 0)
        return -ENOMEM;
    return 0;
}

void acceptor_fini(struct acceptor *acceptor)
{
    if (event_initialized(&acceptor->event))
        event_del(&acceptor->event);
    if (event_initialized(&acceptor->resume_timer))
        event_del(&acceptor->resume_timer);
    if (acceptor->fd >= 0)
        close(acceptor->fd);
    acceptor->fd = -1;
}

int acceptor_start(struct acceptor *acceptor)
{
    if (acceptor->fd < 0)
        return 0;
    return event_add(&acceptor->event, NULL) < 0 ? -ENOMEM : 0;
}

void acceptor_wake(struct acceptor *acceptor)
{
    if (acceptor->fd < 0 || !evtimer_pending(&acceptor->resume_timer, NULL))
        return;
    event_del(&acceptor->resume_timer);
    event_add(&acceptor->event, NULL);
}
