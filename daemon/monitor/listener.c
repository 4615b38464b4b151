// SPDX-License-Identifier: MIT
// Guarantees that a living daemon's socket is never taken away, and that nobody can connect before
// the mode is right. Must not know what is said over it.
#include "listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "log.h"

#define LISTENER_BACKLOG 256

static int listener_take_passed(const char *path, int n, struct listener *listener, char *ret_error)
{
    int fd = SD_LISTEN_FDS_START, flags;

    if (n > 1) {
        snprintf(ret_error, LISTENER_ERROR_MAX, "%d sockets were passed, one is expected", n);
        return -EINVAL;
    }
    if (sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, NULL, 0) <= 0) {
        snprintf(ret_error, LISTENER_ERROR_MAX,
                 "the socket that was passed is not a listening Unix SOCK_SEQPACKET socket");
        return -EINVAL;
    }
    if (sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, path, 0) <= 0)
        log_notice("the socket that was passed is not '%s', as configured; it is used", path);
    flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        snprintf(ret_error, LISTENER_ERROR_MAX, "the socket that was passed: %s", strerror(errno));
        return -errno;
    }
    listener->fd = fd;
    return 0;
}

static int listener_make_directory(struct listener *listener, char *ret_error)
{
    char directory[sizeof(listener->path)];
    char *slash;

    memcpy(directory, listener->path, sizeof(directory));
    slash = strrchr(directory, '/');
    if (slash == directory)
        return 0;
    *slash = '\0';
    if (mkdir(directory, 0755) == 0) {
        listener->made_dir = true;
        if (chmod(directory, 0755) == 0) // whatever the umask is
            return 0;
    } else if (errno == EEXIST) {
        return 0;
    }
    snprintf(ret_error, LISTENER_ERROR_MAX, "%s: %s", directory, strerror(errno));
    return -errno;
}

// Whether somebody listens on addr. A full backlog is an answer too.
static bool listener_is_answered(const struct sockaddr_un *addr)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool answered;

    if (fd < 0)
        return true;
    answered = connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0 ||
               (errno != ECONNREFUSED && errno != ENOENT);
    close(fd);
    return answered;
}

static int listener_remove_stale(const struct sockaddr_un *addr, char *ret_error)
{
    struct stat st;

    if (lstat(addr->sun_path, &st) < 0)
        return 0; // bind() will say what is wrong, if it is not just absent
    if (!S_ISSOCK(st.st_mode)) {
        snprintf(ret_error, LISTENER_ERROR_MAX, "%s: exists and is not a socket", addr->sun_path);
        return -EEXIST;
    }
    if (listener_is_answered(addr)) {
        snprintf(ret_error, LISTENER_ERROR_MAX, "%s: another cryptod is running", addr->sun_path);
        return -EADDRINUSE;
    }
    if (unlink(addr->sun_path) < 0 && errno != ENOENT) {
        snprintf(ret_error, LISTENER_ERROR_MAX, "%s: %s", addr->sun_path, strerror(errno));
        return -errno;
    }
    return 0;
}

static int listener_bind(struct listener *listener, const struct sockaddr_un *addr)
{
    mode_t mask;
    struct stat st;
    int r;

    // The file gets the socket's own mode, less the umask (net/unix/af_unix.c: unix_bind_bsd).
    if (fchmod(listener->fd, 0666) < 0)
        return -errno;
    mask = umask(0);
    r = bind(listener->fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 ? -errno : 0;
    umask(mask);
    if (r < 0)
        return r;
    listener->bound = true;
    if (lstat(listener->path, &st) < 0)
        return -errno;
    listener->device = st.st_dev;
    listener->inode = st.st_ino;
    return listen(listener->fd, LISTENER_BACKLOG) < 0 ? -errno : 0;
}

static int listener_make(struct listener *listener, char *ret_error)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int r;

    memcpy(addr.sun_path, listener->path, sizeof(addr.sun_path));
    r = listener_make_directory(listener, ret_error);
    if (r == 0)
        r = listener_remove_stale(&addr, ret_error);
    if (r < 0)
        return r;
    listener->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    r = listener->fd < 0 ? -errno : listener_bind(listener, &addr);
    if (r < 0)
        snprintf(ret_error, LISTENER_ERROR_MAX, "%s: %s", listener->path, strerror(-r));
    return r;
}

int listener_open(const char *path, struct listener *ret, char *ret_error)
{
    struct listener listener = LISTENER_EMPTY;
    int n = sd_listen_fds(1), r;

    if (n < 0) {
        snprintf(ret_error, LISTENER_ERROR_MAX, "sockets passed by systemd: %s", strerror(-n));
        return n;
    }
    snprintf(listener.path, sizeof(listener.path), "%s", path);
    r = n > 0 ? listener_take_passed(path, n, &listener, ret_error)
              : listener_make(&listener, ret_error);
    if (r < 0) {
        listener_close(&listener);
        return r;
    }
    *ret = listener;
    return 0;
}

void listener_close(struct listener *listener)
{
    struct stat st;
    char *slash;

    // Somebody may have put another socket there since.
    if (listener->bound && lstat(listener->path, &st) == 0 && st.st_dev == listener->device &&
        st.st_ino == listener->inode)
        unlink(listener->path);
    if (listener->made_dir && (slash = strrchr(listener->path, '/')) != NULL) {
        *slash = '\0';
        rmdir(listener->path);
    }
    if (listener->fd >= 0)
        close(listener->fd);
    *listener = LISTENER_EMPTY;
}
