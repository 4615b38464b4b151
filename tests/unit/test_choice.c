// SPDX-License-Identifier: MIT
// What follows from made-up figures: boards whose engines others have measured, and each rule at
// its edge.
#include "choice.h"

#include <criterion/criterion.h>
#include <string.h>

#include "message.h"

#define BULK 6u // index of 64 KiB

static struct measure_table table;
static struct choice_machine machine;

static void setup(void)
{
    measure_table_clear(&table);
    machine = (struct choice_machine){.n_cpus = 2};
}

TestSuite(choice, .init = setup);

// A fixed time and a time for each byte, in nanoseconds, and how much of it is CPU time (percent).
static void set_line(enum message_cost cost, double fixed, double slope, unsigned cpu)
{
    for (uint32_t i = 0; i < MESSAGE_SIZES; i++) {
        const double ns = fixed + slope * MESSAGE_SIZE_AT(i);

        table.costs[cost].ns[i] = (uint64_t)ns;
        table.costs[cost].cpu_ns[i] = (uint64_t)(ns * cpu / 100);
    }
}

struct board {
    const char *name;
    double fixed_us, request_kb_s; // through AF_ALG: a request's fixed cost; kB/s at 16 KiB
    double software_kb_s;          // OpenSSL
    uint32_t min, max;             // where requests begin to gain; 0: never
};

static void set_board(const struct board *board)
{
    const double request_ns = 16384.0 * 1e6 / board->request_kb_s;
    const double slope = (request_ns - board->fixed_us * 1000) / 16384.0;

    setup();
    machine = (struct choice_machine){.n_cpus = 1, .hardware = true};
    set_line(MESSAGE_COST_SOFTWARE, 100, 1e6 / board->software_kb_s, 100);
    set_line(MESSAGE_COST_REQUEST, board->fixed_us * 1000, slope, 40);
}

Test(choice, boards)
{
    static const struct board boards[] = {
        {"Kirkwood, AES-256-CBC", 152, 25302, 12990, 2600, 3600},
        {"Armada 385, AES-256-CBC", 12.6, 97479, 46301, 900, 1300},
        {"Armada 38x, AES-128-CBC", 15.5, 107042, 58092, 1500, 2000},
        {"unnamed ARM board, AES-128-CBC", 16.6, 113235, 19590, 320, 450},
        {"TI AM62Lx, AES-128-CBC, against plain code", 55, 112480, 39020, 2300, 3000},
        {"TI AM62Lx, AES-128-CBC, against ARMv8 AES", 55, 112480, 1200000, 0, 0},
        {"MediaTek EIP93, AES-256-CTR", 39, 38683, 9134, 400, 520},
        {"AF_ALG over kernel software, AES instructions", 3, 900000, 6985000, 0, 0},
    };

    for (size_t i = 0; i < sizeof(boards) / sizeof(boards[0]); i++) {
        set_board(&boards[i]);
        const struct choice choice = choice_make(&table, &machine);

        cr_expect_eq(choice.lanes, boards[i].max > 0 ? MESSAGE_LANE_REQUEST : 0, "%s",
                     boards[i].name);
        cr_expect(choice.request_min >= boards[i].min && choice.request_min <= boards[i].max,
                  "%s: from %u bytes", boards[i].name, choice.request_min);
        cr_expect_eq(choice.request_min % 16, 0);
    }
}

// ---------------------------------------------------------------- requests

Test(choice, request_must_gain_5_percent_or_save_cpu)
{
    set_line(MESSAGE_COST_SOFTWARE, 0, 100, 100);
    set_line(MESSAGE_COST_REQUEST, 0, 95, 200);
    cr_expect_eq(choice_make(&table, &machine).lanes, MESSAGE_LANE_REQUEST, "5.3 %% faster");
    set_line(MESSAGE_COST_REQUEST, 0, 96, 105);
    cr_expect_eq(choice_make(&table, &machine).lanes, 0, "4.2 %% faster, and more CPU time");
    set_line(MESSAGE_COST_REQUEST, 0, 99, 99);
    cr_expect_eq(choice_make(&table, &machine).lanes, 0, "saves 2 %% of the CPU time");
    set_line(MESSAGE_COST_REQUEST, 0, 99, 89);
    cr_expect_eq(choice_make(&table, &machine).lanes, MESSAGE_LANE_REQUEST, "saves a tenth");
    set_line(MESSAGE_COST_REQUEST, 0, 101, 10);
    cr_expect_eq(choice_make(&table, &machine).lanes, 0, "slower, however little CPU time");
}

