// SPDX-License-Identifier: MIT
#include "kernel.h"

#include <kcapi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

struct kernel_cipher {
    struct kcapi_handle *handle;
    size_t n_bytes;
    uint8_t *in;
    uint8_t *out;
};

struct kernel_cipher *kernel_cipher_new(const char *name, size_t n_bytes)
{
    static const uint8_t key[16] = {42};
    struct kernel_cipher *cipher = calloc(1, sizeof *cipher);
    if (cipher == NULL)
        harness_die("out of memory");
    kcapi_set_verbosity(KCAPI_LOG_NONE);
    if (kcapi_cipher_init(&cipher->handle, name, 0) != 0) {
        free(cipher);
        return NULL;
    }
    if (kcapi_cipher_setkey(cipher->handle, key, sizeof key) != 0)
        harness_die("%s: the key was refused", name);
    cipher->n_bytes = n_bytes;
    cipher->in = aligned_alloc(4096, (n_bytes + 4095) / 4096 * 4096);
    cipher->out = aligned_alloc(4096, (n_bytes + 4095) / 4096 * 4096);
    if (cipher->in == NULL || cipher->out == NULL)
        harness_die("out of memory");
    memset(cipher->in, 7, n_bytes);
    return cipher;
}

void kernel_cipher_free(struct kernel_cipher *cipher)
{
    if (cipher == NULL)
        return;
    kcapi_cipher_destroy(cipher->handle);
    free(cipher->in);
    free(cipher->out);
    free(cipher);
}

double kernel_cipher_run(struct kernel_cipher *cipher, unsigned n_requests)
{
    uint8_t iv[16] = {0};
    double start = harness_now();
    for (unsigned i = 0; i < n_requests; i++) {
        ssize_t n =
            kcapi_cipher_encrypt(cipher->handle, cipher->in, (uint32_t)cipher->n_bytes, iv,
                                 cipher->out, (uint32_t)cipher->n_bytes, KCAPI_ACCESS_SENDMSG);
        if (n != (ssize_t)cipher->n_bytes)
            harness_die("libkcapi: %zd", n);
        memcpy(iv, cipher->out + cipher->n_bytes - sizeof iv, sizeof iv);
    }
    return harness_now() - start;
}
