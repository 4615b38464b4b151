// SPDX-License-Identifier: MIT
// Guarantees: no thread outlives a call. Must not know what else is measured.
#include "measure_peer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX  101
#define ROUNDS_MIN  9
#define TIME_MAX_NS UINT64_C(20000000)
#define WRITTEN     0x5a

enum order { ORDER_ANSWER = 'a', ORDER_END = 'e' };

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int put_byte(int fd, char byte)
{
    ssize_t n;

    do {
        n = write(fd, &byte, 1);
    } while (n < 0 && errno == EINTR);
    return n == 1 ? 0 : -EPIPE;
}

static int get_byte(int fd, char *ret)
{
    ssize_t n;

    do {
        n = read(fd, ret, 1);
    } while (n < 0 && errno == EINTR);
    return n == 1 ? 0 : -EPIPE;
}

static void *answer_main(void *arg)
{
    const int *bell = arg;
    char order;

    pthread_setname_np(pthread_self(), "measure-peer");
    while (get_byte(bell[1], &order) == 0 && order != ORDER_END)
        if (put_byte(bell[1], order) < 0)
            break;
    return NULL;
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static int measure_rounds(const int bell[2], struct measure_wake *ret)
{
    const uint64_t begin = clock_ns(CLOCK_MONOTONIC);
    uint64_t times[ROUNDS_MAX], cpu_times[ROUNDS_MAX];
    size_t n = 0;
    char answer;

    while (n < ROUNDS_MAX && (n < ROUNDS_MIN || clock_ns(CLOCK_MONOTONIC) - begin < TIME_MAX_NS)) {
        const uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), start = clock_ns(CLOCK_MONOTONIC);
        int r = put_byte(bell[0], ORDER_ANSWER);

        if (r == 0)
            r = get_byte(bell[0], &answer);
        if (r < 0)
            return r;
        times[n] = clock_ns(CLOCK_MONOTONIC) - start;
        cpu_times[n++] = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    }
    qsort(times, n, sizeof(times[0]), compare_times);
    qsort(cpu_times, n, sizeof(cpu_times[0]), compare_times);
    ret->ns = times[n / 4];
    ret->cpu_ns = 2 * cpu_times[n / 4]; // the other side does as much
    return 0;
}

int measure_peer_wake(const int bell[2], struct measure_wake *ret)
{
    int both[2] = {bell[0], bell[1]};
    struct measure_wake wake;
    pthread_t thread;
    int r = -pthread_create(&thread, NULL, answer_main, both);

    if (r < 0)
        return r;
    r = measure_rounds(bell, &wake);
    (void)put_byte(bell[0], ORDER_END);
    pthread_join(thread, NULL);
    if (r == 0)
        *ret = wake;
    return r;
}

struct writing {
    uint8_t *data;
    size_t n_bytes;
};

static void *write_main(void *arg)
{
    const struct writing *writing = arg;

    memset(writing->data, WRITTEN, writing->n_bytes);
    return NULL;
}

int measure_peer_write(uint8_t *data, size_t n_bytes)
{
    struct writing writing = {.data = data, .n_bytes = n_bytes};
    pthread_t thread;
    int r = -pthread_create(&thread, NULL, write_main, &writing);

    if (r == 0)
        pthread_join(thread, NULL);
    return r;
}
