// SPDX-License-Identifier: MIT
// Guarantees: all lanes are measured in turn, on the same data, so that a change of clock speed
// meets each of them; a driver that is slow costs its own time and no more. Must not know what is
// decided by it.
#include "measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "measure_peer.h"

#define BUFFER_SIZE  MESSAGE_SIZE_AT(MESSAGE_SIZES - 1u)
#define PIECE_MAX    65536u // of a request
#define ALIGN        4096u
#define ROUNDS_MIN   2u
#define ROUNDS_MAX   64u
#define SECTION_NS   20000u // what is shorter is repeated, up to
#define REPEATS_MAX  4096u  // times
#define CLOCKS_MIN   10u    // so many times longer than reading a clock must it be, too
#define CLOCK_ROUNDS 16

struct measure_bench {
    struct measure_wake wake;
    uint64_t section_ns; // at least; where the clock is slow, longer
    uint8_t *user;       // what the session has
    uint8_t *slot;       // what lies in the shared memory
};

struct run {
    struct measure_bench *bench;
    const struct measure_subject *subject;
    const struct measure_limits *limits;
    struct backend_key *key;
    struct backend_key *software_key;
    size_t n_bytes; // of an operation
};

// What is known of one cost at one size.
struct cell {
    uint64_t ns[ROUNDS_MAX]; // of an operation, in each round
    uint64_t cpu_ns[ROUNDS_MAX];
    uint32_t n_rounds;
    uint32_t n_repeats; // in a round
};

static const uint8_t measure_iv[ALGORITHM_IV_LEN_MAX] = {1};

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t measure_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

void measure_table_clear(struct measure_table *table)
{
    memset(table, 0xff, sizeof(*table)); // MEASURE_NONE everywhere
    table->wake_ns = table->wake_cpu_ns = 0;
}

// ---------------------------------------------------------------- what is measured

static int run_software(const struct run *run)
{
    const struct measure_bench *bench = run->bench;

    return run->subject->software_ops->crypt(run->software_key, true, measure_iv, bench->user,
                                             bench->user, run->n_bytes);
}

static int run_request(const struct run *run)
{
    const struct measure_bench *bench = run->bench;
    int r = 0;

    memcpy(bench->slot, bench->user, run->n_bytes);
    for (size_t at = 0; r == 0 && at < run->n_bytes; at += PIECE_MAX)
        r = run->subject->ops->crypt(run->key, true, measure_iv, bench->slot + at, bench->slot + at,
                                     run->n_bytes < PIECE_MAX ? run->n_bytes : PIECE_MAX);
    memcpy(bench->user, bench->slot, run->n_bytes);
    return r;
}

static int run_keystream(const struct run *run)
{
    int r = 0;

    for (size_t at = 0; r == 0 && at < run->n_bytes; at += PIECE_MAX)
        r = run->subject->ops->keystream(run->key, measure_iv, run->bench->slot + at,
                                         run->n_bytes < PIECE_MAX ? run->n_bytes : PIECE_MAX);
    return r;
}

// As the client library takes keystream: one pass, which wipes it.
__attribute__((optimize("O3"))) static void take(uint8_t *user, uint8_t *slot, size_t n_bytes)
{
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC ivdep
#endif
    for (size_t i = 0; i < n_bytes; i++) {
        user[i] ^= slot[i];
        slot[i] = 0;
    }
    __asm__ volatile("" ::: "memory");
}

static int run_take(const struct run *run)
{
    take(run->bench->user, run->bench->slot, run->n_bytes);
    return 0;
}

static int (*const bodies[MESSAGE_COST_COUNT])(const struct run *run) = {
    [MESSAGE_COST_SOFTWARE] = run_software,
    [MESSAGE_COST_REQUEST] = run_request,
    [MESSAGE_COST_KEYSTREAM] = run_keystream,
    [MESSAGE_COST_TAKE] = run_take,
};

static bool is_wanted(const struct run *run, enum message_cost cost)
{
    switch (cost) {
    case MESSAGE_COST_REQUEST:
        return (run->subject->makes & BACKEND_MAKES_REQUESTS) != 0;
    case MESSAGE_COST_KEYSTREAM:
    case MESSAGE_COST_TAKE:
        return (run->subject->makes & BACKEND_MAKES_KEYSTREAM) != 0;
    default:
        return true;
    }
}

