// SPDX-License-Identifier: MIT
// One client: its connection, its state, and everything that was made for it. It owns its
// descriptor; closing it gives back all of that, here and in the engine.
//
//      NEW --HELLO--> ASKED --the engine's answer--> OPEN
//       |               |                             |
//       +---------------+------- client_close() ------+--> freed, or GONE until the engine has
//       answered
//
// A client that is GONE has no descriptor any more but keeps its charge: otherwise connecting,
// asking and leaving at once would pile up work in the engine without ever meeting a limit.
#ifndef CRYPTOD_FRONT_CLIENT_H
#define CRYPTOD_FRONT_CLIENT_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "access.h"
#include "account.h"
#include "message.h"
#include "report.h"
#include "shm.h"
#include "verdict.h"

struct front;

enum client_state { // bits, so that a table can name several
    CLIENT_NEW = 1,
    CLIENT_ASKED = 2,
    CLIENT_OPEN = 4,
    CLIENT_GONE = 8,
};

enum client_stream_state {
    CLIENT_STREAM_CLOSED,
    CLIENT_STREAM_OPENING,
    CLIENT_STREAM_OPEN,
    CLIENT_STREAM_REFUSED, // as CLOSED, but the client may send CLOSE: it may not have read the
                           // refusal yet
};

struct client_stream {
    enum client_stream_state state;
    uint64_t serial; // of the relay, of the latest ENGINE_OPEN
};

struct client_pending {     // an ENGINE_OPEN without its answer
    uint64_t serial;        // of the relay
    uint64_t client_serial; // of the STREAM_OPEN
    uint32_t stream;
};

struct client_calibrate {  // zeroed: it has not asked
    uint64_t serial;       // the client's
    uint64_t relay_serial; // of ENGINE_CALIBRATE
};

struct client {
    LIST_ENTRY(client) link;
    struct front *front;
    int fd;
    enum client_state state;
    struct access_peer peer;
    struct account_charge charge;
    uint32_t refusal;        // enum message_reason: OK, or whatever it asks for is refused so
    const char *over_limit;  // the key of the limit that was in its way last; NULL: none
    struct event read_event; // its timeout is the patience with a silent client that has no channel
    struct event write_event; // pending while rows of a report wait for room in the socket
    struct report_answer answer;
    struct client_calibrate calibrate;

    uint32_t channel; // number; 0: none asked for
    uint32_t version; // agreed
    uint32_t n_streams;
    uint64_t hello_serial;               // the client's
    uint64_t add_serial;                 // the relay's, of CHANNEL_ADD; 0: answered
    int64_t opened_s;                    // CLOCK_MONOTONIC
    struct message_engine_channel usage; // as the engine reported last
    struct client_stream streams[SHM_STREAMS_MAX];
    struct client_pending pending[SHM_STREAMS_MAX];
    uint32_t n_pending;
};

LIST_HEAD(client_list, client);

// Takes fd, a connected non-blocking socket, and serves it from now on. A refusal closes fd. 0 or a
// negative errno.
int client_new(struct front *front, int fd);

// Ends the connection and gives everything back. *client must not be used afterwards.
void client_close(struct client *client);

// Frees a client that is gone once the engine has answered everything; does nothing otherwise.
void client_settle(struct client *client);

// The client whose channel has that number, gone or not; NULL if there is none.
struct client *client_find_channel(struct front *front, uint32_t channel);

// Charges it for n of a kind. 0 or a negative errno, and over_limit says why.
int client_charge(struct client *client, enum account_kind kind, uint64_t n);

// Sends one message at once. 0 or a negative errno: the client is dead, or does not read its
// answers (-EAGAIN); the caller then closes it.
int client_send(struct client *client, const struct message *m);

// Logs and counts a broken rule. The reason must not contain bytes that the client chose, numbers
// apart.
enum verdict client_violation(struct client *client, const char *reason, ...)
    __attribute__((format(printf, 2, 3)));

// Starts or stops waiting for room in the socket.
int client_want_write(struct client *client, bool on);

// A client that has a channel may be silent for ever; one without may not.
void client_be_patient(struct client *client);

// It has been waited with for another reason, which has gone.
void client_be_impatient(struct client *client);

#endif
