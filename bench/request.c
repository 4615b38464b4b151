// SPDX-License-Identifier: MIT
// Throughput of 64 KiB aes-128-cbc requests through client library and daemon, over the same
// requests made directly with libkcapi in one process. Needs a daemon with the afalg backend, so a
// kernel with AF_ALG (bench/run boots one if need be).
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "kernel.h"

#define N_BYTES  65536
#define REQUESTS 400
#define PAIRS    7

struct context {
    cryptod_stream *stream;
    struct kernel_cipher *kernel;
    uint8_t *buffer;
};

static double through_daemon(struct context *context)
{
    struct cryptod_counters before, after;
    cryptod_counters_get(&before);
    double start = harness_now();
    for (int i = 0; i < REQUESTS; i++)
        if (cryptod_stream_crypt(context->stream, context->buffer, context->buffer, N_BYTES) < 0)
            harness_die("crypt failed");
    double seconds = harness_now() - start;
    cryptod_counters_get(&after);
    if (after.request_operations - before.request_operations != REQUESTS)
        harness_die("not all calls went through the daemon");
    return seconds;
}

static struct harness_pair measure(void *argument)
{
    struct context *context = argument;
    double ours = through_daemon(context);
    double direct = kernel_cipher_run(context->kernel, REQUESTS);
    return (struct harness_pair){(double)REQUESTS * N_BYTES / ours / 1e6,
                                 (double)REQUESTS * N_BYTES / direct / 1e6};
}

int main(void)
{
    struct context context = {.kernel = kernel_cipher_new("cbc(aes)", N_BYTES)};
    if (context.kernel == NULL)
        harness_die("this kernel has no cbc(aes) behind AF_ALG");
    context.buffer = aligned_alloc(4096, N_BYTES);
    if (context.buffer == NULL)
        harness_die("out of memory");
    for (size_t i = 0; i < N_BYTES; i++)
        context.buffer[i] = 7;
    context.stream = harness_request_stream(CRYPTOD_AES_128_CBC, N_BYTES);
    printf("request: MB/s, cryptod / libkcapi alone, %d requests of %d bytes each\n", REQUESTS,
           N_BYTES);
    harness_run("request", PAIRS, measure, &context);
    cryptod_stream_free(context.stream);
    cryptod_close();
    kernel_cipher_free(context.kernel);
    free(context.buffer);
    return 0;
}
