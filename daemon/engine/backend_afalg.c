// SPDX-License-Identifier: MIT
// Backend "afalg": the kernel's symmetric ciphers through AF_ALG sockets, and so the machine's
// crypto engine if its driver has the highest priority.
//
// Guarantees: one request at a time on an operation socket; a socket that gave an error is never
// used again; no operation with a driver on the deny list; no socket leaves this file and
// kcapi_adapter.c. Must not know channels.
//
// Descriptors of a key: one for the transform, and three for each operation socket (libkcapi makes
// a pipe with each).
#include "backend.h"

#include <errno.h>
#include <linux/if_alg.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kcapi_adapter.h"
#include "kernel.h"
#include "proc_crypto.h"

#define REQUEST_MAX 65536u // bytes; a larger send could wait for ever for room in the socket
#define OPS_MAX     64u    // operation sockets of a key

struct backend {
    char *deny;
    uint32_t n_ops_max;
};

struct operation {
    struct kcapi_handle *handle;
    bool busy;
    bool broken; // gave an error: to be replaced before it is used again
};

struct backend_key {
    const struct algorithm_info *info;
    pthread_mutex_t mutex; // what is in ops, and each making of a handle from another
    uint32_t n_ops;
    uint32_t n_ops_max;
    struct operation ops[]; // the first n_ops have a handle
};

// ---------------------------------------------------------------- life

static int afalg_init(const struct backend_settings *settings, struct backend **ret)
{
    struct backend *backend = calloc(1, sizeof(*backend));

    if (!backend)
        return -ENOMEM;
    backend->deny = strdup(settings->deny_drivers ? settings->deny_drivers : "");
    if (!backend->deny) {
        free(backend);
        return -ENOMEM;
    }
    backend->n_ops_max = settings->workers < OPS_MAX ? settings->workers : OPS_MAX;
    kcapi_adapter_init();
    *ret = backend;
    return 0;
}

static void afalg_fini(struct backend *backend)
{
    if (!backend)
        return;
    free(backend->deny);
    free(backend);
}

// ---------------------------------------------------------------- probe

static bool is_listed(const char *list, const char *name)
{
    const size_t n = strlen(name);

    while (*list != '\0') {
        size_t n_word = strcspn(list, " ");

        if (n > 0 && n_word == n && memcmp(list, name, n) == 0)
            return true;
        list += n_word + strspn(list + n_word, " ");
    }
    return false;
}

// A row of the table says what an errno of one step means for people; %s is the errno's name.
static void say_why(struct backend_probe *ret, int error, const char *what)
{
    const bool policy = error == -EPERM || error == -EACCES;
    const char *name = strerrorname_np(-error);

    ret->error = error;
    (void)snprintf(ret->text, sizeof(ret->text),
                   policy ? "%s is blocked by a security policy (%s)" : "%s (%s)", what,
                   name ? name : "?");
}

static bool try_socket(struct backend_probe *ret, int *ret_fd)
{
    int fd = socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd >= 0) {
        *ret_fd = fd;
        return true;
    }
    if (errno == EAFNOSUPPORT)
        say_why(ret, -errno, "the kernel has no AF_ALG");
    else if (errno == EPERM || errno == EACCES)
        say_why(ret, -errno, "AF_ALG");
    else
        say_why(ret, -errno, "AF_ALG sockets cannot be made");
    return false;
}

static bool try_bind(struct backend_probe *ret, int fd, const char *name)
{
    struct sockaddr_alg address = {.salg_family = AF_ALG, .salg_type = "skcipher"};
    char what[96];

    (void)snprintf((char *)address.salg_name, sizeof(address.salg_name), "%s", name);
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return true;
    if (errno == EPERM || errno == EACCES)
        (void)snprintf(what, sizeof(what), "AF_ALG with %s", name);
    else
        (void)snprintf(what, sizeof(what), "the kernel refuses %s", name);
    say_why(ret, -errno, what);
    return false;
}

