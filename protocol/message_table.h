// SPDX-License-Identifier: MIT
// The table behind the message codec, private to protocol/: the fields of each message, in wire
// order.
#ifndef CRYPTOD_PROTOCOL_MESSAGE_TABLE_H
#define CRYPTOD_PROTOCOL_MESSAGE_TABLE_H

#include "message.h"

enum message_kind {
    MESSAGE_KIND_U32,
    MESSAGE_KIND_U64,
    MESSAGE_KIND_TEXT, // char array: terminated, zero after the terminator
    MESSAGE_KIND_ZERO, // u32, always zero
};

struct message_field {
    uint16_t offset;  // in the struct of the message
    uint16_t n_bytes; // in the struct and on the wire; arrays are one field
    enum message_kind kind;
};

struct message_row {
    uint32_t type;
    struct message_info info;
    size_t n_struct; // sizeof the struct that the fields are in
    const struct message_field *fields;
    size_t n_fields;
};

// The row of a type (any number), or NULL.
const struct message_row *message_row_get(uint32_t type);

// The i-th row, in the order of the types, or NULL past the last.
const struct message_row *message_row_at(size_t i);

// Checks rows: that the documented lengths are those of the field lists, that the field lists cover
// their structs without a gap, that counts and limits hold, and that no type or name appears twice.
// 0 or -EINVAL.
int message_rows_check(const struct message_row *rows, size_t n_rows);

#endif
