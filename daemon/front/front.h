// SPDX-License-Identifier: MIT
// The front as one object, made from descriptors that somebody else opened: front_main() gives it
// those of the monitor, tests give it socketpairs. The files of this folder share its fields;
// nobody else looks inside.
#ifndef CRYPTOD_FRONT_FRONT_H
#define CRYPTOD_FRONT_FRONT_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/queue.h>

#include "acceptor.h"
#include "account.h"
#include "client.h"
#include "complaint.h"
#include "message.h"
#include "rate.h"
#include "relay.h"
#include "report.h"

struct front {
    struct message_role_config config; // as sent last
    struct event_base *base;
    int monitor_fd; // owned
    struct event monitor_event;
    struct acceptor acceptor;
    struct relay relay;
    struct report report;
    struct account *account;
    struct rate rate; // of connects
    struct complaint complaint;
    struct client_list clients; // those that are gone but still expect answers of the engine too
    struct message_offer offers[ALGORITHM_COUNT];
    uint64_t fd_limit; // RLIMIT_NOFILE at the start
    uint32_t n_fds;    // of clients
    bool ready;
    int exit_status;
    uint32_t last_channel;
    uint32_t n_calibrates; // ENGINE_CALIBRATEs without their END
    uint64_t channels_total;
    uint64_t streams_total;
    uint64_t refused_total;
    uint64_t violations_total;
    char kernel[64]; // uname -r
};

// Takes all three descriptors, on failure too. engine_fd: -1 in software-only mode; listener_fd: -1
// for tests that bring their clients with client_new(). Makes every descriptor that will be needed
// besides clients' own: nothing is opened later. 0 or a negative errno; front_fini() must follow in
// either case.
int front_init(struct front *front, const struct message_role_config *config, int monitor_fd,
               int engine_fd, int listener_fd);
void front_fini(struct front *front);

// Serves until the monitor or the engine is gone; returns the exit status.
int front_run(struct front *front);

// Leaves the loop after the current event.
void front_stop(struct front *front, int exit_status);

// New offers of the engine; the first ones make the front ready.
void front_on_offer(struct front *front, const struct message_engine_offer *offer);

// Whether another client would leave too few descriptors for what the clients that are here may
// pass.
bool front_is_short_of_fds(const struct front *front);

// The limit of streams of one channel, and of slots, whatever the configuration says.
uint32_t front_streams_per_channel(const struct front *front);
uint32_t front_slots_per_channel(const struct front *front);

#endif
