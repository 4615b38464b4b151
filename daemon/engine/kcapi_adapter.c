// SPDX-License-Identifier: MIT
// Guarantees: an error is a negative errno and never 0; a success means that the whole output is
// there. Must not know who uses a handle.
#include "kcapi_adapter.h"

#include <errno.h>
#include <kcapi.h>
#include <string.h>

#define TAIL_MAX 16u // bytes

void kcapi_adapter_init(void)
{
    kcapi_set_verbosity(KCAPI_LOG_NONE);
}

// libkcapi hands errno on, but on some paths (an error message over netlink) nothing has set it.
static int error_of(long r)
{
    return r < 0 ? (int)r : -EPROTO;
}

// Some drivers list an IV for ECB, which has none.
static bool takes_iv_of(struct kcapi_handle *handle, const struct algorithm_info *info)
{
    const uint32_t n_iv = kcapi_cipher_ivsize(handle);

    return n_iv == info->n_iv || (info->n_iv == 0 && n_iv == info->n_cipher_block);
}

int kcapi_adapter_open(const struct algorithm_info *info, const uint8_t *key,
                       struct kcapi_handle **ret)
{
    struct kcapi_handle *handle;
    int r;

    errno = EPROTO;
    r = kcapi_cipher_init(&handle, info->kernel_name, 0);
    if (r != 0)
        return error_of(r);
    // After a netlink error without errno the handle looks good but has sizes of zero, and would
    // divide by them.
    if (kcapi_cipher_blocksize(handle) != info->n_block || !takes_iv_of(handle, info)) {
        kcapi_cipher_destroy(handle);
        return -EPROTO;
    }
    r = kcapi_cipher_setkey(handle, key, info->n_key);
    if (r != 0) {
        kcapi_cipher_destroy(handle);
        // The length is right: the driver has no room for another key (virtio_crypto after 256
        // sessions).
        return r == -EINVAL ? -EUSERS : error_of(r);
    }
    *ret = handle;
    return 0;
}

int kcapi_adapter_reopen(struct kcapi_handle *old, struct kcapi_handle **ret)
{
    struct kcapi_handle *handle;
    int r = kcapi_handle_reinit(&handle, old, 0);

    if (r != 0)
        return error_of(r);
    *ret = handle;
    return 0;
}

bool kcapi_adapter_lists_iv(struct kcapi_handle *handle)
{
    return kcapi_cipher_ivsize(handle) != 0;
}

// KCAPI_ACCESS_SENDMSG: two system calls, sendmsg and read, and never vmsplice.
//
// libkcapi reports what it sent, not what it got: a read that ends early looks like success. It
// then leaves the end of the output as it was, so the end is looked at: a cipher leaves it as it
// was in place once in 2^128 (2^64 for one block of DES), and elsewhere it is changed first,
// because the same result may lie there from before. Requests shorter than that have no tail worth
// a look; a kernel that answers them with 0 bytes is not known.
int kcapi_adapter_crypt(struct kcapi_handle *handle, bool encrypt, const uint8_t *iv, uint8_t *out,
                        const uint8_t *in, size_t n_bytes)
{
    const size_t n_tail = n_bytes < TAIL_MAX ? n_bytes & ~(size_t)7 : TAIL_MAX;
    uint8_t tail[TAIL_MAX];
    ssize_t n;

    for (size_t i = 0; out != in && i < n_tail; i++)
        out[n_bytes - n_tail + i] ^= 0xff;
    memcpy(tail, out + n_bytes - n_tail, n_tail);
    errno = 0; // libkcapi goes round again while it finds EINTR here, whoever left it
    if (encrypt)
        n = kcapi_cipher_encrypt(handle, in, n_bytes, iv, out, n_bytes, KCAPI_ACCESS_SENDMSG);
    else
        n = kcapi_cipher_decrypt(handle, in, n_bytes, iv, out, n_bytes, KCAPI_ACCESS_SENDMSG);
    if (n < 0)
        return (int)n;
    if ((size_t)n != n_bytes || (n_tail > 0 && memcmp(tail, out + n_bytes - n_tail, n_tail) == 0))
        return -EIO;
    return 0;
}

void kcapi_adapter_close(struct kcapi_handle *handle)
{
    kcapi_cipher_destroy(handle);
}