static bool try_netlink(struct backend_probe *ret)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_CRYPTO);

    if (fd >= 0) {
        close(fd);
        return true;
    }
    if (errno == EPROTONOSUPPORT)
        say_why(ret, -errno, "the kernel's module crypto_user (NETLINK_CRYPTO) is missing");
    else if (errno == EPERM || errno == EACCES)
        say_why(ret, -errno, "NETLINK_CRYPTO");
    else
        say_why(ret, -errno, "NETLINK_CRYPTO sockets cannot be made");
    return false;
}

// A request waits for ever for room if the kernel gives new sockets less than it needs.
static bool try_buffer(struct backend_probe *ret)
{
    FILE *file = fopen("/proc/sys/net/core/wmem_default", "re");
    unsigned long n_bytes;
    bool small = file && fscanf(file, "%12lu", &n_bytes) == 1 && n_bytes < REQUEST_MAX;

    if (file)
        fclose(file);
    if (!small)
        return true;
    ret->error = -ENOBUFS;
    (void)snprintf(ret->text, sizeof(ret->text),
                   "sysctl net.core.wmem_default is below %u: requests would block", REQUEST_MAX);
    return false;
}

// Names the driver, while a bound socket holds it, and applies the deny list. What cannot be named
// cannot be denied, so with a deny list it is not used either.
static bool try_driver(const struct backend *backend, const struct algorithm_info *info,
                       struct backend_probe *ret)
{
    struct proc_crypto_driver driver = {.name = ""};
    char *text = NULL;
    int r = proc_crypto_read(&text);

    if (r == 0) // from 7.2 on AF_ALG takes synchronous drivers only
        r = proc_crypto_find(text, info->kernel_name, kernel_is_from(7, 2), &driver);
    free(text);
    if (r < 0 && backend->deny[0] != '\0') {
        ret->denied = true;
        say_why(ret, r, "the driver's name is unknown, so the deny list cannot be kept");
        return false;
    }
    (void)snprintf(ret->driver, sizeof(ret->driver), "%s", driver.name);
    ret->hardware = driver.name[0] != '\0' && !proc_crypto_is_software(driver.name);
    if (!is_listed(backend->deny, driver.name) && !is_listed(backend->deny, info->kernel_name))
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
        say_why(ret, r, "libkcapi cannot set a key");
        return false;
    }
    kcapi_adapter_close(handle);
    return true;
}

static void afalg_probe(struct backend *backend, enum algorithm_id algorithm,
                        struct backend_probe *ret)
{
    const struct algorithm_info *info = algorithm_get(algorithm);
    int fd = -1;

    *ret = (struct backend_probe){.error = 0};
    if (!info->kernel_name) {
        ret->error = -EOPNOTSUPP;
        (void)snprintf(ret->text, sizeof(ret->text), "not asked of the kernel");
        return;
    }
    if (!try_socket(ret, &fd))
        return;
    if (try_bind(ret, fd, info->kernel_name) && try_netlink(ret) && try_buffer(ret) &&
        try_driver(backend, info, ret))
        (void)try_key(info, ret);
    close(fd);
}

// ---------------------------------------------------------------- keys

static int afalg_open(struct backend *backend, enum algorithm_id algorithm, const uint8_t *bytes,
                      struct backend_key **ret)
{
    const struct algorithm_info *info = algorithm_get(algorithm);
    struct backend_key *key;
    int r;

    if (!info->kernel_name)
        return -EOPNOTSUPP;
    key = calloc(1, sizeof(*key) + backend->n_ops_max * sizeof(key->ops[0]));
    if (!key)
        return -ENOMEM;
    key->info = info;
    key->n_ops_max = backend->n_ops_max;
    r = -pthread_mutex_init(&key->mutex, NULL);
    if (r < 0) {
        free(key);
        return r;
    }
    r = kcapi_adapter_open(info, bytes, &key->ops[0].handle);
    if (r < 0) {
        pthread_mutex_destroy(&key->mutex);
        free(key);
        return r;
    }
    key->n_ops = 1;
    *ret = key;
    return 0;
}

