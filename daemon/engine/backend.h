// SPDX-License-Identifier: MIT
// The one interface between the engine and whatever does the work: the kernel's AF_ALG
// (backend_afalg.c), OpenSSL on this CPU (backend_cpu.c), and for tests a backend that fails on
// order (backend_fault.c). Knows nothing of channels, rings, clients or messages.
//
// Threads: probe and open are called by the engine's main thread; crypt, keystream and close by any
// worker. One key may be used by several workers at once. Everything is blocking.
#ifndef CRYPTOD_DAEMON_BACKEND_H
#define CRYPTOD_DAEMON_BACKEND_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algorithm.h"

struct backend;     // one instance of a backend
struct backend_key; // a key set in it ("tfm" in the kernel's words)

#define BACKEND_MAKES_REQUESTS  1u // crypt()
#define BACKEND_MAKES_KEYSTREAM 2u // keystream()

// What a backend can do for one algorithm.
struct backend_probe {
    int error;       // 0: works; else a negative errno of the first call that failed
    uint32_t makes;  // BACKEND_MAKES_* bits, if it works
    bool hardware;   // an engine, not this machine's CPU
    bool denied;     // its driver is on the deny list; error is set too
    bool hangs;      // its driver is one of hung_drivers; error is set too
    bool is_tested;  // must pass the self-test before it is offered
    bool is_watched; // its results are compared with OpenSSL's in use
    char driver[64]; // "cbc-aes-aesni", "OpenSSL 3.0.15"
    char text[128];  // why not, in words; or what is to be said though it works
};

struct backend_settings {
    const char *deny_drivers; // names separated by one space, honoured before the first operation
    const char *hung_drivers; // the same; drivers that hung before
    const char *fault;        // backend_fault only
    uint32_t workers;         // most threads that will use one key at once
    // Called by probe() before the first operation with a driver, which may hang; NULL: nobody
    // wants to know.
    void (*on_trial)(void *user, enum algorithm_id algorithm, const char *driver);
    void *user;
};

// Whether open() or a request failed for want of what others have, and would work another time:
// keys of the driver, memory, descriptors. It says nothing against the driver.
static inline bool backend_is_lack(int error)
{
    return error == -EUSERS || error == -ENOSPC || error == -ENOMEM || error == -EBUSY ||
           error == -EMFILE || error == -ENFILE;
}

struct backend_ops {
    const char *name;

    // Makes the instance. Before the sandbox, as root. -ENOSYS: this backend does not exist here.
    int (*init)(const struct backend_settings *settings, struct backend **ret);
    void (*fini)(struct backend *backend);

    // Finds out about one algorithm; never fails, the answer says why not.
    void (*probe)(struct backend *backend, enum algorithm_id algorithm, struct backend_probe *ret);

    // Sets a key of the algorithm's length. 0 or a negative errno (-ENOENT: refused; -EUSERS: no
    // more keys).
    int (*open)(struct backend *backend, enum algorithm_id algorithm, const uint8_t *key,
                struct backend_key **ret);

    // n_bytes from in to out (equal allowed), at most 64 KiB, a multiple of the algorithm's block,
    // with this IV. 0 or a negative errno; after an error out is undefined.
    int (*crypt)(struct backend_key *key, bool encrypt, const uint8_t iv[16], uint8_t *out,
                 const uint8_t *in, size_t n_bytes);

    // Keystream of a stream cipher from this IV on, or NULL where there is none to be made.
    int (*keystream)(struct backend_key *key, const uint8_t iv[16], uint8_t *out, size_t n_bytes);

    // Wipes and frees. NULL is allowed.
    void (*close)(struct backend_key *key);

    // backend_fault only, else NULL: from now on this is what goes wrong, with keys that are open
    // too; what runs already follows the old order. Main thread. 0 or -EINVAL: the old one stays.
    int (*reorder)(struct backend *backend, const char *fault);
};

extern const struct backend_ops backend_afalg_ops;
extern const struct backend_ops backend_cpu_ops;
extern const struct backend_ops backend_fault_ops;

#endif
