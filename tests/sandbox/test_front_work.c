// SPDX-License-Identifier: MIT
// What front does all day works under its policy: a client is taken in, looked at, and answered.
#include <criterion/criterion.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "confined.h"

TestSuite(front_work, .timeout = 300);

struct day { // made before the sandbox, as the monitor does
    int listener;
    int client; // connected to it
    int memory; // a sealed memfd, for the client to send
};

static int descriptor_send(int socket_fd, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {.iov_base = (char[]){"x"}, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(int));
    return sendmsg(socket_fd, &msg, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

static int descriptor_receive(int socket_fd)
{
    char byte, control[256];
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    int fd = -1;

    if (recvmsg(socket_fd, &msg, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&msg))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
    return fd;
}

static int client_take_in(const struct day *day, int *ret_memory)
{
    struct ucred credentials = {0};
    socklen_t n = sizeof(credentials);
    struct sockaddr_storage address;
    gid_t groups[64];
    struct statfs fs;
    struct stat st;
    int fd = accept4(day->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    CONFINED_STEP(fd >= 0);
    CONFINED_STEP(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &n) == 0);
    n = sizeof(address);
    CONFINED_STEP(getpeername(fd, (struct sockaddr *)&address, &n) == 0);
    n = sizeof(groups);
    CONFINED_STEP(getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &n) == 0);
    CONFINED_STEP(descriptor_send(day->client, day->memory) == 0);
    *ret_memory = descriptor_receive(fd);
    CONFINED_STEP(*ret_memory >= 0);
    CONFINED_STEP(fstat(*ret_memory, &st) == 0 && st.st_size == 4096);
    CONFINED_STEP(fstatfs(*ret_memory, &fs) == 0);
    CONFINED_STEP(fcntl(*ret_memory, F_GETFL) >= 0);
    CONFINED_STEP(fcntl(*ret_memory, F_GET_SEALS) > 0);
    CONFINED_STEP(write(fd, "answer", 6) == 6);
    CONFINED_STEP(close(fd) == 0);
    return 0;
}

static void timer_end(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    *(bool *)context = true;
}

// As front makes it, before the sandbox.
static struct event_base *loop_new(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base;

    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV);
    base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

static int loop_run(struct event_base *base)
{
    const struct timeval soon = {0, 1000};
    bool ended = false;

    CONFINED_STEP(event_base_once(base, -1, EV_TIMEOUT, timer_end, &ended, &soon) == 0);
    CONFINED_STEP(event_base_dispatch(base) >= 0 && ended);
    event_base_free(base);
    return 0;
}

// Small pieces grow the heap, big ones are mappings of their own.
static int heap_try(void)
{
    static void *pieces[4096];
    void *big = malloc(16 << 20);
    void *bigger = realloc(big, 64 << 20);
    const bool have = big && bigger;

    free(bigger ? bigger : big);
    CONFINED_STEP(have);
    for (size_t i = 0; i < 4096; i++) {
        pieces[i] = malloc(1000);
        CONFINED_STEP(pieces[i]);
    }
    for (size_t i = 0; i < 4096; i++)
        free(pieces[i]);
    return 0;
}

static int day_run(const void *argument)
{
    const struct day *day = argument;
    struct event_base *base = loop_new();
    struct timespec now;
    int memory = -1, r;

    CONFINED_STEP(base && sandbox_harden_process() == 0);
    confined_load(SANDBOX_FRONT, SANDBOX_KILL);
    r = client_take_in(day, &memory);
    CONFINED_STEP(r == 0);
    close(memory);
    r = loop_run(base);
    CONFINED_STEP(r == 0);
    r = heap_try();
    CONFINED_STEP(r == 0);
    CONFINED_STEP(clock_gettime(CLOCK_BOOTTIME, &now) == 0);
    return 0;
}

Test(front_work, a_day_of_front_survives)
{
    struct sockaddr_storage address = {.ss_family = AF_UNIX}; // the kernel names it
    struct day day = {
        .listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0),
        .client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0),
        .memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING),
    };
    socklen_t n = sizeof(address);

    cr_assert(bind(day.listener, (struct sockaddr *)&address, sizeof(sa_family_t)) == 0);
    cr_assert(getsockname(day.listener, (struct sockaddr *)&address, &n) == 0);
    cr_assert(listen(day.listener, 4) == 0);
    cr_assert(connect(day.client, (struct sockaddr *)&address, n) == 0);
    cr_assert(ftruncate(day.memory, 4096) == 0);
    cr_assert(fcntl(day.memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    confined_assert_exit(confined_run(day_run, &day), 0, "a day of front");
}