static void afalg_close(struct backend_key *key)
{
    if (!key)
        return;
    for (uint32_t i = 0; i < key->n_ops; i++)
        kcapi_adapter_close(key->ops[i].handle);
    pthread_mutex_destroy(&key->mutex);
    free(key);
}

// ---------------------------------------------------------------- requests

// The pool grows to as many operation sockets as threads have ever used the key at once.
static int add_operation(struct backend_key *key, struct operation **ret)
{
    struct operation *operation = &key->ops[key->n_ops];
    int r;

    if (key->n_ops == key->n_ops_max)
        return -EBUSY;
    r = kcapi_adapter_reopen(key->ops[0].handle, &operation->handle);
    if (r < 0)
        return r;
    key->n_ops++;
    *ret = operation;
    return 0;
}

static int replace_handle(struct operation *operation)
{
    struct kcapi_handle *fresh;
    int r = kcapi_adapter_reopen(operation->handle, &fresh);

    if (r < 0)
        return r;
    kcapi_adapter_close(operation->handle);
    operation->handle = fresh;
    operation->broken = false;
    return 0;
}

static int take_operation(struct backend_key *key, struct operation **ret)
{
    struct operation *operation = NULL;
    int r = 0;

    pthread_mutex_lock(&key->mutex);
    for (uint32_t i = 0; i < key->n_ops && !operation; i++)
        if (!key->ops[i].busy)
            operation = &key->ops[i];
    if (!operation)
        r = add_operation(key, &operation);
    else if (operation->broken)
        r = replace_handle(operation);
    if (r == 0)
        operation->busy = true;
    pthread_mutex_unlock(&key->mutex);
    if (r < 0)
        return r;
    *ret = operation;
    return 0;
}

static void give_back_operation(struct backend_key *key, struct operation *operation, bool broken)
{
    pthread_mutex_lock(&key->mutex);
    operation->broken = broken;
    operation->busy = false;
    pthread_mutex_unlock(&key->mutex);
}

static int try_once(struct backend_key *key, bool encrypt, const uint8_t *iv, uint8_t *out,
                    const uint8_t *in, size_t n_bytes)
{
    struct operation *operation;
    int r = take_operation(key, &operation);

    if (r < 0)
        return r;
    r = kcapi_adapter_crypt(operation->handle, encrypt, iv, out, in, n_bytes);
    give_back_operation(key, operation, r < 0);
    return r;
}

// After an error once more, on a fresh socket, if the input is still there for certain. In place it
// may be half overwritten, except after EBUSY, which the kernel gives before it takes anything (and
// some kernels give falsely); then the caller, who has the input elsewhere, does it.
static int afalg_crypt(struct backend_key *key, bool encrypt,
                       const uint8_t iv[ALGORITHM_IV_LEN_MAX], uint8_t *out, const uint8_t *in,
                       size_t n_bytes)
{
    int r;

    if (n_bytes == 0 || n_bytes > REQUEST_MAX)
        return -EMSGSIZE;
    r = try_once(key, encrypt, iv, out, in, n_bytes);
    if (r < 0 && (out != in || r == -EBUSY))
        r = try_once(key, encrypt, iv, out, in, n_bytes);
    return r;
}

static int afalg_keystream(struct backend_key *key, const uint8_t iv[ALGORITHM_IV_LEN_MAX],
                           uint8_t *out, size_t n_bytes)
{
    if (key->info->mode != ALGORITHM_CTR)
        return -EOPNOTSUPP;
    memset(out, 0, n_bytes);
    return afalg_crypt(key, true, iv, out, out, n_bytes);
}

const struct backend_ops backend_afalg_ops = {
    .name = "afalg",
    .init = afalg_init,
    .fini = afalg_fini,
    .probe = afalg_probe,
    .open = afalg_open,
    .crypt = afalg_crypt,
    .keystream = afalg_keystream,
    .close = afalg_close,
};
