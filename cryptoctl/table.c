// SPDX-License-Identifier: MIT
// Must not know what is in a table.
#include "table.h"

#include <errno.h>
#include <libsmartcols.h>

struct libscols_table *table_new(const struct table_column *columns, size_t n)
{
    struct libscols_table *table = scols_new_table();
    if (table == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (scols_table_new_column(table, columns[i].name, 0, columns[i].flags) == NULL) {
            scols_unref_table(table);
            return NULL;
        }
    return table;
}

int table_add(struct libscols_table *table, const char *const *cells, size_t n)
{
    struct libscols_line *line = scols_table_new_line(table, NULL);
    if (line == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (scols_line_set_data(line, i, cells[i]) != 0)
            return -ENOMEM;
    return 0;
}

int table_print(struct libscols_table *table, int r)
{
    if (r == 0 && scols_print_table(table) != 0)
        r = -EIO;
    scols_unref_table(table);
    return r;
}
