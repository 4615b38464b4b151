// SPDX-License-Identifier: MIT
// A calibration as the text of a file, and back. Pure: knows no file, no process.
#ifndef CRYPTOD_DAEMON_CALIBRATION_FILE_H
#define CRYPTOD_DAEMON_CALIBRATION_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "message.h"

#define CALIBRATION_ROWS_MAX 64u
#define CALIBRATION_TEXT_MAX 131072u // bytes that are enough for any calibration

struct calibration_table {
    struct message_calibration_key key;
    uint32_t n_rows; // 0: there is none
    struct message_calibration rows[CALIBRATION_ROWS_MAX];
};

// Whether the texts of a key or a row can be kept: printable, without what begins a comment, short
// enough for a line, no two blanks at their ends.
bool calibration_file_takes_key(const struct message_calibration_key *key);
bool calibration_file_takes_row(const struct message_calibration *row);

// The text (CALIBRATION_TEXT_MAX bytes of room) and its length. 0; -EINVAL: something that cannot
// be kept; or -ENOMEM.
int calibration_file_print(const struct calibration_table *table, char *ret_text, size_t *ret_n);

// n bytes of a text that ends with a zero byte. 0; -EBADMSG with *ret untouched: it is not what
// calibration_file_print() makes, in whatever way; or -ENOMEM.
int calibration_file_parse(const char *text, size_t n, struct calibration_table *ret);

#endif
