// SPDX-License-Identifier: MIT
// Whether a backend gives the bytes that OpenSSL gives. Before the sandbox or after it, in one
// thread.
#ifndef CRYPTOD_DAEMON_SELFTEST_H
#define CRYPTOD_DAEMON_SELFTEST_H

#include "backend.h"

// Of what the backend makes (BACKEND_MAKES_*): encrypts and decrypts in place, makes keystream,,
// with sizes from a block to 64 KiB and counters that carry, and compares each result with the
// reference's. 0; -EBADMSG: a wrong result; or the negative errno of the first call that failed.
int selftest_run(const struct backend_ops *ops, struct backend *backend,
                 const struct backend_ops *reference_ops, struct backend *reference,
                 const struct algorithm_info *info, uint32_t makes);

// The same with the smallest request alone: does it work at all.
int selftest_run_one(const struct backend_ops *ops, struct backend *backend,
                     const struct backend_ops *reference_ops, struct backend *reference,
                     const struct algorithm_info *info, uint32_t makes);

#endif
