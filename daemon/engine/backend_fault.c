// SPDX-License-Identifier: MIT
// Backend "fault": backend cpu, made to fail on order (fault_spec.h says how), so that every path
// that an engine's trouble takes can be walked without a broken engine. Exists only if the
// configuration says what it shall do. Guarantees: without an order a request is exactly backend
// cpu's. Must not know who asks.
#include "backend.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "deny_list.h"
#include "fault_spec.h"

#define FAULT_DRIVER "fault-on-order"

struct backend {
    struct fault_spec spec;
    char *deny;
    struct backend *cpu; // an instance of the other backend: opaque here
    _Atomic uint64_t n_requests;
};

struct backend_key {
    struct backend *backend;
    struct backend_key *cpu;
    const struct algorithm_info *info;
    bool suffers;
    pthread_mutex_t mutex;
    bool was_used;
    uint8_t next_iv[ALGORITHM_IV_LEN_MAX]; // of a request that goes on where the last one ended
};

// A request to the cpu backend: crypt() in one of its directions, or keystream().
struct fault_request {
    enum { FAULT_ENCRYPT, FAULT_DECRYPT, FAULT_KEYSTREAM } operation;
    const uint8_t *iv;
    uint8_t *out;
    const uint8_t *in; // crypt() only
    size_t n_bytes;
};

// struct backend and struct backend_key are other structs in the cpu backend; only pointers to them
// pass here.

static void fault_fini(struct backend *backend)
{
    if (!backend)
        return;
    if (backend->cpu)
        backend_cpu_ops.fini(backend->cpu);
    free(backend->deny);
    free(backend);
}

static int fault_init(const struct backend_settings *settings, struct backend **ret)
{
    struct backend *backend;
    int r;

    if (!settings->fault || *settings->fault == '\0')
        return -ENOSYS;
    backend = calloc(1, sizeof(*backend));
    if (!backend)
        return -ENOMEM;
    backend->deny = strdup(settings->deny_drivers ? settings->deny_drivers : "");
    r = backend->deny ? fault_spec_parse(settings->fault, &backend->spec) : -ENOMEM;
    if (r == 0)
        r = backend_cpu_ops.init(settings, &backend->cpu);
    if (r < 0) {
        fault_fini(backend);
        return r;
    }
    *ret = backend;
    return 0;
}

static void fault_probe(struct backend *backend, enum algorithm_id algorithm,
                        struct backend_probe *ret)
{
    backend_cpu_ops.probe(backend->cpu, algorithm, ret);
    ret->is_tested = backend->spec.selftest;
    ret->is_watched = true;
    if (ret->error < 0)
        return;
    (void)snprintf(ret->driver, sizeof(ret->driver), "%s", FAULT_DRIVER);
    if (!deny_list_has(backend->deny, FAULT_DRIVER))
        return;
    ret->denied = true;
    ret->error = -EKEYREJECTED;
    (void)snprintf(ret->text, sizeof(ret->text), "on the list deny_drivers");
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
    key->info = algorithm_get(algorithm);
    key->suffers = !spec->algorithm || spec->algorithm->id == algorithm;
    r = key->suffers && spec->open_error
            ? -EIO
            : backend_cpu_ops.open(backend->cpu, algorithm, bytes, &key->cpu);
    if (r == 0)
        r = -pthread_mutex_init(&key->mutex, NULL);
    if (r < 0) {
        backend_cpu_ops.close(key->cpu);
        free(key);
        return r;
    }
    *ret = key;
    return 0;
}

static void fault_close(struct backend_key *key)
{
    if (!key)
        return;
    backend_cpu_ops.close(key->cpu);
    pthread_mutex_destroy(&key->mutex);
    free(key);
}

// ---------------------------------------------------------------- which requests

static bool is_unaligned(const void *address)
{
    return (uintptr_t)address % 16 != 0;
}

// Whether the request goes on where the key's last one ended.
static bool is_chained(struct backend_key *key, const struct fault_request *request)
{
    bool chained;

    pthread_mutex_lock(&key->mutex);
    chained = key->was_used && memcmp(key->next_iv, request->iv, key->info->n_iv) == 0;
    pthread_mutex_unlock(&key->mutex);
    return chained;
}

