// SPDX-License-Identifier: MIT
// STATUS: asks the engine once for all clients that wait, makes one snapshot of its answer and of
// the front's own counts, and sends each client the rows that it may see.
//
//      clients --STATUS--> ENGINE_STATUS .. END
//              --> SUMMARY, ALGORITHM.., END; for admins CHANNEL.., NOTE.., USER.. before END
//
// At most one ENGINE_STATUS is under way, however many ask. An engine that does not answer in time
// is reported as such. A client that reads slowly is sent its rows as room comes, for a bounded
// time.
#ifndef CRYPTOD_FRONT_REPORT_H
#define CRYPTOD_FRONT_REPORT_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>

#include "message.h"
#include "verdict.h"

#define REPORT_ALGORITHMS_MAX 32u // rows of the engine: algorithms times backends
#define REPORT_NOTES_MAX      8u  // topics

struct client;
struct front;
struct report_snapshot;

struct report {      // the round under way
    uint64_t round;  // number of the latest round begun
    uint64_t serial; // of its ENGINE_STATUS; 0: none is under way
    bool late;       // it was not answered in time, and is not yet
    struct event timer;
    struct message_engine_summary summary; // what the engine said last
    uint32_t n_algorithms;
    struct message_status_algorithm algorithms[REPORT_ALGORITHMS_MAX];
    uint32_t n_notes; // of all times: the latest of each topic
    struct message_status_note notes[REPORT_NOTES_MAX];
};

struct report_answer { // one client's; zeroed: it has not asked
    bool asked;
    uint64_t serial;                  // the client's
    uint64_t round;                   // the first that began after it asked
    struct report_snapshot *snapshot; // counted reference; NULL: waits for the round
    uint32_t row;                     // the next to send
};

int report_init(struct report *report, struct front *front);
void report_fini(struct report *report);

enum verdict report_handle_status(struct client *client, const struct message *m,
                                  int fds[MESSAGE_FDS_MAX]);

// Sends as many rows as fit now. 0 or a negative errno: the caller closes the client.
int report_flush(struct client *client);

// What the client asked for is not wanted any more.
void report_forget(struct client *client);

// What front says of itself to admins. A topic's earlier text is replaced.
void report_set_note(struct report *report, const char *topic, const char *text);

// A note of the engine or the monitor; what finds no room is dropped.
void report_on_note(struct front *front, const struct message *m);

// The engine's rows, and its END.
void report_on_summary(struct front *front, const struct message *m);
void report_on_algorithm(struct front *front, const struct message *m);
void report_on_channel(struct front *front, const struct message *m);
void report_on_end(struct front *front, const struct message *m);

#endif