Test(choice, request_must_win_at_all_larger_sizes)
{
    set_line(MESSAGE_COST_SOFTWARE, 0, 100, 100);
    set_line(MESSAGE_COST_REQUEST, 0, 50, 100);
    cr_expect_eq(choice_make(&table, &machine).request_min, CHOICE_REQUEST_MIN);
    table.costs[MESSAGE_COST_REQUEST].ns[4] = UINT64_C(1000) * MESSAGE_SIZE_AT(4);
    const struct choice choice = choice_make(&table, &machine);
    cr_expect_eq(choice.lanes, MESSAGE_LANE_REQUEST);
    cr_expect_gt(choice.request_min, MESSAGE_SIZE_AT(4), "a driver that is slow at 4 KiB");
    cr_expect_leq(choice.request_min, MESSAGE_SIZE_AT(5));
    table.costs[MESSAGE_COST_REQUEST].ns[7] = UINT64_C(1000) * MESSAGE_SIZE_AT(7);
    cr_expect_eq(choice_make(&table, &machine).lanes, 0, "slow at the largest size");
}

Test(choice, what_was_not_measured_does_not_gain)
{
    cr_expect_eq(choice_make(&table, &machine).lanes, 0);
    set_line(MESSAGE_COST_SOFTWARE, 0, 100, 100);
    cr_expect_eq(choice_make(&table, &machine).lanes, 0);
    set_line(MESSAGE_COST_REQUEST, 0, 50, 100);
    table.costs[MESSAGE_COST_REQUEST].ns[7] = MEASURE_NONE;
    cr_expect_eq(choice_make(&table, &machine).lanes, MESSAGE_LANE_REQUEST,
                 "over a request's size it may be unknown");
    table.costs[MESSAGE_COST_REQUEST].ns[3] = MEASURE_NONE;
    cr_expect_eq(choice_make(&table, &machine).request_min, MESSAGE_SIZE_AT(4));
    table.costs[MESSAGE_COST_REQUEST].cpu_ns[BULK] = MEASURE_NONE;
    cr_expect_eq(choice_make(&table, &machine).lanes, 0, "64 KiB must be known");
}

Test(choice, requests_have_a_floor)
{
    set_line(MESSAGE_COST_SOFTWARE, 0, 100, 100);
    set_line(MESSAGE_COST_REQUEST, 100000, 10, 100);
    const uint32_t from = choice_make(&table, &machine).request_min;
    machine.request_min = from / 2;
    cr_expect_eq(choice_make(&table, &machine).request_min, from);
    machine.request_min = from * 2;
    cr_expect_eq(choice_make(&table, &machine).request_min, from * 2);
    machine.no_requests = true;
    cr_expect_eq(choice_make(&table, &machine).lanes, 0);
    cr_expect_eq(choice_make(&table, &machine).request_min, 0);
}

// ---------------------------------------------------------------- keystream

#define DEAR (MESSAGE_LANE_KEYSTREAM | MESSAGE_OFFER_KEYSTREAM_DEAR)

// Of 1000000 ns in software for 64 KiB.
static uint32_t keystream_lanes(uint64_t making, uint64_t making_cpu, uint64_t taking)
{
    measure_table_clear(&table);
    table.wake_cpu_ns = 0;
    table.costs[MESSAGE_COST_SOFTWARE].ns[BULK] = 1000000;
    table.costs[MESSAGE_COST_SOFTWARE].cpu_ns[BULK] = 1000000;
    table.costs[MESSAGE_COST_KEYSTREAM].ns[BULK] = making;
    table.costs[MESSAGE_COST_KEYSTREAM].cpu_ns[BULK] = making_cpu;
    table.costs[MESSAGE_COST_TAKE].ns[BULK] = taking;
    table.costs[MESSAGE_COST_TAKE].cpu_ns[BULK] = taking;
    return choice_make(&table, &machine).lanes;
}

