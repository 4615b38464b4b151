// SPDX-License-Identifier: MIT
// Guarantees: follows no link, opens no device, leaves no half file under the name. Must not know
// what is in the files.
#include "state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_MAX_NEW 40u // bytes, with ".new"

int state_file_open_directory(const char *path, int *ret_fd)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

static int read_all(int fd, char *text, size_t n_max, size_t *ret_n)
{
    size_t n = 0;

    while (n < n_max) {
        ssize_t got = read(fd, text + n, n_max - n);

        if (got < 0 && errno != EINTR)
            return -errno;
        if (got == 0)
            break;
        n += got > 0 ? (size_t)got : 0;
    }
    *ret_n = n;
    return n < n_max ? 0 : -EFBIG;
}

// No link, no device: a name in a directory that somebody else could have written to.
static int open_file(int directory, const char *name, int *ret_fd)
{
    struct stat st;
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return -EBADMSG;
    }
    *ret_fd = fd;
    return 0;
}

int state_file_read(int directory, const char *name, char *text, size_t n_max, size_t *ret_n)
{
    int fd = -1;
    int r = open_file(directory, name, &fd);

    if (r < 0)
        return r;
    r = read_all(fd, text, n_max, ret_n);
    close(fd);
    return r;
}

static int write_all(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t put = write(fd, text, n);

        if (put < 0 && errno != EINTR)
            return -errno;
        if (put > 0) {
            text += put;
            n -= (size_t)put;
        }
    }
    return fsync(fd) < 0 ? -errno : 0;
}

int state_file_write(int directory, const char *name, const char *text, size_t n)
{
    char name_new[NAME_MAX_NEW];
    int fd, r;

    if (snprintf(name_new, sizeof(name_new), "%s.new", name) >= (int)sizeof(name_new))
        return -ENAMETOOLONG;
    (void)unlinkat(directory, name_new, 0); // of a monitor that was killed while it wrote
    fd = openat(directory, name_new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    r = write_all(fd, text, n);
    if (close(fd) < 0 && r == 0)
        r = -errno;
    if (r == 0 && renameat(directory, name_new, directory, name) < 0)
        r = -errno;
    if (r < 0)
        (void)unlinkat(directory, name_new, 0);
    else if (fsync(directory) < 0)
        r = -errno;
    return r;
}
