// SPDX-License-Identifier: MIT
// Throughput of 64 KiB aes-128-cbc requests through client library and daemon, over the same
// requests made directly with libkcapi in one process. Runs where the kernel has AF_ALG (bench/run
// boots one if need be).
#include <kcapi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define N_BYTES  65536
#define REQUESTS 400
#define PAIRS    7

struct context {
    cryptod_stream *stream;
    struct kcapi_handle *kernel;
    uint8_t *in;
    uint8_t *out;
};

static double direct(struct context *context)
{
    uint8_t iv[16] = {0};
    double start = harness_now();
    for (int i = 0; i < REQUESTS; i++) {
        ssize_t n = kcapi_cipher_encrypt(context->kernel, context->in, N_BYTES, iv, context->out,
                                         N_BYTES, KCAPI_ACCESS_SENDMSG);
        if (n != N_BYTES)
            harness_die("libkcapi: %zd", n);
        memcpy(iv, context->out + N_BYTES - sizeof iv, sizeof iv); // chained, as a session's CBC is
    }
    return (double)REQUESTS * N_BYTES / (harness_now() - start) / 1e6;
}

static double through_daemon(struct context *context)
{
    struct cryptod_counters before, after;
    cryptod_counters_get(&before);
    double start = harness_now();
    for (int i = 0; i < REQUESTS; i++)
        if (cryptod_stream_crypt(context->stream, context->out, context->in, N_BYTES) < 0)
            harness_die("crypt failed");
    double seconds = harness_now() - start;
    cryptod_counters_get(&after);
    if (after.request_operations - before.request_operations != REQUESTS)
        harness_die("not all calls went through the daemon");
    return (double)REQUESTS * N_BYTES / seconds / 1e6;
}

static struct harness_pair measure(void *argument)
{
    struct context *context = argument;
    double ours = through_daemon(context);
    return (struct harness_pair){ours, direct(context)};
}

// `--probe`: status 0 if this kernel's AF_ALG does cbc(aes), else 77; measures nothing.
int main(int argc, char **argv)
{
    struct context context = {0};
    static const uint8_t key[16] = {42};
    kcapi_set_verbosity(KCAPI_LOG_NONE);
    if (kcapi_cipher_init(&context.kernel, "cbc(aes)", 0) != 0 ||
        kcapi_cipher_setkey(context.kernel, key, sizeof key) != 0) {
        fputs("bench: this kernel has no cbc(aes) behind AF_ALG\n", stderr);
        return 77;
    }
    if (argc > 1 && strcmp(argv[1], "--probe") == 0) {
        kcapi_cipher_destroy(context.kernel);
        return 0;
    }
    context.in = aligned_alloc(4096, N_BYTES);
    context.out = aligned_alloc(4096, N_BYTES);
    if (context.in == NULL || context.out == NULL)
        harness_die("out of memory");
    memset(context.in, 7, N_BYTES);
    context.stream = harness_request_stream(CRYPTOD_AES_128_CBC, N_BYTES);
    printf("request: MB/s, cryptod / libkcapi alone, %d requests of %d bytes each\n", REQUESTS,
           N_BYTES);
    harness_run("request", PAIRS, measure, &context);
    cryptod_stream_free(context.stream);
    cryptod_close();
    kcapi_cipher_destroy(context.kernel);
    free(context.in);
    free(context.out);
    return 0;
}
