// SPDX-License-Identifier: MIT
// The only file that speaks to libkcapi (written against 1.4.0), and what its return values mean.
//
// A kcapi_handle here is one operation socket of a key. All handles of a key share its kernel
// transform. A handle serves one request at a time; after an error it must be thrown away
// (kcapi_adapter_reopen).
#ifndef CRYPTOD_DAEMON_KCAPI_ADAPTER_H
#define CRYPTOD_DAEMON_KCAPI_ADAPTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algorithm.h"

struct kcapi_handle;

// libkcapi writes to stderr by itself otherwise. Once, before threads.
void kcapi_adapter_init(void);

// Sets the key in a new transform. 0; -EAFNOSUPPORT, -EPERM, -EACCES: no crypto sockets; -ENOENT:
// the kernel refuses the algorithm; -EPROTONOSUPPORT: no NETLINK_CRYPTO; -EUSERS: the driver takes
// no more keys; -EPROTO: the kernel's algorithm has other sizes; or another negative errno.
int kcapi_adapter_open(const struct algorithm_info *info, const uint8_t *key,
                       struct kcapi_handle **ret);

// A fresh operation socket of the same key. The old handle stays open. 0 or a negative errno.
int kcapi_adapter_reopen(struct kcapi_handle *old, struct kcapi_handle **ret);

// Whether the driver lists an IV: of the algorithm's size, or for ECB, which has none, of a
// block's.
bool kcapi_adapter_lists_iv(struct kcapi_handle *handle);

// One request of 1 .. 64 KiB with its own IV; NULL: without one. 0 or a negative errno, after which
// out is undefined.
int kcapi_adapter_crypt(struct kcapi_handle *handle, bool encrypt, const uint8_t *iv, uint8_t *out,
                        const uint8_t *in, size_t n_bytes);

// The last one of a key gives the kernel's copy of it back. NULL is allowed.
void kcapi_adapter_close(struct kcapi_handle *handle);

#endif
