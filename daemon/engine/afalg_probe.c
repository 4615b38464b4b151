// SPDX-License-Identifier: MIT
// Guarantees: each cause that keeps AF_ALG from being used has a text of its own; the deny list is
// applied before the first operation with a driver. Must not keep anything open.
#include "afalg_probe.h"

#include <errno.h>
#include <linux/if_alg.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deny_list.h"
#include "kcapi_adapter.h"
#include "kernel.h"
#include "proc_crypto.h"
#include "quarantine.h"

static void say(struct backend_probe *ret, int error, const char *what)
{
    const char *name = strerrorname_np(-error);

    ret->error = error;
    (void)snprintf(ret->text, sizeof(ret->text), "%s (%s)", what, name ? name : "?");
}

// The same, or, if the errno is a policy's, that the subject is blocked by one.
static void say_or_blame_policy(struct backend_probe *ret, int error, const char *subject,
                                const char *what)
{
    char text[96];

    (void)snprintf(text, sizeof(text), "%s is blocked by a security policy", subject);
    say(ret, error, error == -EPERM || error == -EACCES ? text : what);
}

static bool try_socket(struct backend_probe *ret, int *ret_fd)
{
    int fd = socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        say_or_blame_policy(ret, -errno, "AF_ALG",
                            errno == EAFNOSUPPORT ? "the kernel has no AF_ALG"
                                                  : "AF_ALG sockets cannot be made");
        return false;
    }
    *ret_fd = fd;
    return true;
}

static bool try_bind(struct backend_probe *ret, int fd, const char *name)
{
    struct sockaddr_alg address = {.salg_family = AF_ALG, .salg_type = "skcipher"};
    char subject[48], what[48];

    (void)snprintf((char *)address.salg_name, sizeof(address.salg_name), "%s", name);
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return true;
    int error = -errno;
    (void)snprintf(subject, sizeof(subject), "AF_ALG with %s", name);
    (void)snprintf(what, sizeof(what), "the kernel refuses %s", name);
    say_or_blame_policy(ret, error, subject, what);
    return false;
}

static bool try_netlink(struct backend_probe *ret)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_CRYPTO);

    if (fd < 0) {
        say_or_blame_policy(ret, -errno, "NETLINK_CRYPTO",
                            errno == EPROTONOSUPPORT
                                ? "the kernel's module crypto_user (NETLINK_CRYPTO) is missing"
                                : "NETLINK_CRYPTO sockets cannot be made");
        return false;
    }
    close(fd);
    return true;
}

// A request waits for ever for room if the kernel gives new sockets less than it needs. -1: it does
// not say.
static long read_buffer_size(void)
{
    FILE *file = fopen("/proc/sys/net/core/wmem_default", "re");
    char line[32];
    long n_bytes = -1;

    if (file && fgets(line, sizeof(line), file))
        n_bytes = strtol(line, NULL, 10);
    if (file)
        fclose(file);
    return n_bytes;
}

static bool try_buffer(struct backend_probe *ret)
{
    const long n_bytes = read_buffer_size();

    if (n_bytes < 0 || n_bytes >= (long)AFALG_REQUEST_MAX)
        return true;
    ret->error = -ENOBUFS;
    (void)snprintf(ret->text, sizeof(ret->text),
                   "sysctl net.core.wmem_default is below %u: requests would block",
                   AFALG_REQUEST_MAX);
    return false;
}

// Names the driver, while a bound socket holds it, and applies the deny list. What cannot be named
// cannot be denied, so with a deny list it is not used either.
static bool try_driver(const struct algorithm_info *info, const char *deny, const char *hung,
                       struct backend_probe *ret)
{
    struct proc_crypto_driver driver = {.name = ""};
    char name[QUARANTINE_NAME_MAX];
    char *text = NULL;
    int r = proc_crypto_read(&text);

    if (r == 0) // from 7.2 on AF_ALG takes synchronous drivers only
        r = proc_crypto_find(text, info->kernel_name, kernel_is_from(7, 2), &driver);
    free(text);
    if (r < 0 && deny[0] != '\0') {
        ret->denied = true;
        say(ret, r, "the driver's name is unknown, so the deny list cannot be kept");
        return false;
    }
    (void)snprintf(ret->driver, sizeof(ret->driver), "%s", driver.name);
    ret->hardware = driver.name[0] != '\0' && !proc_crypto_is_software(driver.name);
    quarantine_make_name(driver.name, name);
    ret->hangs = deny_list_has(hung, name);
    if (ret->hangs) {
        say(ret, -ETIMEDOUT, "it hangs");
        return false;
    }
    if (!deny_list_has(deny, driver.name) && !deny_list_has(deny, info->kernel_name))
        return true;
    ret->denied = true;
    ret->error = -EKEYREJECTED;
    (void)snprintf(ret->text, sizeof(ret->text), "on the list deny_drivers");
    return false;
}

static bool try_key(const struct algorithm_info *info, struct backend_probe *ret)
{
    struct kcapi_handle *handle;
    uint8_t key[ALGORITHM_KEY_MAX];
    int r;

    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t)(i * 37 + 1); // three different keys for DES-EDE3
    r = kcapi_adapter_open(info, key, &handle);
    if (r < 0) {
        say(ret, r, "libkcapi cannot set a key");
        return false;
    }
    kcapi_adapter_close(handle);
    return true;
}

void afalg_probe(const struct algorithm_info *info, const struct afalg_probe_settings *settings,
                 struct backend_probe *ret)
{
    int fd = -1;

    *ret = (struct backend_probe){.is_tested = true, .is_watched = true};
    if (!info->kernel_name) {
        ret->error = -EOPNOTSUPP;
        (void)snprintf(ret->text, sizeof(ret->text), "not asked of the kernel");
        return;
    }
    if (!try_socket(ret, &fd))
        return;
    if (try_bind(ret, fd, info->kernel_name) && try_netlink(ret) && try_buffer(ret) &&
        try_driver(info, settings->deny, settings->hung, ret)) {
        if (settings->on_trial)
            settings->on_trial(settings->user, info->id, ret->driver);
        (void)try_key(info, ret);
    }
    close(fd);
}
