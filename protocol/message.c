// SPDX-License-Identifier: MIT
// The codec: bytes to struct message and back, both driven by the table's field lists.
// Guarantees: never reads or writes outside the given buffer; what it decodes encodes to the same
// bytes again; what it encodes carries nothing but the fields (no byte behind the end of a text).
// Must not know what a message means.
#include "message_table.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static void put_u32(uint8_t *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof v);
}

static uint32_t get_u32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static void put_u64(uint8_t *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof v);
}

static uint64_t get_u64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

static void field_encode(const struct message_field *f, const uint8_t *members, uint8_t *out)
{
    const uint8_t *in = members + f->offset;

    switch (f->kind) {
    case MESSAGE_KIND_U32:
        for (size_t i = 0; i < f->n_bytes; i += sizeof(uint32_t)) {
            uint32_t v;
            memcpy(&v, in + i, sizeof v);
            put_u32(out + i, v);
        }
        break;
    case MESSAGE_KIND_U64:
        for (size_t i = 0; i < f->n_bytes; i += sizeof(uint64_t)) {
            uint64_t v;
            memcpy(&v, in + i, sizeof v);
            put_u64(out + i, v);
        }
        break;
    case MESSAGE_KIND_TEXT: {
        size_t n = strnlen((const char *)in, f->n_bytes - 1u);
        memcpy(out, in, n);
        memset(out + n, 0, f->n_bytes - n);
        break;
    }
    case MESSAGE_KIND_ZERO:
        memset(out, 0, f->n_bytes);
        break;
    }
}

static bool is_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] != 0)
            return false;
    }
    return true;
}

static int field_decode(const struct message_field *f, const uint8_t *in, uint8_t *members)
{
    uint8_t *out = members + f->offset;

    switch (f->kind) {
    case MESSAGE_KIND_U32:
        for (size_t i = 0; i < f->n_bytes; i += sizeof(uint32_t)) {
            uint32_t v = get_u32(in + i);
            memcpy(out + i, &v, sizeof v);
        }
        return 0;
    case MESSAGE_KIND_U64:
        for (size_t i = 0; i < f->n_bytes; i += sizeof(uint64_t)) {
            uint64_t v = get_u64(in + i);
            memcpy(out + i, &v, sizeof v);
        }
        return 0;
    case MESSAGE_KIND_TEXT: {
        size_t n = strnlen((const char *)in, f->n_bytes);
        if (n == f->n_bytes || !is_zero(in + n, f->n_bytes - n))
            return -EBADMSG;
        memcpy(out, in, f->n_bytes);
        return 0;
    }
    case MESSAGE_KIND_ZERO:
        return is_zero(in, f->n_bytes) ? 0 : -EBADMSG;
    }
    return -EBADMSG;
}

int message_encode(const struct message *m, uint8_t *buf, size_t n_buf, size_t *ret_n)
{
    const struct message_row *row = message_row_get((uint32_t)m->type);
    uint8_t *out = buf + MESSAGE_HEADER_LEN;

    if (!row)
        return -EINVAL;
    if (n_buf < row->info.n_bytes)
        return -ENOBUFS;
    put_u32(buf, row->type); // a type fits into 16 bits: the other 16 are the zero field
    put_u32(buf + 4, row->info.n_bytes);
    put_u64(buf + 8, m->serial);
    for (size_t i = 0; i < row->n_fields; i++) {
        field_encode(&row->fields[i], (const uint8_t *)&m->u, out);
        out += row->fields[i].n_bytes;
    }
    *ret_n = row->info.n_bytes;
    return 0;
}

int message_decode(const uint8_t *buf, size_t n, enum message_direction direction,
                   struct message *ret)
{
    struct message m = {0};
    const struct message_row *row;
    const uint8_t *in = buf + MESSAGE_HEADER_LEN;

    if (n < MESSAGE_HEADER_LEN)
        return -EBADMSG;
    row = message_row_get(get_u32(buf)); // with the zero field, which so must be zero
    if (!row || (row->info.directions & (uint32_t)direction) == 0)
        return -EBADMSG;
    if (n != row->info.n_bytes || get_u32(buf + 4) != row->info.n_bytes)
        return -EBADMSG;
    m.type = (enum message_type)row->type;
    m.serial = get_u64(buf + 8);
    for (size_t i = 0; i < row->n_fields; i++) {
        if (field_decode(&row->fields[i], in, (uint8_t *)&m.u) < 0)
            return -EBADMSG;
        in += row->fields[i].n_bytes;
    }
    *ret = m;
    return 0;
}
