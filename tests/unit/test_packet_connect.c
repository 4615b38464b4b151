// SPDX-License-Identifier: MIT
// packet_connect(): to a socket, and to everything that is none.
#include "packet.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char folder[64];
static char path[80];

static void make_folder(void)
{
    strcpy(folder, "/tmp/test-packet-XXXXXX");
    cr_assert_neq(mkdtemp(folder), NULL);
    snprintf(path, sizeof path, "%s/sock", folder);
}

static void remove_folder(void)
{
    unlink(path);
    rmdir(folder);
}

TestSuite(packet_connect, .init = make_folder, .fini = remove_folder);

// A listening socket at path, or with backlog < 0 a bound one.
static int listen_at(int type, int backlog)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

    cr_assert(fd >= 0);
    strcpy(address.sun_path, path);
    cr_assert_eq(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    if (backlog >= 0)
        cr_assert_eq(listen(fd, backlog), 0);
    return fd;
}

static void expect_failure(const char *to, int want)
{
    int fd = -7, next = dup(0), r = packet_connect(to, &fd);

    cr_expect_eq(r, want, "%s: %s", to, strerror(-r));
    cr_expect_eq(fd, -7, "touched on failure");
    close(next);
    cr_expect_eq(dup(0), next, "a descriptor was left open");
    close(next);
}

Test(packet_connect, makes_a_nonblocking_cloexec_socket)
{
    int listener = listen_at(SOCK_SEQPACKET, 4), fd = -1;
    struct message m = {.type = MESSAGE_STATUS, .serial = 5}, got;

    cr_assert_eq(packet_connect(path, &fd), 0);
    cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    cr_expect(fcntl(fd, F_GETFL) & O_NONBLOCK);
    int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    cr_assert(peer >= 0);
    cr_assert_eq(packet_write(fd, &m), 0);
    cr_assert_eq(packet_read(peer, MESSAGE_CLIENT_TO_FRONT, &got), 0);
    cr_expect_eq(got.serial, 5);
    close(peer);
    close(fd);
    close(listener);
}

Test(packet_connect, full_backlog_does_not_block, .timeout = 30)
{
    int listener = listen_at(SOCK_SEQPACKET, 0), fds[64], r = 0;
    size_t n = 0;

    while (n < 64 && (r = packet_connect(path, &fds[n])) == 0)
        n++;
    cr_expect_eq(r, -EAGAIN, "after %zu: %s", n, strerror(-r));
    expect_failure(path, -EAGAIN);
    while (n > 0)
        close(fds[--n]);
    close(listener);
}

Test(packet_connect, nobody_there)
{
    expect_failure(path, -ENOENT);
    int bound = listen_at(SOCK_SEQPACKET, -1);
    expect_failure(path, -ECONNREFUSED);
    close(bound);
    expect_failure(path, -ECONNREFUSED);
}

Test(packet_connect, wrong_kind_of_socket)
{
    int listener = listen_at(SOCK_STREAM, 4);

    expect_failure(path, -EPROTOTYPE);
    close(listener);
}

Test(packet_connect, paths_that_do_not_fit)
{
    struct sockaddr_un address;
    char longest[sizeof address.sun_path + 1];

    memset(longest, 'x', sizeof longest);
    longest[0] = '/';
    longest[sizeof address.sun_path - 1] = 0;
    expect_failure(longest, -ENOENT);
    longest[sizeof address.sun_path - 1] = 'x';
    longest[sizeof address.sun_path] = 0;
    expect_failure(longest, -ENAMETOOLONG);
    expect_failure("", -ENOENT);
}
