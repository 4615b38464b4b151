// SPDX-License-Identifier: MIT
// bench-direct FIGURE [DRIVER]: updates through provider and daemon, over direct libkcapi requests
// of the same size, each in one process.
//
// engine: aes-128-cbc by DRIVER, both sides. bulk-ctr, ecb-ctr: aes-128-ctr by the keystream lane,
// over ctr(aes); what the engine makes the keystream from (ctr(aes), or ecb(aes) where that one is
// denied) is the daemon's configuration.
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "kernel.h"
#include "provider.h"

#define PAIRS 9

struct figure {
    const char *name, *cipher, *kernel; // no kernel: the DRIVER
    enum cryptod_lane lane;
    unsigned n_bytes, n_calls;
};

static const struct figure figures[] = {
    {"engine", "AES-128-CBC", NULL, CRYPTOD_LANE_REQUEST, 65536, 1000},
    {"bulk-ctr", "AES-128-CTR", "ctr(aes)", CRYPTOD_LANE_KEYSTREAM, 16384, 1024},
    {"ecb-ctr", "AES-128-CTR", "ctr(aes)", CRYPTOD_LANE_KEYSTREAM, 16384, 1024},
};

struct context {
    const struct figure *figure;
    struct provider_cipher *provider;
    struct kernel_cipher *kernel;
};

static struct harness_pair measure(void *argument)
{
    const struct context *context = argument;
    double megabytes = (double)context->figure->n_calls * context->figure->n_bytes / 1e6;
    double ours = provider_cipher_run(context->provider, context->figure->n_calls);
    double direct = kernel_cipher_run(context->kernel, context->figure->n_calls);

    return (struct harness_pair){megabytes / ours, megabytes / direct};
}

static const struct figure *figure_find(const char *name)
{
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        if (strcmp(figures[i].name, name) == 0)
            return &figures[i];
    return NULL;
}

int main(int argc, char **argv)
{
    const struct figure *figure = argc >= 2 ? figure_find(argv[1]) : NULL;

    if (figure == NULL || argc != (figure->kernel == NULL ? 3 : 2))
        harness_die("usage: bench-direct engine DRIVER | bulk-ctr | ecb-ctr");
    const char *kernel = figure->kernel == NULL ? argv[2] : figure->kernel;
    struct context context = {
        .figure = figure,
        .provider = provider_cipher_new(figure->cipher, figure->lane, figure->n_bytes),
        .kernel = kernel_cipher_new(kernel, figure->n_bytes),
    };
    if (context.kernel == NULL)
        harness_die("this kernel has no %s behind AF_ALG", kernel);
    printf("%s: MB/s, cryptod / libkcapi alone, %u times %u bytes each\n", figure->name,
           figure->n_calls, figure->n_bytes);
    harness_run(figure->name, PAIRS, measure, &context);
    provider_cipher_free(context.provider);
    kernel_cipher_free(context.kernel);
    return 0;
}
