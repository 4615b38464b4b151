// SPDX-License-Identifier: MIT
// Backend "fault": backend cpu, made to fail on order (fault_spec.h says how), so that every path
// that an engine's trouble takes can be walked without a broken engine. Exists only if the
// configuration says what it shall do. Guarantees: without an order a request is exactly backend
// cpu's. Must not know who asks.
#include "backend.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fault_spec.h"

struct backend {
    struct fault_spec spec;
    struct backend *cpu; // an instance of the other backend: opaque here
    _Atomic uint64_t n_requests;
};

struct backend_key {
    struct backend *backend;
    struct backend_key *cpu;
    bool suffers;
};

// struct backend and struct backend_key are other structs in the cpu backend; only pointers to them
// pass here.

static int fault_init(const struct backend_settings *settings, struct backend **ret)
{
    struct backend *backend;
    int r;

    if (!settings->fault || *settings->fault == '\0')
        return -ENOSYS;
    backend = calloc(1, sizeof(*backend));
    if (!backend)
        return -ENOMEM;
    r = fault_spec_parse(settings->fault, &backend->spec);
    if (r == 0)
        r = backend_cpu_ops.init(settings, &backend->cpu);
    if (r < 0) {
        free(backend);
        return r;
    }
    *ret = backend;
    return 0;
}

static void fault_fini(struct backend *backend)
{
    if (!backend)
        return;
    backend_cpu_ops.fini(backend->cpu);
    free(backend);
}

static void fault_probe(struct backend *backend, enum algorithm_id algorithm,
                        struct backend_probe *ret)
{
    backend_cpu_ops.probe(backend->cpu, algorithm, ret);
    if (ret->error == 0)
        (void)snprintf(ret->driver, sizeof(ret->driver), "fault on order");
}

static int fault_open(struct backend *backend, enum algorithm_id algorithm, const uint8_t *bytes,
                      struct backend_key **ret)
{
    const struct fault_spec *spec = &backend->spec;
    struct backend_key *key = calloc(1, sizeof(*key));
    int r;

    if (!key)
        return -ENOMEM;
    key->backend = backend;
    key->suffers = !spec->algorithm || spec->algorithm->id == algorithm;
    r = key->suffers && spec->open_error
            ? -EIO
            : backend_cpu_ops.open(backend->cpu, algorithm, bytes, &key->cpu);
    if (r < 0) {
        free(key);
        return r;
    }
    *ret = key;
    return 0;
}

static void pause_for(time_t seconds, long nanoseconds)
{
    struct timespec left = {.tv_sec = seconds, .tv_nsec = nanoseconds};

    while (nanosleep(&left, &left) < 0 && errno == EINTR) {
    }
}

static void hang(void)
{
    for (;;)
        pause_for(3600, 0);
}

// What happens before request n is done at all.
static int suffer(const struct fault_spec *spec, uint64_t n)
{
    if (n > spec->hang_after)
        hang();
    if (spec->delay_ms > 0)
        pause_for(spec->delay_ms / 1000, (long)(spec->delay_ms % 1000) * 1000000);
    if (n > spec->error_after || (spec->error_every > 0 && n % spec->error_every == 0))
        return -EIO;
    return 0;
}

static void spoil(const struct fault_spec *spec, uint64_t n, uint8_t *out, size_t n_bytes)
{
    if (spec->wrong_every > 0 && n % spec->wrong_every == 0)
        out[n_bytes / 2] ^= 1;
}

static int fault_crypt(struct backend_key *key, bool encrypt,
                       const uint8_t iv[ALGORITHM_IV_LEN_MAX], uint8_t *out, const uint8_t *in,
                       size_t n_bytes)
{
    const struct fault_spec *spec = &key->backend->spec;
    uint64_t n;
    int r;

    if (!key->suffers)
        return backend_cpu_ops.crypt(key->cpu, encrypt, iv, out, in, n_bytes);
    n = atomic_fetch_add(&key->backend->n_requests, 1) + 1;
    r = suffer(spec, n);
    if (r == 0)
        r = backend_cpu_ops.crypt(key->cpu, encrypt, iv, out, in, n_bytes);
    if (r == 0)
        spoil(spec, n, out, n_bytes);
    return r;
}

static int fault_keystream(struct backend_key *key, const uint8_t iv[ALGORITHM_IV_LEN_MAX],
                           uint8_t *out, size_t n_bytes)
{
    const struct fault_spec *spec = &key->backend->spec;
    uint64_t n;
    int r;

    if (!key->suffers)
        return backend_cpu_ops.keystream(key->cpu, iv, out, n_bytes);
    n = atomic_fetch_add(&key->backend->n_requests, 1) + 1;
    r = suffer(spec, n);
    if (r == 0)
        r = backend_cpu_ops.keystream(key->cpu, iv, out, n_bytes);
    if (r == 0)
        spoil(spec, n, out, n_bytes);
    return r;
}

static void fault_close(struct backend_key *key)
{
    if (!key)
        return;
    backend_cpu_ops.close(key->cpu);
    free(key);
}

const struct backend_ops backend_fault_ops = {
    .name = "fault",
    .init = fault_init,
    .fini = fault_fini,
    .probe = fault_probe,
    .open = fault_open,
    .crypt = fault_crypt,
    .keystream = fault_keystream,
    .close = fault_close,
};
