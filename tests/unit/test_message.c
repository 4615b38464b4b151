// SPDX-License-Identifier: MIT
// The codec: every type, every truncation, every bit. The field lists of message_table.h are used
// to make messages and to know which bit belongs to which field; literal bytes below hold the lists
// themselves to the documentation.
#include "message_table.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ALL_DIRECTIONS 63u

static uint64_t random_state = 88172645463325252u;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void random_text(uint8_t *out, size_t n_bytes)
{
    size_t n = (size_t)(random_next() % n_bytes); // below n_bytes: the terminator has room

    memset(out, 0, n_bytes);
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(1 + random_next() % 255);
}

static struct message random_message(const struct message_row *row)
{
    struct message m = {.type = (enum message_type)row->type, .serial = random_next()};

    for (size_t i = 0; i < row->n_fields; i++) {
        const struct message_field *f = &row->fields[i];
        uint8_t *out = (uint8_t *)&m.u + f->offset;
        if (f->kind == MESSAGE_KIND_TEXT)
            random_text(out, f->n_bytes);
        for (size_t j = 0; f->kind <= MESSAGE_KIND_U64 && j < f->n_bytes; j++)
            out[j] = (uint8_t)random_next();
    }
    return m;
}

static enum message_direction any_direction(const struct message_row *row)
{
    return (enum message_direction)(row->info.directions & -row->info.directions);
}

static size_t encode(const struct message *m, uint8_t buf[MESSAGE_LEN_MAX])
{
    size_t n = 0;

    memset(buf, 0xa5, MESSAGE_LEN_MAX);
    cr_assert_eq(message_encode(m, buf, MESSAGE_LEN_MAX, &n), 0);
    return n;
}

// Decodes from memory of exactly n bytes, so that a sanitizer sees a read past them; checks that a
// refusal leaves *ret alone.
static int decode(const uint8_t *buf, size_t n, enum message_direction direction,
                  struct message *ret)
{
    uint8_t *exact = malloc(n ? n : 1);
    struct message before;

    cr_assert_neq(exact, NULL);
    memcpy(exact, buf, n);
    memset(ret, 0x5a, sizeof *ret);
    before = *ret;
    int r = message_decode(n ? exact : exact + 1, n, direction, ret);
    free(exact);
    if (r < 0) {
        cr_assert_eq(r, -EBADMSG);
        cr_assert_eq(memcmp(ret, &before, sizeof before), 0, "touched on failure");
    }
    return r;
}

static bool same(const struct message_row *row, const struct message *a, const struct message *b)
{
    return a->type == b->type && a->serial == b->serial && memcmp(&a->u, &b->u, row->n_struct) == 0;
}

#define EACH_ROW(row)                                                                              \
    const struct message_row *row = NULL;                                                          \
    for (size_t row_i = 0; (row = message_row_at(row_i)) != NULL; row_i++)

Test(message, round_trip_of_each_type)
{
    EACH_ROW(row)
    {
        for (int round = 0; round < 200; round++) {
            uint8_t buf[MESSAGE_LEN_MAX];
            struct message m = random_message(row), back;
            size_t n = encode(&m, buf);
            cr_assert_eq(n, row->info.n_bytes, "%s", row->info.name);
            cr_assert_eq(buf[n], 0xa5, "%s written past its end", row->info.name);
            for (uint32_t d = 1; d < ALL_DIRECTIONS; d <<= 1) {
                if ((row->info.directions & d) == 0)
                    continue;
                cr_assert_eq(decode(buf, n, (enum message_direction)d, &back), 0);
                cr_assert(same(row, &m, &back), "%s", row->info.name);
            }
        }
    }
}

