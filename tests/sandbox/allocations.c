// SPDX-License-Identifier: MIT
// Takes the allocator's place in the whole test program, libraries included, and passes everything
// on. Under a sanitizer its own hooks count.
#include "allocations.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static _Thread_local bool is_counting;
static unsigned n_calls;

static void count(void)
{
    if (is_counting)
        n_calls++;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Of every sanitizer's runtime library; Debian's gcc has no header that declares it.
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));

static void on_malloc(const volatile void *memory, size_t n_bytes)
{
    (void)memory;
    (void)n_bytes;
    count();
}

static void on_free(const volatile void *memory)
{
    (void)memory;
    count();
}

__attribute__((constructor)) static void install_hooks(void)
{
    (void)__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}
#else
// The C library's own names for them.
void *__libc_malloc(size_t n_bytes);
void *__libc_calloc(size_t n, size_t n_bytes);
void *__libc_realloc(void *memory, size_t n_bytes);
void __libc_free(void *memory);

__attribute__((visibility("default"))) void *malloc(size_t n_bytes)
{
    count();
    return __libc_malloc(n_bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t n, size_t n_bytes)
{
    count();
    return __libc_calloc(n, n_bytes);
}

__attribute__((visibility("default"))) void *realloc(void *memory, size_t n_bytes)
{
    count();
    return __libc_realloc(memory, n_bytes);
}

__attribute__((visibility("default"))) void free(void *memory)
{
    count();
    __libc_free(memory);
}
#endif

void allocations_begin(void)
{
    n_calls = 0;
    is_counting = true;
}

unsigned allocations_end(void)
{
    is_counting = false;
    return n_calls;
}
