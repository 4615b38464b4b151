// SPDX-License-Identifier: MIT
// The arena for keys. Must not know what is kept in it.
#include "secret.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SECRET_WORDS  2u
#define SECRET_BLOCKS (SECRET_WORDS * 32u)
#define SECRET_SIZE   ((size_t)SECRET_BLOCKS * SECRET_BLOCK_SIZE)

static uint8_t *_Atomic secret_arena;
static _Atomic uint32_t secret_used[SECRET_WORDS]; // a bit a block

void secret_prepare(void)
{
    uint8_t *arena = atomic_load_explicit(&secret_arena, memory_order_acquire);

    if (!arena) {
        uint8_t *none = NULL;
        void *map =
            mmap(NULL, SECRET_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED)
            return; // malloc serves
        (void)madvise(map, SECRET_SIZE, MADV_DONTDUMP);
        arena = map;
        if (!atomic_compare_exchange_strong(&secret_arena, &none, arena)) {
            (void)munmap(map, SECRET_SIZE);
            arena = none;
        }
    }
    (void)mlock(arena, SECRET_SIZE);
}

static void *secret_take(uint8_t *arena)
{
    for (uint32_t word = 0; word < SECRET_WORDS; word++) {
        uint32_t used = atomic_load_explicit(&secret_used[word], memory_order_relaxed);
        while (used != UINT32_MAX) {
            uint32_t bit = (uint32_t)__builtin_ctz(~used);
            if (atomic_compare_exchange_weak_explicit(&secret_used[word], &used, used | (1u << bit),
                                                      memory_order_acquire, memory_order_relaxed))
                return arena + (size_t)(word * 32u + bit) * SECRET_BLOCK_SIZE;
        }
    }
    return NULL;
}

void *secret_new(void)
{
    uint8_t *arena = atomic_load_explicit(&secret_arena, memory_order_acquire);
    void *block = arena ? secret_take(arena) : NULL;

    return block ? block : calloc(1, SECRET_BLOCK_SIZE);
}

void secret_free(void *block)
{
    uint8_t *arena = atomic_load_explicit(&secret_arena, memory_order_acquire);
    uintptr_t offset = (uintptr_t)block - (uintptr_t)arena;

    if (!block)
        return;
    explicit_bzero(block, SECRET_BLOCK_SIZE);
    if (!arena || offset >= SECRET_SIZE) {
        free(block);
        return;
    }
    uint32_t index = (uint32_t)(offset / SECRET_BLOCK_SIZE);
    atomic_fetch_and_explicit(&secret_used[index / 32u], ~(1u << (index % 32u)),
                              memory_order_release);
}
