// SPDX-License-Identifier: MIT
// client-lib/lane_cost.c: when a lane is timed, left and tried again.
#include <criterion/criterion.h>

#include "lane_cost.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define N   (32 * KIB) // bytes a call

TestSuite(lane_cost, .timeout = 30);

static struct lane_cost cost;
static uint64_t lane_ns, lane_cpu_ns, software_ns; // a call
static uint64_t between_ns, between_cpu_ns;        // until the next one
static struct lane_time now = {.wall_ns = 1};
static uint64_t n_lane, n_software, n_timed, n_left; // bytes, times

static void call(bool is_open, uint64_t n_bytes)
{
    bool allowed = lane_cost_allows(&cost) && is_open;
    bool timed = lane_cost_wants_clock(&cost, !is_open, n_bytes);
    struct lane_span span = {.began = now};

    now.wall_ns += allowed ? lane_ns : software_ns;
    now.cpu_ns += allowed ? lane_cpu_ns : software_ns;
    span.ended = now;
    n_timed += timed ? n_bytes : 0;
    *(allowed ? &n_lane : &n_software) += n_bytes;
    n_left += lane_cost_note(&cost, allowed, n_bytes, timed ? &span : NULL);
    now.wall_ns += between_ns;
    now.cpu_ns += between_cpu_ns;
}

static void calls(bool is_open, uint64_t total, uint64_t n_bytes)
{
    for (uint64_t done = 0; done < total; done += n_bytes)
        call(is_open, n_bytes);
}

static void start(uint64_t lane, uint64_t software)
{
    lane_ns = lane_cpu_ns = lane;
    software_ns = software;
    calls(false, 128 * KIB, N);
    n_lane = n_software = n_timed = n_left = 0;
}

Test(lane_cost, ten_percent_or_half)
{
    struct lane_sample lane = {.time = {1099, 1099}, .n_bytes = 64 * KIB},
                       software = {.time = {2000, 2000}, .n_bytes = 128 * KIB};

    cr_assert_not(lane_cost_loses(&lane, &software));
    lane.time.wall_ns = 1101;
    cr_assert(lane_cost_loses(&lane, &software));
    lane.time.cpu_ns = 501;
    cr_assert(lane_cost_loses(&lane, &software));
    lane.time.cpu_ns = 499; // it saves half of the CPU
    cr_assert_not(lane_cost_loses(&lane, &software));
    lane.time.wall_ns = 1499;
    cr_assert_not(lane_cost_loses(&lane, &software));
    lane.time.wall_ns = 1501;
    cr_assert(lane_cost_loses(&lane, &software));
    software.n_bytes = 16 * KIB; // too little to know
    cr_assert_not(lane_cost_loses(&lane, &software));
    software = (struct lane_sample){.n_bytes = 0};
    cr_assert_not(lane_cost_loses(&lane, &software));
}

// Waiting is no work: a lane that waits a little longer than software works is kept.
Test(lane_cost, a_lane_that_saves_the_cpu_is_kept)
{
    start(1400, 1000);
    lane_cpu_ns = 100;
    calls(true, 200 * MIB, N);
    cr_assert_eq(n_left, 0);
    lane_ns = 1600;
    calls(true, 50 * MIB, N);
    cr_assert_eq(n_left, 1);
}

// A lane that wins is timed for one MiB in 17 and is never left; software is not tried again.
Test(lane_cost, a_good_lane_is_kept)
{
    start(1000, 1050);
    calls(true, 1024 * MIB, N);
    cr_assert_eq(n_left, 0);
    cr_assert_eq(n_software, 0);
    cr_assert_leq(n_timed, 62 * MIB);
    cr_assert_geq(n_timed, 55 * MIB);
}

Test(lane_cost, a_bad_lane_is_left_soon_and_tried_ever_more_rarely)
{
    start(1200, 1000);
    calls(true, 6 * MIB, N);
    cr_assert_eq(n_left, 1);
    cr_assert_lt(n_lane, 5 * MIB);
    calls(true, 64 * MIB, N);
    cr_assert(lane_cost_allows(&cost));
    calls(true, 1000 * MIB, N);
    cr_assert_eq(n_left, 3); // away for 64, 256 and 1024 MiB
    calls(true, 6000 * MIB, N);
    cr_assert_eq(n_left, 5);
    cr_assert_leq(n_lane, 21 * MIB);
    cr_assert_lt(n_timed, 25 * MIB);
}

Test(lane_cost, the_time_away_has_an_end)
{
    start(1200, 1000);
    for (int i = 0; i < 12; i++) {
        uint64_t left = n_left;
        for (uint64_t n = 0; n_left == left; n += N) {
            cr_assert_lt(n, 17 * 1024 * MIB);
            call(true, N);
        }
    }
    cr_assert_eq(n_left, 12);
}

