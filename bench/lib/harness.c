// SPDX-License-Identifier: MIT
#include "harness.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double clock_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double harness_now(void)
{
    return clock_seconds(CLOCK_MONOTONIC);
}

double harness_cpu(void)
{
    return clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

void harness_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double harness_run(const char *name, size_t n, struct harness_pair (*measure)(void *),
                   void *context)
{
    double ratios[HARNESS_PAIRS_MAX];
    const char *wanted = getenv("CRYPTOD_BENCH_PAIRS");
    if (wanted != NULL && *wanted != '\0')
        n = strtoul(wanted, NULL, 10);
    if (n == 0 || n > HARNESS_PAIRS_MAX)
        harness_die("%zu pairs: out of range", n);
    measure(context); // warm-up, not counted
    for (size_t i = 0; i < n; i++) {
        struct harness_pair pair = measure(context);
        ratios[i] = pair.a / pair.b;
        printf("%s pair %zu: %.3f / %.3f = %.3f\n", name, i + 1, pair.a, pair.b, ratios[i]);
        fflush(stdout);
    }
    qsort(ratios, n, sizeof ratios[0], compare_doubles);
    double median = n % 2 ? ratios[n / 2] : (ratios[n / 2 - 1] + ratios[n / 2]) / 2;
    printf("%s ratio=%.3f n=%zu min=%.3f max=%.3f\n", name, median, n, ratios[0], ratios[n - 1]);
    return median;
}

cryptod_stream *harness_request_stream(enum cryptod_algorithm algorithm, size_t n_bytes)
{
    static const uint8_t key[32] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    static const uint8_t iv[16] = {16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
    int r = cryptod_open(NULL, 2000);
    if (r < 0)
        harness_die("no channel: %s", strerror(-r));
    cryptod_stream *stream = NULL;
    r = cryptod_stream_new(algorithm, &stream);
    if (r == 0)
        r = cryptod_stream_init(stream, key, iv, true);
    uint8_t *buffer = calloc(1, n_bytes);
    struct cryptod_counters counters = {0};
    // The stream asks for its lane asynchronously: give it some calls to get it.
    for (int i = 0; r == 0 && buffer != NULL && i < 20000 && counters.request_operations == 0;
         i++) {
        r = cryptod_stream_crypt(stream, buffer, buffer, n_bytes);
        cryptod_counters_get(&counters);
    }
    free(buffer);
    if (r < 0 || counters.request_operations == 0)
        harness_die("the request lane did not come about: %s", strerror(-r));
    return stream;
}
