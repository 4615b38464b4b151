// SPDX-License-Identifier: MIT
// Tables for people (libsmartcols), the same everywhere.
#ifndef CRYPTOCTL_TABLE_H
#define CRYPTOCTL_TABLE_H

#include <stddef.h>

struct libscols_table;

struct table_column {
    const char *name;
    int flags; // SCOLS_FL_*
};

// NULL: no memory.
struct libscols_table *table_new(const struct table_column *columns, size_t n);

// 0 or -ENOMEM.
int table_add(struct libscols_table *table, const char *const *cells, size_t n);

// Prints it if r is 0, and frees it. r, or a negative errno.
int table_print(struct libscols_table *table, int r);

#endif
