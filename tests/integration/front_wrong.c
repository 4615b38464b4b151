// SPDX-License-Identifier: MIT
// Each of these lacks exactly one thing that it should have.
#include "front_wrong.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "shm.h"

static int memory_make(size_t n_allocated, size_t n_size, int seals)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    cr_assert_geq(fd, 0);
    cr_assert_eq(ftruncate(fd, (off_t)n_size), 0);
    if (n_allocated > 0)
        cr_assert_eq(fallocate(fd, 0, 0, (off_t)n_allocated), 0);
    if (seals != 0)
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

int wrong_memory_unsealed(void)
{
    return memory_make(shm_size(2), shm_size(2), 0);
}

int wrong_memory_may_shrink(void)
{
    return memory_make(shm_size(2), shm_size(2), F_SEAL_GROW | F_SEAL_SEAL);
}

int wrong_memory_may_grow(void)
{
    return memory_make(shm_size(2), shm_size(2), F_SEAL_SHRINK | F_SEAL_SEAL);
}

int wrong_memory_write_sealed(void)
{
    return memory_make(shm_size(2), shm_size(2), SEALS | F_SEAL_WRITE);
}

int wrong_memory_short(void)
{
    return memory_make(shm_size(1), shm_size(1), SEALS);
}

int wrong_memory_long(void)
{
    return memory_make(shm_size(4), shm_size(4), SEALS);
}

int wrong_memory_sparse(void)
{
    return memory_make(0, shm_size(2), SEALS);
}

int wrong_memory_half_sparse(void)
{
    return memory_make(shm_size(1), shm_size(2), SEALS);
}

int wrong_memory_file(void)
{
    char path[] = P_tmpdir "/cryptod-hostile-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);

    cr_assert_geq(fd, 0);
    unlink(path);
    cr_assert_eq(ftruncate(fd, (off_t)shm_size(2)), 0);
    return fd;
}

int wrong_memory_read_only(void)
{
    char path[64];
    int fd = memory_make(shm_size(2), shm_size(2), SEALS);

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int read_only = open(path, O_RDONLY | O_CLOEXEC);
    close(fd);
    return read_only;
}

int wrong_pipe_end(void)
{
    int fds[2];

    cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
    close(fds[0]);
    return fds[1];
}

int wrong_folder(void)
{
    return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int pair_end(int type)
{
    int fds[2];

    cr_assert_eq(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds), 0);
    close(fds[0]);
    return fds[1];
}

int wrong_bell_stream(void)
{
    return pair_end(SOCK_STREAM);
}

int wrong_bell_datagram(void)
{
    return pair_end(SOCK_DGRAM);
}

int wrong_bell_unconnected(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

int wrong_bell_listening(void)
{
    const struct sockaddr_un any = {.sun_family = AF_UNIX};
    int fd = wrong_bell_unconnected();

    cr_assert_eq(bind(fd, (const struct sockaddr *)&any, sizeof(any.sun_family)), 0);
    cr_assert_eq(listen(fd, 1), 0);
    return fd;
}

int wrong_bell_internet(void)
{
    return socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}
