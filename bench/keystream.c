// SPDX-License-Identifier: MIT
// bench-keystream NAME: 16 KiB aes-128-ctr updates through provider and keystream lane, over direct
// libkcapi requests of 16 KiB to ctr(aes). What the engine makes the keystream from (ctr(aes), or
// ecb(aes) where that one is denied) is the daemon's configuration, and the figure's NAME.
#include <stdio.h>

#include "harness.h"
#include "kernel.h"
#include "provider.h"

#define N_BYTES 16384
#define CALLS   1024
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
        harness_die("usage: bench-keystream NAME");
    struct context context = {
        .provider = provider_cipher_new("AES-128-CTR", CRYPTOD_LANE_KEYSTREAM, N_BYTES),
        .kernel = kernel_cipher_new("ctr(aes)", N_BYTES),
    };
    if (context.kernel == NULL)
        harness_die("this kernel has no ctr(aes) behind AF_ALG");
    printf("%s: MB/s, cryptod / libkcapi alone, %d times %d bytes each\n", argv[1], CALLS, N_BYTES);
    harness_run(argv[1], PAIRS, measure, &context);
    provider_cipher_free(context.provider);
    kernel_cipher_free(context.kernel);
    return 0;
}