// last: the last block of a request's ciphertext, for CBC.
static void note_end(struct backend_key *key, const struct fault_request *request,
                     const uint8_t *last)
{
    const struct algorithm_info *info = key->info;
    uint64_t counter;

    pthread_mutex_lock(&key->mutex);
    key->was_used = true;
    memcpy(key->next_iv, info->mode == ALGORITHM_CBC ? last : request->iv, info->n_iv);
    if (info->mode == ALGORITHM_CTR) {
        algorithm_ctr_add(key->next_iv, request->n_bytes / info->n_cipher_block);
    } else if (info->mode == ALGORITHM_CHACHA) {
        memcpy(&counter, key->next_iv, sizeof(counter));
        counter = htole64(le64toh(counter) + request->n_bytes / info->n_cipher_block);
        memcpy(key->next_iv, &counter, sizeof(counter));
    }
    pthread_mutex_unlock(&key->mutex);
}

static bool is_meant(struct backend_key *key, const struct fault_request *request)
{
    const struct fault_spec *spec = &key->backend->spec;

    return key->suffers && request->n_bytes > spec->if_over &&
           (spec->if_size == 0 || request->n_bytes == spec->if_size) &&
           (!spec->if_unaligned || is_unaligned(request->out) || is_unaligned(request->in)) &&
           (!spec->if_chained || is_chained(key, request));
}

// ---------------------------------------------------------------- what happens to them

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
        pause_for((time_t)(spec->delay_ms / 1000), (long)(spec->delay_ms % 1000) * 1000000);
    if (n > spec->error_after || (spec->error_every > 0 && n % spec->error_every == 0))
        return -EIO;
    return 0;
}

static void spoil(const struct fault_spec *spec, uint64_t n, uint8_t *out, size_t n_bytes)
{
    if (n > spec->wrong_after || (spec->wrong_every > 0 && n % spec->wrong_every == 0))
        out[n_bytes / 2] ^= 1;
}

static int serve(struct backend_key *key, const struct fault_request *request)
{
    if (request->operation == FAULT_KEYSTREAM)
        return backend_cpu_ops.keystream(key->cpu, request->iv, request->out, request->n_bytes);
    return backend_cpu_ops.crypt(key->cpu, request->operation == FAULT_ENCRYPT, request->iv,
                                 request->out, request->in, request->n_bytes);
}

// Everything but the first n_short bytes of the output stays as it was.
static int serve_short(struct backend_key *key, const struct fault_request *request)
{
    const uint64_t n_short = key->backend->spec.n_short;
    const size_t n_lost = n_short < request->n_bytes ? request->n_bytes - (size_t)n_short : 0;
    uint8_t *lost = malloc(n_lost + 1);
    int r;

    if (!lost)
        return -ENOMEM;
    memcpy(lost, request->out + request->n_bytes - n_lost, n_lost);
    r = serve(key, request);
    memcpy(request->out + request->n_bytes - n_lost, lost, n_lost);
    free(lost);
    return r;
}

static int serve_badly(struct backend_key *key, const struct fault_request *request)
{
    const struct fault_spec *spec = &key->backend->spec;
    const uint64_t n = atomic_fetch_add(&key->backend->n_requests, 1) + 1;
    int r = suffer(spec, n);

    if (r == 0)
        r = serve_short(key, request);
    if (r == 0)
        spoil(spec, n, request->out, request->n_bytes);
    return r;
}

static int fault_run(struct backend_key *key, const struct fault_request *request)
{
    const size_t n_last = key->info->n_cipher_block < 16 ? key->info->n_cipher_block : 16;
    uint8_t last[16] = {0};
    int r;

    if (request->operation == FAULT_DECRYPT && request->n_bytes >= n_last)
        memcpy(last, request->in + request->n_bytes - n_last, n_last);
    r = is_meant(key, request) ? serve_badly(key, request) : serve(key, request);
    if (request->operation == FAULT_ENCRYPT && request->n_bytes >= n_last)
        memcpy(last, request->out + request->n_bytes - n_last, n_last);
    note_end(key, request, last);
    return r;
}

static int fault_crypt(struct backend_key *key, bool encrypt,
                       const uint8_t iv[ALGORITHM_IV_LEN_MAX], uint8_t *out, const uint8_t *in,
                       size_t n_bytes)
{
    const struct fault_request request = {.operation = encrypt ? FAULT_ENCRYPT : FAULT_DECRYPT,
                                          .iv = iv,
                                          .out = out,
                                          .in = in,
                                          .n_bytes = n_bytes};

    return fault_run(key, &request);
}

static int fault_keystream(struct backend_key *key, const uint8_t iv[ALGORITHM_IV_LEN_MAX],
                           uint8_t *out, size_t n_bytes)
{
    const struct fault_request request = {
        .operation = FAULT_KEYSTREAM, .iv = iv, .out = out, .n_bytes = n_bytes};

    return fault_run(key, &request);
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
