// SPDX-License-Identifier: MIT
// See cipher_reference.h. Guarantees: uses nothing of the daemon. Fails the test when OpenSSL does.
#include "cipher_reference.h"

#include <criterion/criterion.h>
#include <openssl/evp.h>

void cipher_reference(enum algorithm_id algorithm, bool encrypt, const uint8_t *key,
                      const uint8_t *iv, uint8_t *out, const uint8_t *in, size_t n_bytes)
{
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, algorithm_get(algorithm)->openssl_name, NULL);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int n_out = 0, n_last = 0;

    cr_assert(cipher && context);
    cr_assert(EVP_CipherInit_ex2(context, cipher, key, iv, encrypt, NULL));
    cr_assert(EVP_CIPHER_CTX_set_padding(context, 0));
    cr_assert(EVP_CipherUpdate(context, out, &n_out, in, (int)n_bytes));
    cr_assert(EVP_CipherFinal_ex(context, out + n_out, &n_last));
    cr_assert_eq((size_t)(n_out + n_last), n_bytes);
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(cipher);
}

void cipher_reference_fill(uint8_t *data, size_t n_bytes, uint32_t seed)
{
    uint32_t state = seed * 2654435761u + 1;

    for (size_t i = 0; i < n_bytes; i++) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        data[i] = (uint8_t)state;
    }
}
