// SPDX-License-Identifier: MIT
// The mark of ownership. See fork.h.
#include "fork.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

// A page that the kernel gives to every child as zeroes (MADV_WIPEONFORK, Linux 4.14), whatever
// kind of fork made it. So no path that skips pthread_atfork can use its parent's channel.
static _Atomic uint32_t *_Atomic fork_mark;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static void (*fork_child)(void);
static int fork_error;

static void fork_handler(void)
{
    int saved = errno;

    fork_child();
    errno = saved;
}

static void fork_make(void)
{
    size_t n = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED) {
        fork_error = -errno;
        return;
    }
    if (madvise(page, n, MADV_WIPEONFORK) < 0)
        fork_error = -errno;
    else
        fork_error = -pthread_atfork(NULL, NULL, fork_handler);
    if (fork_error < 0) {
        (void)munmap(page, n);
        return;
    }
    _Atomic uint32_t *mark = page;
    atomic_store(mark, 1);
    atomic_store(&fork_mark, mark);
}

int fork_prepare(void (*child)(void))
{
    fork_child = child;
    return pthread_once(&fork_once, fork_make) == 0 ? fork_error : -ENOMEM;
}

bool fork_is_ours(void)
{
    _Atomic uint32_t *mark = atomic_load_explicit(&fork_mark, memory_order_acquire);

    return mark && atomic_load_explicit(mark, memory_order_relaxed) == 1;
}

bool fork_is_foreign(void)
{
    return atomic_load_explicit(&fork_mark, memory_order_acquire) && !fork_is_ours();
}

void fork_claim(void)
{
    _Atomic uint32_t *mark = atomic_load_explicit(&fork_mark, memory_order_acquire);

    if (mark)
        atomic_store(mark, 1);
}
