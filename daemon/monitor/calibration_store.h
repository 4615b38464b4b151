// SPDX-License-Identifier: MIT
// Keeps the engine's calibration from one engine to the next, and on disk from one start to the
// next. The engine has no file system. Knows nothing of what is measured.
#ifndef CRYPTOD_DAEMON_CALIBRATION_STORE_H
#define CRYPTOD_DAEMON_CALIBRATION_STORE_H

#include "calibration_file.h"

#define CALIBRATION_STORE_NAME "calibration" // in the state directory

struct calibration_store;

// Reads what is in the directory (the path stays the caller's). Nothing there, something damaged,
// or no such directory means that nothing is kept: one line in the log, at most. 0 or -ENOMEM.
int calibration_store_new(const char *directory, struct calibration_store **ret);
void calibration_store_free(struct calibration_store *store); // NULL is allowed

// What is kept, as messages for an engine: how many, and the i-th of them; 0: nothing is kept.
uint32_t calibration_store_count_messages(const struct calibration_store *store);
void calibration_store_get_message(const struct calibration_store *store, uint32_t i,
                                   struct message *ret);

// A message of the engine: CALIBRATION_KEY begins a table, CALIBRATION_END completes it, and then
// it is written (temporary file, fsync, rename; mode 0600). A file that cannot be written costs one
// line in the log. 0; -EBADMSG: none of these, or not in this order.
int calibration_store_take(struct calibration_store *store, const struct message *m);

#endif