Test(message, literal_bytes)
{
    static const uint8_t hello_bytes[32] = {
        1, 0, 0, 0, 32, 0, 0, 0, 8, 7, 6, 5, 4,    3,    2,    1, // header
        1, 0, 0, 0, 2,  0, 0, 0, 4, 0, 0, 0, 0x78, 0x56, 0x34, 0x12,
    };
    const struct message hello = {
        .type = MESSAGE_HELLO,
        .serial = 0x0102030405060708,
        .u.hello = {.version_min = 1, .version_max = 2, .n_slots = 4, .n_streams = 0x12345678},
    };
    static const uint8_t channel_bytes[80] = {
        42, 0, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, // header
        2,  0, 0, 0, 3,  0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 5, 0,    0, 0, 0, 0,
        0,  0, 6, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 7, 0, 0, 0,
        0,  0, 0, 0, 0,  0, 4, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0,    0, 0,
    };
    const struct message channel = {
        .type = MESSAGE_ENGINE_CHANNEL,
        .serial = 1,
        .u.engine_channel = {.channel = 2,
                             .streams = 3,
                             .operations = 0x0102030405060708,
                             .bytes = 5,
                             .software_bytes = 6,
                             .fallbacks = 1ull << 63,
                             .lane_changes = 7,
                             .locked_memory = 0x40000,
                             .requests = 9},
    };
    uint8_t buf[MESSAGE_LEN_MAX];

    cr_expect_eq(encode(&hello, buf), sizeof hello_bytes);
    cr_expect_eq(memcmp(buf, hello_bytes, sizeof hello_bytes), 0);
    cr_expect_eq(encode(&channel, buf), sizeof channel_bytes);
    cr_expect_eq(memcmp(buf, channel_bytes, sizeof channel_bytes), 0);
}

// Arrays and texts lie where the manual says.
Test(message, literal_offsets)
{
    struct message m = {.type = MESSAGE_HELLO_REPLY};
    uint8_t buf[MESSAGE_LEN_MAX];

    m.u.hello_reply.offer[0] = (struct message_offer){.lanes = 0x11, .request_min = 0x22};
    m.u.hello_reply.offer[ALGORITHM_COUNT - 1] = (struct message_offer){.request_min = 0x33};
    encode(&m, buf);
    cr_expect_eq(buf[40], 0x11);
    cr_expect_eq(buf[44], 0x22);
    cr_expect_eq(buf[100], 0x33);

    m = (struct message){.type = MESSAGE_STATUS_ALGORITHM};
    strcpy(m.u.status_algorithm.backend, "B");
    strcpy(m.u.status_algorithm.driver, "D");
    strcpy(m.u.status_algorithm.text, "T");
    encode(&m, buf);
    cr_expect_eq(buf[56], 'B');
    cr_expect_eq(buf[72], 'D');
    cr_expect_eq(buf[136], 'T');

    m = (struct message){.type = MESSAGE_ROLE_CONFIG};
    m.u.role_config.uids[0] = 0x44;
    m.u.role_config.gids[MESSAGE_IDS_MAX - 1] = 0x55;
    m.u.role_config.started_s = 0x66;
    strcpy(m.u.role_config.text, "T");
    encode(&m, buf);
    cr_expect_eq(buf[88], 0x44);
    cr_expect_eq(buf[212], 0x55);
    cr_expect_eq(buf[216], 0x66);
    cr_expect_eq(buf[992], 'T');
}

Test(message, each_truncation_and_excess_is_refused)
{
    EACH_ROW(row)
    {
        uint8_t buf[MESSAGE_LEN_MAX];
        struct message m = random_message(row), back;
        size_t n = encode(&m, buf);
        for (size_t cut = 0; cut < n; cut++)
            cr_assert_eq(decode(buf, cut, any_direction(row), &back), -EBADMSG);
        memset(buf + n, 0, sizeof buf - n);
        for (size_t more = n + 1; more < n + 64; more++)
            cr_assert_eq(decode(buf, more, any_direction(row), &back), -EBADMSG);
        cr_assert_eq(decode(buf, sizeof buf, any_direction(row), &back), -EBADMSG);
        cr_assert_eq(decode(buf, n, any_direction(row), &back), 0);
    }
}

// A flipped bit of the type may name another message of the same length and direction; that one is
// decoded.
static bool type_fits(uint32_t type, const struct message_row *row)
{
    const struct message_info *info = message_info(type);

    return info && info->n_bytes == row->info.n_bytes &&
           (info->directions & (uint32_t)any_direction(row)) != 0;
}

