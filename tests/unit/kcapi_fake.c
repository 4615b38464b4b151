// SPDX-License-Identifier: MIT
// See kcapi_fake.h. The program's own definitions come before the library's.
#include "kcapi_fake.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <kcapi.h>
#include <linux/if_alg.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct kcapi_fake kcapi_fake;

struct fake_handle {
    bool cbc;
    uint8_t key[32];
    uint32_t n_key;
};

// The next definition, which is the library's.
#define REAL(name) ((__typeof__(&(name)))real(#name))

static void *real(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    cr_assert_not_null(found, "%s", name);
    return found;
}

static struct fake_handle *fake_of(struct kcapi_handle *handle)
{
    return (struct fake_handle *)(void *)handle;
}

static bool is_served(const char *name)
{
    return strcmp(name, "ecb(aes)") == 0 || strcmp(name, "cbc(aes)") == 0;
}

// ---------------------------------------------------------------- the probe's sockets

int socket(int domain, int type, int protocol)
{
    if (kcapi_fake.armed && (domain == AF_ALG || domain == AF_NETLINK))
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    return (int)syscall(SYS_socket, domain, type, protocol);
}

int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t n)
{
    const struct sockaddr *any = address.__sockaddr__;

    if (!kcapi_fake.armed || any->sa_family != AF_ALG)
        return (int)syscall(SYS_bind, fd, any, n);
    if (is_served((const char *)((const struct sockaddr_alg *)(const void *)any)->salg_name))
        return 0;
    errno = ENOENT;
    return -1;
}

// ---------------------------------------------------------------- handles

static void add_handle(const struct fake_handle *from, struct kcapi_handle **ret)
{
    struct fake_handle *made = calloc(1, sizeof(*made));

    cr_assert_not_null(made);
    *made = *from;
    kcapi_fake.n_handles++;
    kcapi_fake.n_sockets++;
    *ret = (struct kcapi_handle *)(void *)made;
}

int kcapi_cipher_init(struct kcapi_handle **handle, const char *name, uint32_t flags)
{
    if (!kcapi_fake.armed)
        return REAL(kcapi_cipher_init)(handle, name, flags);
    if (!is_served(name))
        return -ENOENT;
    add_handle(&(struct fake_handle){.cbc = name[0] == 'c'}, handle);
    return 0;
}

int kcapi_handle_reinit(struct kcapi_handle **made, struct kcapi_handle *from, uint32_t flags)
{
    if (!kcapi_fake.armed)
        return REAL(kcapi_handle_reinit)(made, from, flags);
    add_handle(fake_of(from), made);
    return 0;
}

void kcapi_cipher_destroy(struct kcapi_handle *handle)
{
    if (!kcapi_fake.armed) {
        REAL(kcapi_cipher_destroy)(handle);
        return;
    }
    kcapi_fake.n_handles -= handle != NULL;
    free(handle);
}

int kcapi_cipher_setkey(struct kcapi_handle *handle, const uint8_t *key, uint32_t n_key)
{
    if (!kcapi_fake.armed)
        return REAL(kcapi_cipher_setkey)(handle, key, n_key);
    memcpy(fake_of(handle)->key, key, n_key);
    fake_of(handle)->n_key = n_key;
    return 0;
}

uint32_t kcapi_cipher_blocksize(struct kcapi_handle *handle)
{
    return kcapi_fake.armed ? 16 : REAL(kcapi_cipher_blocksize)(handle);
}

uint32_t kcapi_cipher_ivsize(struct kcapi_handle *handle)
{
    if (!kcapi_fake.armed)
        return REAL(kcapi_cipher_ivsize)(handle);
    return fake_of(handle)->cbc || kcapi_fake.lists_iv ? 16 : 0;
}

// ---------------------------------------------------------------- requests

static void crypt_aes(const struct fake_handle *fake, int encrypt, const uint8_t *iv, uint8_t *out,
                      const uint8_t *in, size_t n_bytes)
{
    const EVP_CIPHER *const ciphers[2][3] = {
        {EVP_aes_128_ecb(), EVP_aes_192_ecb(), EVP_aes_256_ecb()},
        {EVP_aes_128_cbc(), EVP_aes_192_cbc(), EVP_aes_256_cbc()},
    };
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int n = 0;

    cr_assert_eq(EVP_CipherInit_ex(ctx, ciphers[fake->cbc][fake->n_key / 8 - 2], NULL, fake->key,
                                   fake->cbc ? iv : NULL, encrypt),
                 1);
    EVP_CIPHER_CTX_set_padding(ctx, 0);
    cr_assert_eq(EVP_CipherUpdate(ctx, out, &n, in, (int)n_bytes), 1);
    cr_assert_eq(n, (int)n_bytes);
    EVP_CIPHER_CTX_free(ctx);
}

static ssize_t fake_crypt(const struct fake_handle *fake, int encrypt, const uint8_t *iv,
                          uint8_t *out, const uint8_t *in, size_t n_bytes)
{
    size_t n_written = n_bytes;
    uint8_t *result = malloc(n_bytes);

    cr_assert_not_null(result);
    kcapi_fake.n_requests++;
    kcapi_fake.n_with_iv += iv != NULL;
    if (n_bytes > kcapi_fake.n_largest)
        kcapi_fake.n_largest = n_bytes;
    if (n_bytes == kcapi_fake.n_refused || (!fake->cbc && kcapi_fake.wants_iv && !iv) ||
        (!fake->cbc && kcapi_fake.refuses_iv && iv)) {
        free(result);
        return -EINVAL;
    }
    crypt_aes(fake, encrypt, iv, result, in, n_bytes);
    if (kcapi_fake.n_short > 0 && n_written > kcapi_fake.n_short)
        n_written = kcapi_fake.n_short;
    memcpy(out, result, n_written);
    free(result);
    return (ssize_t)n_bytes;
}

ssize_t kcapi_cipher_encrypt(struct kcapi_handle *handle, const uint8_t *in, size_t n_in,
                             const uint8_t *iv, uint8_t *out, size_t n_out, int access)
{
    if (!kcapi_fake.armed)
        return REAL(kcapi_cipher_encrypt)(handle, in, n_in, iv, out, n_out, access);
    return fake_crypt(fake_of(handle), 1, iv, out, in, n_in);
}

ssize_t kcapi_cipher_decrypt(struct kcapi_handle *handle, const uint8_t *in, size_t n_in,
                             const uint8_t *iv, uint8_t *out, size_t n_out, int access)
{
    if (!kcapi_fake.armed)
        return REAL(kcapi_cipher_decrypt)(handle, in, n_in, iv, out, n_out, access);
    return fake_crypt(fake_of(handle), 0, iv, out, in, n_in);
}