// The first judgement was of another day: software is slow now too.
Test(lane_cost, software_is_timed_afresh)
{
    start(3000, 1000);
    software_ns = 3000;
    calls(true, 200 * MIB, N);
    cr_assert_eq(n_left, 0);
    cr_assert_eq(n_software, 512 * KIB);
}

Test(lane_cost, one_loss_is_forgiven)
{
    start(3000, 1000);
    while (cost.n_losses == 0)
        call(true, N);
    lane_ns = lane_cpu_ns = 900;
    calls(true, 200 * MIB, N);
    cr_assert_eq(n_left, 0);
    cr_assert_eq(cost.n_losses, 0);
}

// Without a reference from the beginning nothing is judged, or timed.
Test(lane_cost, a_lane_from_the_first_byte)
{
    lane_ns = 3000;
    software_ns = 1000;
    calls(true, 100 * MIB, N);
    cr_assert_eq(n_left + n_software + n_timed, 0);
}

Test(lane_cost, small_calls_are_never_timed)
{
    calls(false, 128 * KIB, 4095);
    calls(true, 100 * MIB, 4095);
    cr_assert_eq(n_timed, 0);
    // Nor do they keep a stream in software that was to be timed there.
    cost = (struct lane_cost){.phase = LANE_PHASE_START};
    start(1200, 1000);
    while (cost.phase != LANE_PHASE_SOFTWARE)
        call(true, N);
    calls(true, 3 * MIB, 1000);
    cr_assert(lane_cost_allows(&cost));
}

// ---------------------------------------------------------------- dear lanes

Test(lane_cost, a_dear_lane_must_gain)
{
    struct lane_sample lane = {.time = {100, 100}, .n_bytes = 64 * KIB},
                       between = {.time = {1900, 1000}, .n_bytes = 64 * KIB},
                       software = {.time = {1299, 1299}, .n_bytes = 64 * KIB};

    cr_assert_not(lane_cost_pays(&lane, &between, &software)); // 2299 for 2000
    software.time.cpu_ns = 1301;
    cr_assert(lane_cost_pays(&lane, &between, &software));
    software.n_bytes *= 2;
    cr_assert_not(lane_cost_pays(&lane, &between, &software));
    struct lane_sample none = {.n_bytes = 0};
    cr_assert(lane_cost_pays(&none, &between, &software));
    cr_assert(lane_cost_pays(&lane, &none, &software));
    cr_assert(lane_cost_pays(&lane, &between, &none));
}

// The peer, or the network, is the slower one: software would do.
Test(lane_cost, a_dear_lane_of_a_session_that_waits_is_left)
{
    cost.is_dear = true;
    between_ns = 2000;
    between_cpu_ns = 500;
    start(100, 1000); // 1500 of 2100 would be work
    calls(true, 19 * MIB, N);
    cr_assert_eq(n_left, 1);
    cr_assert_leq(n_lane, 18 * MIB + 2 * N);
    calls(true, 1000 * MIB, N); // away for 64, 256 and 1024 MiB
    cr_assert_eq(n_left, 3);
    cr_assert_leq(n_lane, 3 * (18 * MIB + 2 * N));
}

Test(lane_cost, a_dear_lane_of_a_session_that_is_short_of_cpu_is_kept)
{
    cost.is_dear = true;
    between_ns = 600;
    between_cpu_ns = 500;
    start(100, 1000); // 1500, of 700
    calls(true, 1000 * MIB, N);
    cr_assert_eq(n_left, 0);
    cr_assert_eq(n_software, 0);
}

// It comes back when there is more to do.
Test(lane_cost, a_dear_lane_is_tried_again)
{
    cost.is_dear = true;
    between_ns = 2000;
    between_cpu_ns = 500;
    start(100, 1000);
    calls(true, 19 * MIB, N);
    cr_assert_eq(n_left, 1);
    between_ns = 600;
    calls(true, 1000 * MIB, N);
    cr_assert_eq(n_left, 1);
    cr_assert_eq(n_software, 64 * MIB);
}

// Pauses of a program that has nothing to send are not counted.
Test(lane_cost, a_pause_is_not_idle)
{
    cost.is_dear = true;
    between_ns = 600;
    between_cpu_ns = 500;
    start(100, 1000);
    for (int i = 0; i < 1000; i++) {
        calls(true, 256 * KIB, N);
        now.wall_ns += 300000000;
    }
    cr_assert_eq(n_left, 0);
    for (int i = 0; n_left == 0; i++) {
        cr_assert_lt(i, 200);
        calls(true, 256 * KIB, N);
        now.wall_ns += 200000000;
    }
}

// A lane that costs the machine less is kept, however little its session has to do.
Test(lane_cost, a_cheap_lane_of_a_session_that_waits_is_kept)
{
    between_ns = 20000;
    between_cpu_ns = 500;
    start(100, 1000);
    calls(true, 1000 * MIB, N);
    cr_assert_eq(n_left, 0);
}