// ---------------------------------------------------------------- one cell

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

// One section under both clocks. 0 or a negative errno.
static int take_section(const struct run *run, enum message_cost cost, uint32_t n_repeats,
                        uint64_t *ret_ns, uint64_t *ret_cpu_ns)
{
    const uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), start = measure_now_ns();
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < n_repeats; i++)
        r = bodies[cost](run);
    *ret_ns = measure_now_ns() - start;
    *ret_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    return r;
}

// The memory that keystream is taken from must come from another CPU's cache, as it will; so each
// time counts alone.
static int prepare(const struct run *run, enum message_cost cost)
{
    return cost == MESSAGE_COST_TAKE ? measure_peer_write(run->bench->slot, run->n_bytes) : 0;
}

// The first sections only warm up, and tell how often a round repeats.
static int warm_up(const struct run *run, enum message_cost cost, struct cell *cell)
{
    uint64_t ns = 0, cpu_ns;
    int r = prepare(run, cost);

    cell->n_repeats = 1;
    while (r == 0) {
        r = take_section(run, cost, cell->n_repeats, &ns, &cpu_ns);
        if (ns >= run->bench->section_ns || cost == MESSAGE_COST_TAKE ||
            cell->n_repeats >= REPEATS_MAX)
            break;
        cell->n_repeats *= 2;
    }
    return r;
}

static int run_round(const struct run *run, enum message_cost cost, struct cell *cell)
{
    uint64_t ns, cpu_ns;
    int r;

    if (cell->n_repeats == 0) // there was no time to warm up
        return 0;
    r = prepare(run, cost);
    if (r == 0)
        r = take_section(run, cost, cell->n_repeats, &ns, &cpu_ns);
    if (r < 0)
        return r;
    ns = ns / cell->n_repeats;
    if (ns == 0)
        ns = 1; // faster than any clock can tell
    cell->cpu_ns[cell->n_rounds] = cpu_ns / cell->n_repeats;
    cell->ns[cell->n_rounds++] = ns;
    return 0;
}

// ---------------------------------------------------------------- one size

static bool is_over(const struct run *run, uint64_t until_ns)
{
    return atomic_load_explicit(run->limits->cancelled, memory_order_relaxed) ||
           measure_now_ns() >= until_ns;
}

