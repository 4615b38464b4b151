// SPDX-License-Identifier: MIT
// Whether a stream's lane is worth staying in: the time that a byte takes in it, against what
// software takes in the same process on the same machine.
//
// Pure: it is told what was done and how long that took. It asks for the clock rarely: for the
// larger calls of about one MiB in 16, never for small ones.
//
//      START --lane open--> RIDE --1 or 16 MiB--> LANE --1 MiB timed, seems to lose--> SOFTWARE
//                            ^                     | wins                               |
//                            |<--------------------'                  wins, or loses    |
//                            |<------------------------------------------ once ---------|
//                            `------ AWAY <-------------------------- loses again ------'
//
// Software is timed afresh, in the phase of that name, before it is believed to be the faster one:
// the machine may have more to do now than it had then. A stream whose first calls told nothing of
// software, or that had its lane from the first byte on, is not judged.
#ifndef CRYPTOD_CLIENT_LANE_COST_H
#define CRYPTOD_CLIENT_LANE_COST_H

#include <stdbool.h>
#include <stdint.h>

enum lane_phase {
    LANE_PHASE_START, // software, until the lane is open
    LANE_PHASE_RIDE,  // the lane, without a clock
    LANE_PHASE_LANE,  // the lane, timed
    LANE_PHASE_SOFTWARE,
    LANE_PHASE_AWAY, // software, because the lane lost
};

struct lane_time {
    uint64_t wall_ns; // waiting included
    uint64_t cpu_ns;  // of the thread
};

struct lane_sample {
    struct lane_time time;
    uint64_t n_bytes;
};

struct lane_cost {
    struct lane_sample lane;
    struct lane_sample software;
    uint64_t n_bytes; // in this phase
    uint8_t phase;    // enum lane_phase
    uint8_t n_losses; // in a row
    uint8_t n_left;   // times that the lane was left
};

// Whether the lane may be used just now.
bool lane_cost_allows(const struct lane_cost *cost);

// Whether a call of n_bytes shall be timed. is_young: the stream has not earned its lane yet.
bool lane_cost_wants_clock(const struct lane_cost *cost, bool is_young, uint64_t n_bytes);

// What was done: with the lane open (is_open) or in software; took: NULL if it was not timed.
// true: the lane is to be left now.
bool lane_cost_note(struct lane_cost *cost, bool is_open, uint64_t n_bytes,
                    const struct lane_time *took);

// Whether the lane takes at least 10 % longer than software; one that saves half of the process's
// CPU time, 50 %: the CPU that is saved does other work meanwhile, the process's own too, which
// software would keep from it. false if one is not known.
bool lane_cost_loses(const struct lane_sample *lane, const struct lane_sample *software);

#endif
