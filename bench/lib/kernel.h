// SPDX-License-Identifier: MIT
// Encryption by the kernel's crypto sockets without cryptod: libkcapi, one request at a time, in
// this process. What the lanes are measured against.
#ifndef CRYPTOD_BENCH_KERNEL_H
#define CRYPTOD_BENCH_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

struct kernel_cipher;

// By name ("cbc(aes)", or a driver's own), with a key of 16 bytes. NULL: this kernel does not have
// it. n_bytes: of a request.
struct kernel_cipher *kernel_cipher_new(const char *name, size_t n_bytes);
void kernel_cipher_free(struct kernel_cipher *cipher);

// Each request's IV is the end of the last one's output, as in CBC. Returns how long it took, in
// seconds.
double kernel_cipher_run(struct kernel_cipher *cipher, unsigned n_requests);

#endif
