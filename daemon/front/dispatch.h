// SPDX-License-Identifier: MIT
// Which message of a client is allowed in which state, and who handles it: one table.
#ifndef CRYPTOD_FRONT_DISPATCH_H
#define CRYPTOD_FRONT_DISPATCH_H

#include "client.h"

// Receives and handles what the client has sent, a bounded number of messages. VERDICT_CLOSE: the
// caller closes it.
enum verdict dispatch_receive(struct client *client);

#endif
