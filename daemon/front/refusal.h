// SPDX-License-Identifier: MIT
// What is said to clients that are not served, so that they know why and go on in software.
// Guarantees: nothing that such a client passes comes into this process, and it is never waited
// for.
#ifndef CRYPTOD_FRONT_REFUSAL_H
#define CRYPTOD_FRONT_REFUSAL_H

#include <stdint.h>

#include "message.h"
#include "verdict.h"

struct client;

// Receives one message of a client that has no use for descriptors. As packet_recv(), without them:
// with read() the kernel drops what is sent, and neither the descriptors nor what close() of them
// may cost (a file system's flush) come into this process.
int refusal_read(int fd, struct message *ret);

// Counts and logs it, with the limit that stood in the way if it was one.
void refusal_note(struct client *client, uint32_t reason);

// Answers a question with the reason alone. A client that does not read loses it.
void refusal_send(struct client *client, const struct message *question, uint32_t reason);

// Whatever a client asks for whose refusal is set; it is closed then.
enum verdict refusal_answer(struct client *client, const struct message *question);

// For a client that is closed before anything of it was looked at: the answer to what it has asked
// if that is here already, else a HELLO_REPLY that answers nothing (serial 0). Sets its refusal.
void refusal_part(struct client *client, uint32_t reason);

#endif