Test(message, each_bit_of_the_header_counts)
{
    EACH_ROW(row)
    {
        for (size_t bit = 0; bit < 8 * MESSAGE_HEADER_LEN; bit++) {
            uint8_t buf[MESSAGE_LEN_MAX];
            struct message m = random_message(row), back;
            size_t n = encode(&m, buf);
            buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
            int r = decode(buf, n, any_direction(row), &back);
            if (bit >= 64) {
                cr_assert_eq(r, 0);
                cr_assert_eq(back.serial, m.serial ^ 1ull << (bit - 64));
                back.serial = m.serial;
                cr_assert(same(row, &m, &back));
            } else if (bit < 16 && type_fits(row->type ^ 1u << bit, row)) {
                cr_assert_eq(r, 0);
                cr_assert_eq(back.type, row->type ^ 1u << bit);
            } else {
                cr_assert_eq(r, -EBADMSG, "%s, bit %zu", row->info.name, bit);
            }
        }
    }
}

static const struct message_field *field_at(const struct message_row *row, size_t offset)
{
    size_t i = row->n_fields;

    while (row->fields[--i].offset > offset) {
    }
    return &row->fields[i];
}

// In a text a flipped bit may also end it early or let it run on: then it is refused.
static void check_field_bit(const struct message_row *row, const struct message *m,
                            const uint8_t *bytes, size_t bit)
{
    const struct message_field *f = field_at(row, bit / 8);
    uint8_t buf[MESSAGE_LEN_MAX], again[MESSAGE_LEN_MAX];
    struct message back, repaired;

    memcpy(buf, bytes, sizeof buf);
    buf[MESSAGE_HEADER_LEN + bit / 8] ^= (uint8_t)(1u << bit % 8);
    int r = decode(buf, row->info.n_bytes, any_direction(row), &back);
    if (r < 0) {
        cr_assert(f->kind >= MESSAGE_KIND_TEXT, "%s, bit %zu", row->info.name, bit);
        return;
    }
    cr_assert_neq(f->kind, MESSAGE_KIND_ZERO, "%s, bit %zu", row->info.name, bit);
    cr_assert_eq(encode(&back, again), row->info.n_bytes);
    cr_assert_eq(memcmp(again, buf, row->info.n_bytes), 0, "%s, bit %zu", row->info.name, bit);
    cr_assert(!same(row, m, &back), "%s, bit %zu is not decoded", row->info.name, bit);
    repaired = back;
    memcpy((uint8_t *)&repaired.u + f->offset, (const uint8_t *)&m->u + f->offset, f->n_bytes);
    cr_assert(same(row, m, &repaired), "%s, bit %zu changes another field", row->info.name, bit);
}

Test(message, each_bit_of_a_field_changes_that_field_alone)
{
    EACH_ROW(row)
    {
        struct message m = random_message(row);
        uint8_t bytes[MESSAGE_LEN_MAX];
        encode(&m, bytes);
        for (size_t bit = 0; bit < 8 * row->n_struct; bit++)
            check_field_bit(row, &m, bytes, bit);
    }
}

Test(message, wrong_direction_is_refused)
{
    EACH_ROW(row)
    {
        uint8_t buf[MESSAGE_LEN_MAX];
        struct message m = random_message(row), back;
        size_t n = encode(&m, buf);
        cr_assert_eq(decode(buf, n, (enum message_direction)0, &back), -EBADMSG);
        for (uint32_t d = 1; d < ALL_DIRECTIONS; d <<= 1) {
            int want = row->info.directions & d ? 0 : -EBADMSG;
            cr_assert_eq(decode(buf, n, (enum message_direction)d, &back), want, "%s, direction %u",
                         row->info.name, d);
        }
    }
}

Test(message, unknown_types_are_refused)
{
    uint8_t buf[MESSAGE_HEADER_LEN + 4] = {[4] = sizeof buf};
    struct message back;

    for (uint32_t type = 0; type <= UINT16_MAX; type++) {
        if (message_info(type))
            continue;
        buf[0] = (uint8_t)type;
        buf[1] = (uint8_t)(type >> 8);
        cr_assert_eq(decode(buf, sizeof buf, (enum message_direction)ALL_DIRECTIONS, &back),
                     -EBADMSG);
    }
}

