// SPDX-License-Identifier: MIT
// The running cost of a lane. See lane_cost.h.
#include "lane_cost.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

#define N_CALL_LEAST (4 * KIB) // smaller calls are not worth a look at the clock

#define N_RIDE       (16 * MIB)
#define N_RIDE_DOUBT (1 * MIB) // a new lane, or one that has lost once
#define N_LANE       (1 * MIB)
#define N_LANE_DEAR  (8 * MIB) // a peer's buffers, which are filled and emptied in bursts, are less
#define N_SOFTWARE   (512 * KIB)
#define N_KNOWN      (32 * KIB) // less says nothing

#define N_SOFTWARE_MOST (2 * MIB) // without calls that can be timed
#define N_AWAY          (64 * MIB)
#define AWAY_SHIFT_MOST 8u // four times as long each time, up to 16 GiB
#define LOSSES_MOST     2u

// From here on the program had nothing to do, which says nothing of its speed.
#define PAUSE_NS UINT64_C(250000000)

static void sample_add(struct lane_sample *sample, uint64_t n_bytes, const struct lane_time *from,
                       const struct lane_time *to)
{
    sample->time.wall_ns += to->wall_ns - from->wall_ns;
    sample->time.cpu_ns += to->cpu_ns - from->cpu_ns;
    sample->n_bytes += n_bytes;
}

static void sample_call(struct lane_sample *sample, uint64_t n_bytes, const struct lane_span *span)
{
    if (span)
        sample_add(sample, n_bytes, &span->began, &span->ended);
}

// A call in the lane, and what lies between the last one and this.
static void cost_add_lane(struct lane_cost *cost, uint64_t n_bytes, const struct lane_span *span)
{
    if (!span)
        return;
    if (cost->ended.wall_ns != 0 && span->began.wall_ns - cost->ended.wall_ns < PAUSE_NS)
        sample_add(&cost->between, n_bytes, &cost->ended, &span->began);
    sample_call(&cost->lane, n_bytes, span);
    cost->ended = span->ended;
}

bool lane_cost_loses(const struct lane_sample *lane, const struct lane_sample *software)
{
    if (lane->n_bytes < N_KNOWN || software->n_bytes < N_KNOWN)
        return false;
    double wall = (double)lane->time.wall_ns / (double)lane->n_bytes,
           cpu = (double)lane->time.cpu_ns / (double)lane->n_bytes,
           software_wall = (double)software->time.wall_ns / (double)software->n_bytes,
           software_cpu = (double)software->time.cpu_ns / (double)software->n_bytes;
    return wall >= software_wall * (cpu <= software_cpu / 2 ? 1.5 : 1.1);
}

bool lane_cost_pays(const struct lane_sample *lane, const struct lane_sample *between,
                    const struct lane_sample *software)
{
    if (lane->n_bytes < N_KNOWN || between->n_bytes < N_KNOWN || software->n_bytes < N_KNOWN)
        return true;
    double wall = (double)lane->time.wall_ns / (double)lane->n_bytes +
                  (double)between->time.wall_ns / (double)between->n_bytes,
           cpu = (double)software->time.cpu_ns / (double)software->n_bytes +
                 (double)between->time.cpu_ns / (double)between->n_bytes;
    return cpu > wall * 1.15;
}

bool lane_cost_allows(const struct lane_cost *cost)
{
    return cost->phase != LANE_PHASE_SOFTWARE && cost->phase != LANE_PHASE_AWAY;
}

bool lane_cost_wants_clock(const struct lane_cost *cost, bool is_young, uint64_t n_bytes)
{
    if (n_bytes < N_CALL_LEAST)
        return false;
    switch (cost->phase) {
    case LANE_PHASE_START: // the first call finds everything cold
        return is_young && cost->n_bytes > 0 && cost->software.n_bytes < N_SOFTWARE;
    case LANE_PHASE_LANE:
    case LANE_PHASE_SOFTWARE:
        return true;
    default:
        return false;
    }
}

static void cost_enter(struct lane_cost *cost, enum lane_phase phase)
{
    cost->phase = (uint8_t)phase;
    cost->n_bytes = 0;
    if (phase == LANE_PHASE_LANE) {
        cost->lane = cost->between = (struct lane_sample){.n_bytes = 0};
        cost->ended = (struct lane_time){.wall_ns = 0};
    }
    if (phase == LANE_PHASE_SOFTWARE)
        cost->software = (struct lane_sample){.n_bytes = 0};
}

static uint64_t cost_away(const struct lane_cost *cost)
{
    unsigned shift = 2u * (cost->n_left - 1u);

    return N_AWAY << (shift < AWAY_SHIFT_MOST ? shift : AWAY_SHIFT_MOST);
}

// A lane that has not been timed since it was opened, or has lost once, is looked at soon.
static uint64_t cost_ride(const struct lane_cost *cost)
{
    return cost->lane.n_bytes == 0 || cost->n_losses > 0 ? N_RIDE_DOUBT : N_RIDE;
}

// true: away.
static bool cost_judge(struct lane_cost *cost, bool loses)
{
    if (!loses) {
        cost->n_losses = 0;
    } else if (++cost->n_losses >= LOSSES_MOST) {
        cost->n_losses = 0;
        if (cost->n_left < UINT8_MAX)
            cost->n_left++;
        cost_enter(cost, LANE_PHASE_AWAY);
        return true;
    }
    cost_enter(cost, LANE_PHASE_RIDE);
    return false;
}

// Enough of the lane was timed.
static bool cost_judge_lane(struct lane_cost *cost)
{
    if (lane_cost_loses(&cost->lane, &cost->software)) {
        cost_enter(cost, LANE_PHASE_SOFTWARE);
        return false;
    }
    return cost_judge(cost, cost->is_dear &&
                                !lane_cost_pays(&cost->lane, &cost->between, &cost->software));
}

bool lane_cost_note(struct lane_cost *cost, bool is_open, uint64_t n_bytes,
                    const struct lane_span *span)
{
    cost->n_bytes += n_bytes;
    switch (cost->phase) {
    case LANE_PHASE_START:
        if (is_open)
            cost_enter(cost, LANE_PHASE_RIDE);
        else
            sample_call(&cost->software, n_bytes, span);
        return false;
    case LANE_PHASE_RIDE:
        if (cost->software.n_bytes >= N_KNOWN && cost->n_bytes >= cost_ride(cost))
            cost_enter(cost, LANE_PHASE_LANE);
        return false;
    case LANE_PHASE_LANE:
        if (is_open)
            cost_add_lane(cost, n_bytes, span);
        return cost->lane.n_bytes >= (cost->is_dear ? N_LANE_DEAR : N_LANE) &&
               cost_judge_lane(cost);
    case LANE_PHASE_SOFTWARE:
        sample_call(&cost->software, n_bytes, span);
        return (cost->software.n_bytes >= N_SOFTWARE || cost->n_bytes >= N_SOFTWARE_MOST) &&
               cost_judge(cost, lane_cost_loses(&cost->lane, &cost->software));
    default: // LANE_PHASE_AWAY
        if (cost->n_bytes >= cost_away(cost)) {
            cost->lane = (struct lane_sample){.n_bytes = 0};
            cost_enter(cost, LANE_PHASE_RIDE);
        }
        return false;
    }
}
