// SPDX-License-Identifier: MIT
// /proc/crypto: which driver serves an algorithm of the kernel, without doing an operation with it.
#ifndef CRYPTOD_DAEMON_PROC_CRYPTO_H
#define CRYPTOD_DAEMON_PROC_CRYPTO_H

#include <stdbool.h>

struct proc_crypto_driver {
    char name[64]; // "cbc-aes-aesni"
    bool async;
};

// The whole file, to be freed. 0 or a negative errno.
int proc_crypto_read(char **ret_text);

// The driver that bind() on an AF_ALG socket takes for a symmetric cipher's name ("cbc(aes)"): of
// those that passed their self-test and are not internal, the first one with the highest priority.
// sync_only: leave out asynchronous ones. 0, or -ENOENT.
int proc_crypto_find(const char *text, const char *name, bool sync_only,
                     struct proc_crypto_driver *ret);

// Whether a driver's name is that of code for the CPU (instructions for AES included), and so of no
// engine. By name, because neither "asynchronous" nor the flag "kernel driver only" says it for all
// drivers: until 6.8 the code for AES instructions is asynchronous, virtio_crypto does not have the
// flag, padlock is synchronous.
bool proc_crypto_is_software(const char *driver);

#endif