// One turn of all that is measured: round 0 warms up.
static int run_turn(const struct run *run, uint32_t round, struct cell cells[MESSAGE_COST_COUNT])
{
    int r = 0;

    for (enum message_cost cost = 0; r == 0 && cost < MESSAGE_COST_COUNT; cost++) {
        if (!is_wanted(run, cost))
            continue;
        if (is_over(run, run->limits->until_ns))
            break;
        r = round == 0 ? warm_up(run, cost, &cells[cost]) : run_round(run, cost, &cells[cost]);
    }
    return r;
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

// The fastest: what is slower was disturbed. But keystream that is taken especially fast lies in
// this CPU's own cache by luck; the usual time counts.
static uint64_t time_of(struct cell *cell, enum message_cost cost)
{
    qsort(cell->ns, cell->n_rounds, sizeof(cell->ns[0]), compare_times);
    return cell->ns[cost == MESSAGE_COST_TAKE ? cell->n_rounds / 2 : 0];
}

// Some clocks of CPU time are coarse, so one round alone may say anything; but in the worst quarter
// the machine was doing something else too.
static uint64_t cpu_time_of(struct cell *cell)
{
    const uint32_t n = cell->n_rounds - cell->n_rounds / 4;
    uint64_t sum = 0;

    qsort(cell->cpu_ns, cell->n_rounds, sizeof(cell->cpu_ns[0]), compare_times);
    for (uint32_t i = 0; i < n; i++)
        sum += cell->cpu_ns[i];
    return n > 0 ? sum / n : 0;
}

static void publish(struct cell cells[MESSAGE_COST_COUNT], uint32_t i, struct measure_table *table)
{
    for (enum message_cost cost = 0; cost < MESSAGE_COST_COUNT; cost++) {
        struct cell *cell = &cells[cost];
        const bool request = cost == MESSAGE_COST_REQUEST;

        if (cell->n_rounds < ROUNDS_MIN)
            continue;
        table->costs[cost].ns[i] = time_of(cell, cost) + (request ? table->wake_ns : 0);
        table->costs[cost].cpu_ns[i] = cpu_time_of(cell) + (request ? table->wake_cpu_ns : 0);
    }
}

static int run_size(const struct run *run, uint32_t i, uint64_t until_ns,
                    struct measure_table *table)
{
    struct cell cells[MESSAGE_COST_COUNT] = {0};
    int r = 0;

    for (uint32_t round = 0; r == 0 && round <= ROUNDS_MAX; round++) {
        if (is_over(run, round <= ROUNDS_MIN ? run->limits->until_ns : until_ns))
            break;
        r = run_turn(run, round, cells);
    }
    if (r == 0)
        publish(cells, i, table);
    return r;
}

// ---------------------------------------------------------------- one algorithm

// In the order of what decides most: if the time is short, small sizes are not known.
static const uint32_t size_order[MESSAGE_SIZES] = {6, 7, 5, 4, 3, 2, 1, 0};

static int run_sizes(struct run *run, struct measure_table *table)
{
    int r = 0;

    for (uint32_t n = 0; n < MESSAGE_SIZES; n++) {
        const uint64_t now = measure_now_ns();
        const uint64_t share =
            now + less(run->limits->until_ns, now) / (uint64_t)(MESSAGE_SIZES - n);

        run->n_bytes = MESSAGE_SIZE_AT(size_order[n]);
        if (r == 0)
            r = run_size(run, size_order[n], share, table);
        if (run->limits->on_size)
            run->limits->on_size(run->limits->user);
    }
    return r;
}

int measure_run(struct measure_bench *bench, const struct measure_subject *subject,
                const struct measure_limits *limits, struct measure_table *ret)
{
    struct run run = {.bench = bench, .subject = subject, .limits = limits};
    struct measure_table table;
    uint8_t key[ALGORITHM_KEY_MAX];
    int r;

    // Of no worth to anybody; triple DES refuses parts that are equal.
    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t)(i * 37 + 1);
    measure_table_clear(&table);
    table.wake_ns = bench->wake.ns;
    table.wake_cpu_ns = bench->wake.cpu_ns;
    memset(bench->user, 0, BUFFER_SIZE);
    r = subject->ops->open(subject->backend, subject->algorithm, key, &run.key);
    if (r == 0)
        r = subject->software_ops->open(subject->software, subject->algorithm, key,
                                        &run.software_key);
    if (r == 0)
        r = run_sizes(&run, &table);
    subject->ops->close(run.key);
    subject->software_ops->close(run.software_key);
    if (r == 0)
        *ret = table;
    return r;
}

// ---------------------------------------------------------------- life

// The least of several: what each section contains.
static uint64_t cost_of_clock(void)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < CLOCK_ROUNDS; i++) {
        const uint64_t start = measure_now_ns(), took = measure_now_ns() - start;

        if (took < best)
            best = took;
    }
    return best;
}

int measure_bench_new(const int bell[2], struct measure_bench **ret)
{
    struct measure_bench *bench = calloc(1, sizeof(*bench));
    int r = -ENOMEM;

    if (!bench)
        return r;
    bench->user = aligned_alloc(ALIGN, BUFFER_SIZE);
    bench->slot = aligned_alloc(ALIGN, BUFFER_SIZE);
    if (bench->user && bench->slot)
        r = measure_peer_wake(bell, &bench->wake);
    if (r < 0) {
        free(bench->user);
        free(bench->slot);
        free(bench);
        return r;
    }
    memset(bench->slot, 0, BUFFER_SIZE);
    bench->section_ns = CLOCKS_MIN * cost_of_clock();
    if (bench->section_ns < SECTION_NS)
        bench->section_ns = SECTION_NS;
    *ret = bench;
    return 0;
}

void measure_bench_free(struct measure_bench *bench)
{
    if (!bench)
        return;
    free(bench->user);
    free(bench->slot);
    free(bench);
}
