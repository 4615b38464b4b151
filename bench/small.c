// SPDX-License-Identifier: MIT
// 64-byte aes-128-ctr updates through provider and keystream lane, over 64-byte aes-128-cbc updates
// through OpenSSL's own way to the kernel, its engine afalg (which has no CTR).
#define OPENSSL_SUPPRESS_DEPRECATED // engines are deprecated: this one is what people use so far
#include <openssl/engine.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>

#include "harness.h"
#include "provider.h"

#define N_BYTES      64
#define CALLS        262144
#define CALLS_ENGINE 2048
#define PAIRS        9

struct context {
    struct provider_cipher *provider;
    EVP_CIPHER_CTX *engine;
};

static EVP_CIPHER_CTX *start_engine(void)
{
    static const uint8_t key[16] = {42}, iv[16] = {7};
    ENGINE_load_dynamic();
    ENGINE *engine = ENGINE_by_id("afalg");
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    if (engine == NULL || ENGINE_init(engine) != 1)
        harness_die("OpenSSL's engine afalg does not start");
    if (context == NULL || EVP_EncryptInit_ex(context, EVP_aes_128_cbc(), engine, key, iv) != 1)
        harness_die("OpenSSL's engine afalg does not take aes-128-cbc");
    ENGINE_finish(engine); // the context has it
    ENGINE_free(engine);
    return context;
}

static double run_engine(EVP_CIPHER_CTX *context)
{
    uint8_t buffer[N_BYTES] = {7};
    double start = harness_now();
    for (int i = 0; i < CALLS_ENGINE; i++) {
        int n = 0;
        if (EVP_EncryptUpdate(context, buffer, &n, buffer, N_BYTES) != 1 || n != N_BYTES)
            harness_die("the engine's update failed");
    }
    return harness_now() - start;
}

static struct harness_pair measure(void *argument)
{
    struct context *context = argument;
    double ours = provider_cipher_run(context->provider, CALLS);
    double engine = run_engine(context->engine);
    return (struct harness_pair){(double)CALLS * N_BYTES / ours / 1e6,
                                 (double)CALLS_ENGINE * N_BYTES / engine / 1e6};
}

int main(void)
{
    struct context context = {
        .provider = provider_cipher_new("AES-128-CTR", CRYPTOD_LANE_KEYSTREAM, N_BYTES),
        .engine = start_engine(),
    };
    printf("small: MB/s, cryptod / engine afalg, %d and %d times %d bytes\n", CALLS, CALLS_ENGINE,
           N_BYTES);
    harness_run("small", PAIRS, measure, &context);
    EVP_CIPHER_CTX_free(context.engine);
    provider_cipher_free(context.provider);
    return 0;
}
