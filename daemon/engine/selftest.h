// SPDX-License-Identifier: MIT
// Whether a backend gives the bytes that are published and those that OpenSSL gives. Before the
// sandbox or after it, in one thread.
#ifndef CRYPTOD_DAEMON_SELFTEST_H
#define CRYPTOD_DAEMON_SELFTEST_H

#include "backend.h"

#define SELFTEST_TEXT_MAX 96u // bytes

// Of what the backend makes (BACKEND_MAKES_*): known answers; requests in both directions, in place
// and not, at odd addresses, of odd sizes where the cipher has them, from a block over a page to
// 64 KiB; counters that carry over 32, 64 and 128 bits within a request; a longer stretch as
// several requests whose IVs follow from one another; and nothing written outside the output. Each
// result is compared with the reference's. 0; -EBADMSG: a wrong result; or the negative errno of
// the first call that failed. Then ret_text says which ("wrong bytes at 8192 bytes, offset 3
// (encrypt, in place)").
int selftest_run(const struct backend_ops *ops, struct backend *backend,
                 const struct backend_ops *reference_ops, struct backend *reference,
                 const struct algorithm_info *info, uint32_t makes,
                 char ret_text[SELFTEST_TEXT_MAX]);

// The same with the smallest request alone: does it work at all.
int selftest_run_one(const struct backend_ops *ops, struct backend *backend,
                     const struct backend_ops *reference_ops, struct backend *reference,
                     const struct algorithm_info *info, uint32_t makes);

#endif
