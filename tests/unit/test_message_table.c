// SPDX-License-Identifier: MIT
// The table of messages: that its check sees every kind of fault, and that table and manual say the
// same.
#include "message_table.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define EACH_ROW(row)                                                                              \
    const struct message_row *row = NULL;                                                          \
    for (size_t row_i = 0; (row = message_row_at(row_i)) != NULL; row_i++)

Test(message_table, table_is_consistent)
{
    size_t n = 0;

    cr_expect_eq(message_table_check(), 0);
    EACH_ROW(row)
    {
        cr_expect_eq(message_info(row->type), &row->info);
        n++;
    }
    cr_expect_eq(n, 34);
}

// message_table_check() would be worth nothing if it did not see these.
Test(message_table, table_check_sees_each_fault)
{
    const struct message_row good[2] = {*message_row_get(MESSAGE_HELLO),
                                        *message_row_get(MESSAGE_STATUS_END)};
    struct message_row rows[2];
    struct message_field fields[8];

    cr_assert_eq(message_rows_check(good, 2), 0);
#define EXPECT_FAULT(change)                                                                       \
    do {                                                                                           \
        memcpy(rows, good, sizeof rows);                                                           \
        memcpy(fields, good[0].fields, good[0].n_fields * sizeof fields[0]);                       \
        rows[0].fields = fields;                                                                   \
        cr_assert_eq(message_rows_check(rows, 2), 0);                                              \
        change;                                                                                    \
        cr_expect_eq(message_rows_check(rows, 2), -EINVAL, "%s", #change);                         \
    } while (0)
    EXPECT_FAULT(rows[0].info.n_bytes += 4);
    EXPECT_FAULT(rows[0].info.n_bytes -= 1);
    EXPECT_FAULT(rows[0].info.n_fds = MESSAGE_FDS_MAX + 1);
    EXPECT_FAULT(rows[0].info.directions = 0);
    EXPECT_FAULT(rows[0].type = rows[1].type);
    EXPECT_FAULT(rows[0].type = 65536);
    EXPECT_FAULT(rows[0].info.name = rows[1].info.name);
    EXPECT_FAULT(rows[0].n_fields--);
    EXPECT_FAULT(rows[0].n_struct += 4);
    EXPECT_FAULT(fields[1].offset += 4);
    EXPECT_FAULT(fields[1].n_bytes = 0);
    EXPECT_FAULT(fields[1].n_bytes = 3);
    EXPECT_FAULT(fields[1].kind = MESSAGE_KIND_U64);
#undef EXPECT_FAULT
}

Test(message_table, info_knows_no_other_type)
{
    size_t n = 0;

    for (uint32_t type = 0; type <= UINT16_MAX; type++)
        n += message_info(type) != NULL ? 1 : 0;
    cr_expect_eq(n, 34);
    cr_expect_eq(message_info(65536 + MESSAGE_HELLO), NULL);
    cr_expect_eq(message_info(UINT32_MAX), NULL);
}

// "client to front, engine to front", as the manual writes it.
static void directions_text(uint32_t directions, char ret[128])
{
    static const char *const names[] = {"client to front", "front to client", "front to engine",
                                        "engine to front", "monitor to role", "role to monitor"};

    ret[0] = 0;
    for (unsigned i = 0; i < 6; i++) {
        if ((directions & 1u << i) == 0)
            continue;
        if (ret[0])
            strcat(ret, ", ");
        strcat(ret, names[i]);
    }
}

// Each row of the manual's tables is `.It NAME Ta type Ta bytes Ta descriptors Ta directions`.
Test(message_table, manual_documents_each_type)
{
    FILE *file = fopen("man/cryptod-protocol.7", "re");
    static char text[256 * 1024];

    if (!file)
        cr_skip_test("man/cryptod-protocol.7 is not below the current folder");
    size_t n = fread(text, 1, sizeof text - 1, file);
    cr_assert(n > 0 && n < sizeof text - 1);
    fclose(file);
    EACH_ROW(row)
    {
        char want[256], directions[128];
        directions_text(row->info.directions, directions);
        snprintf(want, sizeof want, "\n.It %s Ta %u Ta %u Ta %u Ta %s\n", row->info.name, row->type,
                 row->info.n_bytes, row->info.n_fds, directions);
        cr_expect_neq(strstr(text, want), NULL, "not in the manual: %s", want + 1);
    }
}

Test(message_table, each_reason_has_a_text_of_its_own)
{
    for (uint32_t i = 0; i < MESSAGE_REASON_COUNT; i++) {
        cr_assert_neq(message_reason_text(i), NULL);
        for (uint32_t j = 0; j <= MESSAGE_REASON_COUNT; j++)
            cr_expect(i == j || strcmp(message_reason_text(i), message_reason_text(j)) != 0);
    }
    cr_expect_str_eq(message_reason_text(MESSAGE_REASON_VERSION), "no common protocol version");
    cr_expect_str_eq(message_reason_text(UINT32_MAX), message_reason_text(MESSAGE_REASON_COUNT));
}
