// SPDX-License-Identifier: MIT
// Whether a stream's lane is worth staying in: the time that a byte takes in it, against what
// software takes in the same process on the same machine.
//
// Pure: it is told what was done and how long that took. It asks for the clock rarely: for the
// larger calls of about one MiB in 16 (of a dear lane, eight in 24), never for small ones.
//
//      START --lane open--> RIDE --1 or 16 MiB--> LANE --1 MiB timed, seems to lose--> SOFTWARE
//                            ^                     | wins, or does not pay once         |
//                            |<--------------------|                  wins, or loses    |
//                            |<--------------------|--------------------- once ---------|
//                            |                     | does not pay again                 |
//                            `------ AWAY <--------'------------------ loses again -----'
//
// Software is timed afresh, in the phase of that name, before it is believed to be the faster one:
// the machine may have more to do now than it had then. A stream whose first calls told nothing of
// software, or that had its lane from the first byte on, is not judged.
//
// A lane may also be dear: this machine spends more CPU time on it than software would. That pays
// for a session that is short of its own CPU, and for nobody else: a session that would keep up
// with its peer in software too "idles". To see that, 8 MiB at a time are timed, and what lies
// between their calls.
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

// From and to when a call was at work, by both clocks.
struct lane_span {
    struct lane_time began;
    struct lane_time ended;
};

struct lane_sample {
    struct lane_time time;
    uint64_t n_bytes;
};

struct lane_cost {
    struct lane_sample lane;
    struct lane_sample software;
    struct lane_sample between; // the timed calls of the lane; of their bytes
    struct lane_time ended;     // the last timed call of this phase
    uint64_t n_bytes;           // in this phase
    uint8_t phase;              // enum lane_phase
    uint8_t n_losses;           // in a row
    uint8_t n_left;             // times that the lane was left
    bool is_dear; // whether the lane is, as the daemon said before the last timed call
};

// Whether the lane may be used just now.
bool lane_cost_allows(const struct lane_cost *cost);

// Whether a call of n_bytes shall be timed. is_young: the stream has not earned its lane yet.
bool lane_cost_wants_clock(const struct lane_cost *cost, bool is_young, uint64_t n_bytes);

// What was done: with the lane open (is_open) or in software; span: NULL if it was not timed.
// true: the lane is to be left now.
bool lane_cost_note(struct lane_cost *cost, bool is_open, uint64_t n_bytes,
                    const struct lane_span *span);

// Whether the lane takes at least 10 % longer than software; one that saves half of the process's
// CPU time, 50 %: the CPU that is saved does other work meanwhile, the process's own too, which
// software would keep from it. false if one is not known.
bool lane_cost_loses(const struct lane_sample *lane, const struct lane_sample *software);

// Whether a dear lane is worth its price: the CPU time that the thread would take with software in
// place of the lane, and with what lies between the calls, is over 115 % of the time that passed.
// (5 % is the gain that is asked for; the rest is what the lane's traffic costs other work, which
// software would not.) true if one is not known.
bool lane_cost_pays(const struct lane_sample *lane, const struct lane_sample *between,
                    const struct lane_sample *software);

#endif
