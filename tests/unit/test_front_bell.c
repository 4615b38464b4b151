// SPDX-License-Identifier: MIT
// What front takes for a bell, and what not.
#include "hello.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int fd, int expected)
{
    cr_assert_geq(fd, 0);
    cr_assert_eq(hello_check_bell(fd, geteuid()), expected);
    close(fd);
}

static int one_of_pair(int type)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, type, 0, pair), 0);
    close(pair[1]);
    return pair[0];
}

Test(front_bell, pair_is_a_bell)
{
    int pair[2];

    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    cr_assert_eq(hello_check_bell(pair[0], geteuid()), 0);
    cr_assert_eq(hello_check_bell(pair[1], geteuid()), 0);
    close(pair[0]);
    close(pair[1]);
}

Test(front_bell, other_kinds_are_not)
{
    int pipes[2];

    cr_assert_eq(pipe(pipes), 0);
    check(pipes[0], -ENOTSOCK);
    check(pipes[1], -ENOTSOCK);
    check(open("/dev/null", O_RDWR), -ENOTSOCK);
    check(one_of_pair(SOCK_STREAM), -ESOCKTNOSUPPORT);
    check(one_of_pair(SOCK_DGRAM), -ESOCKTNOSUPPORT);
    check(socket(AF_INET, SOCK_DGRAM, 0), -EAFNOSUPPORT);
    cr_assert_eq(hello_check_bell(-1, geteuid()), -EBADF);
}

static int bind_abstract(struct sockaddr_un *ret, socklen_t *ret_n)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un any = {.sun_family = AF_UNIX};

    cr_assert_geq(fd, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&any, sizeof(any.sun_family)),
                 0); // the kernel picks a name
    *ret_n = sizeof(*ret);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)ret, ret_n), 0);
    return fd;
}

Test(front_bell, unconnected_and_listening_are_not)
{
    struct sockaddr_un name;
    socklen_t n;
    int listener = bind_abstract(&name, &n);

    check(socket(AF_UNIX, SOCK_SEQPACKET, 0), -ENOTCONN);
    cr_assert_eq(listen(listener, 1), 0);
    check(listener, -ENOTCONN);
}

// The engine would speak to that user's service in its own name.
Test(front_bell, connection_to_another_users_service_is_not)
{
    struct sockaddr_un name;
    socklen_t n;

    if (geteuid() != 0)
        cr_skip_test("only root can become other users");
    int listener = bind_abstract(&name, &n);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) // listen() records the credentials
        _exit(setresuid(2000, 2000, 2000) == 0 && listen(listener, 1) == 0 ? 0 : 1);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&name, n), 0);
    check(fd, -EPERM);
    close(listener);
}