Test(message, texts_end_once)
{
    EACH_ROW(row)
    {
        for (size_t i = 0; i < row->n_fields; i++) {
            const struct message_field *f = &row->fields[i];
            struct message m = random_message(row), back;
            uint8_t buf[MESSAGE_LEN_MAX], *text = buf + MESSAGE_HEADER_LEN + f->offset;
            if (f->kind != MESSAGE_KIND_TEXT)
                continue;
            size_t n = encode(&m, buf);
            memset(text, 'x', f->n_bytes); // no terminator
            cr_expect_eq(decode(buf, n, any_direction(row), &back), -EBADMSG);
            text[f->n_bytes - 1] = 0; // as long as can be
            cr_expect_eq(decode(buf, n, any_direction(row), &back), 0);
            text[0] = 0; // more after the terminator
            cr_expect_eq(decode(buf, n, any_direction(row), &back), -EBADMSG);
            memset(text, 0, f->n_bytes);
            text[f->n_bytes - 1] = 1; // only in the last byte
            cr_expect_eq(decode(buf, n, any_direction(row), &back), -EBADMSG);
        }
    }
}

// What lies behind the end of a text, or in a reserved field, is not sent.
Test(message, encode_sends_nothing_but_the_fields)
{
    EACH_ROW(row)
    {
        struct message m, back;
        uint8_t buf[MESSAGE_LEN_MAX];
        memset(&m, 'x', sizeof m);
        m.type = (enum message_type)row->type;
        for (size_t i = 0; i < row->n_fields; i++) {
            if (row->fields[i].kind == MESSAGE_KIND_TEXT)
                memcpy((uint8_t *)&m.u + row->fields[i].offset, "ab\0secret", 9);
        }
        size_t n = encode(&m, buf);
        cr_expect_eq(decode(buf, n, any_direction(row), &back), 0, "%s", row->info.name);
        cr_expect_eq(memmem(buf, n, "secret", 6), NULL, "%s", row->info.name);
    }
}

Test(message, encode_ends_a_text_that_does_not_end)
{
    struct message m = {.type = MESSAGE_ENGINE_SUMMARY}, back;
    uint8_t buf[MESSAGE_LEN_MAX];

    memset(m.u.engine_summary.text, 'x', sizeof m.u.engine_summary.text);
    size_t n = encode(&m, buf);
    cr_assert_eq(decode(buf, n, MESSAGE_ENGINE_TO_FRONT, &back), 0);
    cr_expect_eq(strlen(back.u.engine_summary.text), sizeof back.u.engine_summary.text - 1);
}

Test(message, encode_refuses_unknown_types_and_small_buffers)
{
    struct message m = {.type = (enum message_type)77};
    uint8_t buf[MESSAGE_LEN_MAX] = {0};
    const uint8_t zero[MESSAGE_LEN_MAX] = {0};
    size_t n = 4711;

    cr_expect_eq(message_encode(&m, buf, sizeof buf, &n), -EINVAL);
    EACH_ROW(row)
    {
        m = random_message(row);
        for (size_t room = 0; room < row->info.n_bytes; room++)
            cr_assert_eq(message_encode(&m, buf, room, &n), -ENOBUFS);
        cr_expect_eq(memcmp(buf, zero, sizeof buf), 0, "touched on failure");
    }
    cr_expect_eq(n, 4711, "touched on failure");
}

Test(message, random_bytes_are_refused)
{
    uint8_t buf[64];
    struct message back;

    for (int round = 0; round < 100000; round++) {
        for (size_t i = 0; i < sizeof buf; i++)
            buf[i] = (uint8_t)random_next();
        size_t n = (size_t)(random_next() % (sizeof buf + 1));
        cr_assert_eq(message_decode(buf, n, (enum message_direction)ALL_DIRECTIONS, &back),
                     -EBADMSG);
    }
}