Test(choice, keystream_by_other_cpus)
{
    cr_expect_eq(keystream_lanes(1000000, 1000000, 500000), DEAR);
    cr_expect_eq(keystream_lanes(1000000, 1000000, 500001), 0, "more work for less than half");
    cr_expect_eq(keystream_lanes(1100000, 1000000, 100000), DEAR);
    cr_expect_eq(keystream_lanes(1100001, 1000000, 100000), 0, "it would be waited for");
    machine.n_cpus = 1;
    cr_expect_eq(keystream_lanes(1000000, 1000000, 100000), 0, "there is no other CPU");
}

Test(choice, keystream_by_an_engine)
{
    machine.hardware = true;
    cr_expect_eq(keystream_lanes(1999999, 200000, 700000), MESSAGE_LANE_KEYSTREAM);
    cr_expect_eq(keystream_lanes(2000000, 200000, 700000), 0, "too slow to wait for");
    cr_expect_eq(keystream_lanes(900000, 50000, 940000), MESSAGE_LANE_KEYSTREAM,
                 "less CPU time: 5 %% are enough");
    cr_expect_eq(keystream_lanes(900000, 10000, 960000), 0);
    cr_expect_eq(keystream_lanes(900000, 300000, 800000), 0, "more CPU time in all");
    // On one CPU its share comes on top.
    machine.n_cpus = 1;
    cr_expect_eq(keystream_lanes(900000, 800000, 100000), MESSAGE_LANE_KEYSTREAM);
    cr_expect_eq(keystream_lanes(900000, 870000, 100000), 0);
}

Test(choice, keystream_pays_for_its_wake_up)
{
    cr_expect_eq(keystream_lanes(1000000, 1000000, 100000), DEAR);
    table.wake_cpu_ns = 800000;
    cr_expect_eq(choice_make(&table, &machine).lanes, DEAR);
    table.wake_cpu_ns = 800002;
    cr_expect_eq(choice_make(&table, &machine).lanes, 0);
    table.wake_cpu_ns = MEASURE_NONE;
    cr_expect_eq(choice_make(&table, &machine).lanes, 0);
}

Test(choice, both_lanes)
{
    machine.hardware = true;
    set_line(MESSAGE_COST_SOFTWARE, 0, 100, 100);
    set_line(MESSAGE_COST_REQUEST, 0, 50, 20);
    set_line(MESSAGE_COST_KEYSTREAM, 0, 40, 20);
    set_line(MESSAGE_COST_TAKE, 0, 5, 100);
    cr_expect_eq(choice_make(&table, &machine).lanes,
                 MESSAGE_LANE_REQUEST | MESSAGE_LANE_KEYSTREAM);
}

// Figures that no machine makes come from damaged memory at most; they must do no harm.
Test(choice, survives_any_figures)
{
    static const uint64_t odd[] = {0, 1, 1000000, UINT64_C(1) << 40, UINT64_MAX / 2, UINT64_MAX};
    uint64_t state = 1;

    for (int round = 0; round < 20000; round++) {
        uint64_t *words = (uint64_t *)(void *)&table;

        for (size_t i = 0; i < sizeof(table) / sizeof(*words); i++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
            words[i] = odd[(state >> 33) % (sizeof(odd) / sizeof(odd[0]))];
        }
        machine.hardware = (round & 1) != 0;
        machine.n_cpus = 1 + (uint32_t)(round & 2);
        const struct choice choice = choice_make(&table, &machine);
        cr_assert_eq(choice.lanes & ~(MESSAGE_LANE_REQUEST | DEAR), 0);
        cr_assert_eq((choice.lanes & MESSAGE_LANE_REQUEST) != 0, choice.request_min != 0);
        cr_assert(choice.request_min == 0 ||
                  (choice.request_min >= CHOICE_REQUEST_MIN && choice.request_min <= 65536));
    }
}
