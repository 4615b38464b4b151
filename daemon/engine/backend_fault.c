// SPDX-License-Identifier: MIT
// Backend "fault": backend cpu, made to fail on order (fault_spec.h says how), so that every path
// that an engine's trouble takes can be walked without a broken engine. Exists only if the
// configuration says what it shall do at the start; what it says can change then. Guarantees:
// without an order a request is exactly backend cpu's. Must not know who asks.
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
    pthread_mutex_t mutex;
    struct fault_spec spec; // under the mutex
    uint64_t n_requests;    // of those that the order is about; under the mutex
    char *deny;
    char *hung;
    struct backend *cpu;     // an instance of the other backend: opaque here
    _Atomic uint64_t n_keys; // that have a place
};

struct backend_key {
    struct backend *backend;
    struct backend_key *cpu;
    const struct algorithm_info *info;
    bool has_place; // of those that the driver has for keys
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
    pthread_mutex_destroy(&backend->mutex);
    free(backend->deny);
    free(backend->hung);
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
    pthread_mutex_init(&backend->mutex, NULL); // of the default kind: cannot fail
    backend->deny = strdup(settings->deny_drivers ? settings->deny_drivers : "");
    backend->hung = strdup(settings->hung_drivers ? settings->hung_drivers : "");
    r = backend->deny && backend->hung ? fault_spec_parse(settings->fault, &backend->spec)
                                       : -ENOMEM;
    if (r == 0)
        r = backend_cpu_ops.init(settings, &backend->cpu);
    if (r < 0) {
        fault_fini(backend);
        return r;
    }
    *ret = backend;
    return 0;
}

static int fault_reorder(struct backend *backend, const char *fault)
{
    struct fault_spec spec;
    int r = fault_spec_parse(fault, &spec);

    if (r < 0)
        return r;
    pthread_mutex_lock(&backend->mutex);
    backend->spec = spec;
    backend->n_requests = 0;
    pthread_mutex_unlock(&backend->mutex);
    return 0;
}

static struct fault_spec get_spec(struct backend *backend)
{
    struct fault_spec spec;

    pthread_mutex_lock(&backend->mutex);
    spec = backend->spec;
    pthread_mutex_unlock(&backend->mutex);
    return spec;
}

// The number of one more request that the order is about.
static uint64_t count_request(struct backend *backend)
{
    uint64_t n;

    pthread_mutex_lock(&backend->mutex);
    n = ++backend->n_requests;
    pthread_mutex_unlock(&backend->mutex);
    return n;
}

static bool suffers(const struct fault_spec *spec, const struct algorithm_info *info)
{
    return !spec->algorithm || spec->algorithm->id == info->id;
}

static void fault_probe(struct backend *backend, enum algorithm_id algorithm,
                        struct backend_probe *ret)
{
    backend_cpu_ops.probe(backend->cpu, algorithm, ret);
    ret->is_tested = get_spec(backend).selftest;
    ret->is_watched = true;
    if (ret->error < 0)
        return;
    (void)snprintf(ret->driver, sizeof(ret->driver), "%s", FAULT_DRIVER);
    ret->hangs = deny_list_has(backend->hung, FAULT_DRIVER);
    if (ret->hangs)
        ret->error = -ETIMEDOUT;
    if (!deny_list_has(backend->deny, FAULT_DRIVER))
        return;
    ret->denied = true;
    ret->error = -EKEYREJECTED;
    (void)snprintf(ret->text, sizeof(ret->text), "on the list deny_drivers");
}

static void pause_for(time_t seconds, long nanoseconds)
{
    struct timespec left = {.tv_sec = seconds, .tv_nsec = nanoseconds};

    while (nanosleep(&left, &left) < 0 && errno == EINTR) {
    }
}

static void pause_ms(uint64_t ms)
{
    pause_for((time_t)(ms / 1000), (long)(ms % 1000) * 1000000);
}

static void hang(void)
{
    for (;;)
        pause_for(3600, 0);
}

// Counts a key that the orders are for.
static int take_place(struct backend *backend, const struct fault_spec *spec)
{
    if (spec->open_hangs)
        hang();
    if (spec->open_error)
        return -EIO;
    if (atomic_fetch_add(&backend->n_keys, 1) < spec->n_keys)
        return 0;
    atomic_fetch_sub(&backend->n_keys, 1);
    return -EUSERS;
}

static void give_place_back(struct backend_key *key)
{
    if (key->has_place)
        atomic_fetch_sub(&key->backend->n_keys, 1);
}

static int fault_open(struct backend *backend, enum algorithm_id algorithm, const uint8_t *bytes,
                      struct backend_key **ret)
{
    const struct fault_spec spec = get_spec(backend);
    struct backend_key *key = calloc(1, sizeof(*key));
    int r;

    if (!key)
        return -ENOMEM;
    key->backend = backend;
    key->info = algorithm_get(algorithm);
    key->has_place = suffers(&spec, key->info);
    r = key->has_place ? take_place(backend, &spec) : 0;
    if (r < 0) {
        free(key);
        return r;
    }
    r = backend_cpu_ops.open(backend->cpu, algorithm, bytes, &key->cpu);
    if (r == 0)
        r = -pthread_mutex_init(&key->mutex, NULL);
    if (r < 0) {
        give_place_back(key);
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
    give_place_back(key);
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

static bool is_meant(struct backend_key *key, const struct fault_spec *spec,
                     const struct fault_request *request)
{
    return suffers(spec, key->info) && request->n_bytes > spec->if_over &&
           (spec->if_size == 0 || request->n_bytes == spec->if_size) &&
           (!spec->if_unaligned || is_unaligned(request->out) || is_unaligned(request->in)) &&
           (!spec->if_chained || is_chained(key, request));
}

// ---------------------------------------------------------------- what happens to them

// Spreads the numbers of requests over all delays.
static uint64_t mix(uint64_t n)
{
    n *= UINT64_C(0x9e3779b97f4a7c15);
    return n >> 32;
}

// What happens before request n is done at all.
static int suffer(const struct fault_spec *spec, uint64_t n)
{
    if (n > spec->hang_after && spec->hang_ms == 0)
        hang();
    if (n > spec->hang_after)
        pause_ms(spec->hang_ms);
    if (spec->jitter_us > 0)
        pause_for(0, (long)(mix(n) % spec->jitter_us) * 1000);
    if (spec->delay_ms > 0)
        pause_ms(spec->delay_ms);
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
static int serve_short(struct backend_key *key, uint64_t n_short,
                       const struct fault_request *request)
{
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

static int serve_badly(struct backend_key *key, const struct fault_spec *spec,
                       const struct fault_request *request)
{
    const uint64_t n = count_request(key->backend);
    int r = suffer(spec, n);

    if (r == 0)
        r = serve_short(key, spec->n_short, request);
    if (r == 0)
        spoil(spec, n, request->out, request->n_bytes);
    return r;
}

static int fault_run(struct backend_key *key, const struct fault_request *request)
{
    const size_t n_last = key->info->n_cipher_block < 16 ? key->info->n_cipher_block : 16;
    const struct fault_spec spec = get_spec(key->backend);
    uint8_t last[16] = {0};
    int r;

    if (request->operation == FAULT_DECRYPT && request->n_bytes >= n_last)
        memcpy(last, request->in + request->n_bytes - n_last, n_last);
    r = is_meant(key, &spec, request) ? serve_badly(key, &spec, request) : serve(key, request);
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
    .reorder = fault_reorder,
};
