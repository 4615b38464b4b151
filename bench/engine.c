// SPDX-License-Identifier: MIT
// bench-engine DRIVER: 64 KiB aes-128-cbc updates through provider and daemon, over direct libkcapi
// requests of 64 KiB to the same driver, each in one process.
#include <stdio.h>

#include "harness.h"
#include "kernel.h"
#include "provider.h"

#define N_BYTES 65536
#define CALLS   1000
#define PAIRS   9

struct context {
    struct provider_cipher *provider;
    struct kernel_cipher *kernel;
};

static struct harness_pair measure(void *argument)
{
    struct context *context = argument;
    double ours = provider_cipher_run(context->provider, CALLS);
    double direct = kernel_cipher_run(context->kernel, CALLS);
    return (struct harness_pair){(double)CALLS * N_BYTES / ours / 1e6,
                                 (double)CALLS * N_BYTES / direct / 1e6};
}

int main(int argc, char **argv)
{
    if (argc != 2)
        harness_die("usage: bench-engine DRIVER");
    struct context context = {
        .provider = provider_cipher_new("AES-128-CBC", CRYPTOD_LANE_REQUEST, N_BYTES),
        .kernel = kernel_cipher_new(argv[1], N_BYTES),
    };
    if (context.kernel == NULL)
        harness_die("this kernel has no %s", argv[1]);
    printf("engine: MB/s, cryptod / libkcapi alone, %d times %d bytes each\n", CALLS, N_BYTES);
    harness_run("engine", PAIRS, measure, &context);
    provider_cipher_free(context.provider);
    kernel_cipher_free(context.kernel);
    return 0;
}
