// SPDX-License-Identifier: MIT
// What the subcommands of cryptoctl share. One file a subcommand; main.c has the table.
#ifndef CRYPTOCTL_H
#define CRYPTOCTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Exit statuses: 0, and
#define CRYPTOCTL_FAILED      1
#define CRYPTOCTL_USAGE       2
#define CRYPTOCTL_NOT_RUNNING 3 // as init scripts' `status` has it

// How long the daemon may take to answer.
#define CRYPTOCTL_TIMEOUT_MS 2000

struct cryptoctl_options {
    const char *socket; // NULL: the library's default
    bool json;
    bool show; // calibrate: without measuring
};

int status_run(const struct cryptoctl_options *options);
int calibrate_run(const struct cryptoctl_options *options);

// "12.3 MiB" and "3 min" for people. buffer is returned.
#define CRYPTOCTL_TEXT_LEN 32
char *text_bytes(uint64_t n_bytes, char buffer[CRYPTOCTL_TEXT_LEN]);
char *text_seconds(uint64_t seconds, char buffer[CRYPTOCTL_TEXT_LEN]);

// Says on stderr why the daemon did not answer (error: negative errno), and returns the exit status
// for it.
int report_unreachable(const struct cryptoctl_options *options, int error);

#endif
