// SPDX-License-Identifier: MIT
// Sockets where the C library makes all their calls through one, socketcall (32-bit x86 and other
// old architectures): its arguments lie in memory, which a filter cannot see, and so no policy lets
// it through (seccomp.c). Guarantees that a program with this file makes the direct calls that
// Linux has since 4.3 instead, whichever library calls the function. Elsewhere there is nothing in
// it. Knows no policy.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(SYS_socketcall) && defined(SYS_socket)

// Under names of their own: some headers declare these with types that only the C library can name.
// Weak: a test may have a fake.
#define DIRECT(name) __asm__(#name) __attribute__((weak, visibility("default")))

int direct_socket(int domain, int type, int protocol) DIRECT(socket);
int direct_socketpair(int domain, int type, int protocol, int pair[2]) DIRECT(socketpair);
int direct_bind(int fd, const void *address, socklen_t n) DIRECT(bind);
int direct_connect(int fd, const void *address, socklen_t n) DIRECT(connect);
int direct_listen(int fd, int backlog) DIRECT(listen);
int direct_accept(int fd, void *address, socklen_t *n) DIRECT(accept);
int direct_accept4(int fd, void *address, socklen_t *n, int flags) DIRECT(accept4);
int direct_getsockname(int fd, void *address, socklen_t *n) DIRECT(getsockname);
int direct_getpeername(int fd, void *address, socklen_t *n) DIRECT(getpeername);
int direct_getsockopt(int fd, int level, int name, void *value, socklen_t *n) DIRECT(getsockopt);
int direct_setsockopt(int fd, int level, int name, const void *value, socklen_t n)
    DIRECT(setsockopt);
int direct_shutdown(int fd, int how) DIRECT(shutdown);
ssize_t direct_send(int fd, const void *data, size_t n, int flags) DIRECT(send);
ssize_t direct_sendto(int fd, const void *data, size_t n, int flags, const void *address,
                      socklen_t n_address) DIRECT(sendto);
ssize_t direct_sendmsg(int fd, const struct msghdr *message, int flags) DIRECT(sendmsg);
ssize_t direct_recv(int fd, void *data, size_t n, int flags) DIRECT(recv);
ssize_t direct_recvfrom(int fd, void *data, size_t n, int flags, void *address,
                        socklen_t *n_address) DIRECT(recvfrom);
ssize_t direct_recvmsg(int fd, struct msghdr *message, int flags) DIRECT(recvmsg);

int direct_socket(int domain, int type, int protocol)
{
    return (int)syscall(SYS_socket, domain, type, protocol);
}

int direct_socketpair(int domain, int type, int protocol, int pair[2])
{
    return (int)syscall(SYS_socketpair, domain, type, protocol, pair);
}

int direct_bind(int fd, const void *address, socklen_t n)
{
    return (int)syscall(SYS_bind, fd, address, n);
}

int direct_connect(int fd, const void *address, socklen_t n)
{
    return (int)syscall(SYS_connect, fd, address, n);
}

int direct_listen(int fd, int backlog)
{
    return (int)syscall(SYS_listen, fd, backlog);
}

// There is no direct accept.
int direct_accept(int fd, void *address, socklen_t *n)
{
    return direct_accept4(fd, address, n, 0);
}

int direct_accept4(int fd, void *address, socklen_t *n, int flags)
{
    return (int)syscall(SYS_accept4, fd, address, n, flags);
}

int direct_getsockname(int fd, void *address, socklen_t *n)
{
    return (int)syscall(SYS_getsockname, fd, address, n);
}

int direct_getpeername(int fd, void *address, socklen_t *n)
{
    return (int)syscall(SYS_getpeername, fd, address, n);
}

int direct_getsockopt(int fd, int level, int name, void *value, socklen_t *n)
{
    return (int)syscall(SYS_getsockopt, fd, level, name, value, n);
}

int direct_setsockopt(int fd, int level, int name, const void *value, socklen_t n)
{
    return (int)syscall(SYS_setsockopt, fd, level, name, value, n);
}

int direct_shutdown(int fd, int how)
{
    return (int)syscall(SYS_shutdown, fd, how);
}

ssize_t direct_send(int fd, const void *data, size_t n, int flags)
{
    return direct_sendto(fd, data, n, flags, NULL, 0);
}

ssize_t direct_sendto(int fd, const void *data, size_t n, int flags, const void *address,
                      socklen_t n_address)
{
    return syscall(SYS_sendto, fd, data, n, flags, address, n_address);
}

ssize_t direct_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t direct_recv(int fd, void *data, size_t n, int flags)
{
    return direct_recvfrom(fd, data, n, flags, NULL, NULL);
}

ssize_t direct_recvfrom(int fd, void *data, size_t n, int flags, void *address,
                        socklen_t *n_address)
{
    return syscall(SYS_recvfrom, fd, data, n, flags, address, n_address);
}

ssize_t direct_recvmsg(int fd, struct msghdr *message, int flags)
{
    return syscall(SYS_recvmsg, fd, message, flags);
}

// What the C library's headers make of these where times have 64 bits. Its own functions then also
// translate times for kernels before 5.1; no socket here has any.
#define DIRECT_ALIAS(name, of)                                                                     \
    __asm__(#name) __attribute__((weak, visibility("default"), alias(#of)))

ssize_t direct_sendmsg64(int fd, const struct msghdr *message, int flags)
    DIRECT_ALIAS(__sendmsg64, sendmsg);
ssize_t direct_recvmsg64(int fd, struct msghdr *message, int flags)
    DIRECT_ALIAS(__recvmsg64, recvmsg);
int direct_getsockopt64(int fd, int level, int name, void *value, socklen_t *n)
    DIRECT_ALIAS(__getsockopt64, getsockopt);
int direct_setsockopt64(int fd, int level, int name, const void *value, socklen_t n)
    DIRECT_ALIAS(__setsockopt64, setsockopt);

#endif
