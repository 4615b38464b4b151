// SPDX-License-Identifier: MIT
// CALIBRATE: whether the client may ask for it, and the way to the engine and back. The engine
// decides who is first; here is only kept who waits for which answer.
#ifndef CRYPTOD_FRONT_CALIBRATE_H
#define CRYPTOD_FRONT_CALIBRATE_H

#include "client.h"

enum verdict calibrate_handle(struct client *client, const struct message *m,
                              int fds[MESSAGE_FDS_MAX]);

// The engine's CALIBRATION_PROGRESS, CALIBRATION and CALIBRATION_END. Of a client that is gone they
// are dropped.
void calibrate_on_message(struct front *front, const struct message *m);

#endif
