// SPDX-License-Identifier: MIT
// Small files in the state directory, as root: read with suspicion, written whole or not at all.
#ifndef CRYPTOD_DAEMON_STATE_FILE_H
#define CRYPTOD_DAEMON_STATE_FILE_H

#include <stddef.h>

// Opens the directory itself. 0 or a negative errno.
int state_file_open_directory(const char *path, int *ret_fd);

// Up to n_max bytes. 0; -ENOENT; -EBADMSG: no regular file; -EFBIG: longer; or another negative
// errno.
int state_file_read(int directory, const char *name, char *text, size_t n_max, size_t *ret_n);

// Replaces the file: it is the old one or the new one, whole, whatever happens meanwhile. name: at
// most 32 characters. 0 or a negative errno.
int state_file_write(int directory, const char *name, const char *text, size_t n);

#endif
