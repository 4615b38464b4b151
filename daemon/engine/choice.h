// SPDX-License-Identifier: MIT
// Which lanes gain, and from which size on, given what each costs. Pure: knows no clock, no
// backend, no row.
#ifndef CRYPTOD_DAEMON_CHOICE_H
#define CRYPTOD_DAEMON_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "measure.h"

#define CHOICE_REQUEST_MIN 256u // bytes: measurements of smaller requests are not believed

struct choice_machine {
    uint32_t n_cpus;
    bool hardware;        // the backend is an engine, not this machine's CPU
    bool no_requests;     // the backend is OpenSSL, which the session has as well
    uint32_t request_min; // bytes: no request is smaller; 0: whatever gains
};

struct choice {
    uint32_t lanes;       // MESSAGE_LANE_* bits, MESSAGE_OFFER_KEYSTREAM_DEAR; 0: software
    uint32_t request_min; // bytes from which on a request gains; 0 without that lane
};

// Rules:
// - What was not measured does not gain; without the figures of 64 KiB nothing does.
// - A lane that costs this machine more CPU time in all must gain 5 % of the session's time; one
//   that costs a tenth less must only not lose.
// - Requests must win at each size from request_min up. It lies where the straight lines between
//   the measured sizes cross.
// - Keystream is made while the session does other things, so only its own part counts - taking
//   it, and its side of a wake-up, which it may have to pay for each 64 KiB - and that what it
//   waits for is not slower: than software with this machine's CPUs (a tenth for the
//   measurement), than half of software with an engine. If it costs more CPU time in all it must
//   halve the session's, and is marked as dear: whether a stream gains by that depends on what else
//   its process and its peer have to do, which only the session can see. On one CPU nothing happens
//   meanwhile.
struct choice choice_make(const struct measure_table *table, const struct choice_machine *machine);

#endif
