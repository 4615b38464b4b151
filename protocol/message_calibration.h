// SPDX-License-Identifier: MIT
// The part of the messages that is about calibration: what each lane costs on this machine. Part of
// message.h; knows nothing of how it is measured.
#ifndef CRYPTOD_PROTOCOL_MESSAGE_CALIBRATION_H
#define CRYPTOD_PROTOCOL_MESSAGE_CALIBRATION_H

#include <stdint.h>

struct message_calibrate { // CALIBRATE, ENGINE_CALIBRATE
    uint32_t measure;      // 1: measure anew, then tell; 0: tell what is in use
};

struct message_calibration_progress {
    uint32_t done;
    uint32_t total;
};

// What is measured: one operation of each of these sizes.
#define MESSAGE_SIZES      8u
#define MESSAGE_SIZE_AT(i) (16u << (2u * (i))) // 16 B, 64 B, 256 B, 1 KiB, .. 256 KiB

enum message_cost {
    MESSAGE_COST_SOFTWARE,  // OpenSSL in the process
    MESSAGE_COST_REQUEST,   // the request lane, as the session waits for it
    MESSAGE_COST_KEYSTREAM, // keystream, made by the backend
    MESSAGE_COST_TAKE,      // the session's part of the keystream lane: XOR and wipe
    MESSAGE_COST_COUNT,
};

#define MESSAGE_NOT_MEASURED UINT64_MAX

struct message_costs {
    uint64_t ns[MESSAGE_SIZES];     // from beginning to end, or MESSAGE_NOT_MEASURED
    uint64_t cpu_ns[MESSAGE_SIZES]; // of this machine's CPUs in it, or MESSAGE_NOT_MEASURED
};

struct message_calibration { // one row per (algorithm, backend)
    uint32_t algorithm;
    uint32_t state;       // enum message_state; monitor <-> engine: 0
    uint32_t lanes;       // bits, as offered; monitor <-> engine: 0
    uint32_t request_min; // bytes, as offered; monitor <-> engine: 0
    uint64_t wake_ns;     // a bell's way to the other side and back; in costs[REQUEST] too
    uint64_t wake_cpu_ns; // of both sides
    struct message_costs costs[MESSAGE_COST_COUNT];
    char backend[16];
    char driver[64];
    char text[128]; // why it is in this state; monitor <-> engine: empty
};

struct message_calibration_end {
    uint32_t reason; // enum message_reason
};

struct message_calibration_key {
    uint32_t cpus; // online
    uint32_t reserved;
    char kernel[160]; // release and version
    char cpu[160];    // model
    char openssl[160];
    char capabilities[160]; // what OpenSSL was told about the CPU; empty: nothing
};

#endif
