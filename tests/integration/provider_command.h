// SPDX-License-Identifier: MIT
// Runs the system's `openssl` with the OpenSSL configuration that cryptod installs for sshd,
// changed only to find the built provider and the test's daemon.
#ifndef CRYPTOD_TESTS_PROVIDER_COMMAND_H
#define CRYPTOD_TESTS_PROVIDER_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "fixture.h"

struct command_folder {
    char path[80];
    char config[128]; // for OPENSSL_CONF
};

// Makes a folder under the fixture's with the configuration. Skips the test if there is no openssl
// command.
void command_folder_make(struct command_folder *folder, const struct fixture *fixture);

// Starts `openssl ARGUMENTS`, words separated by one space, in the folder. With `ours`
// OPENSSL_CONF is set, else the program runs as if cryptod were not there. Standard error goes to
// "log". input, output: names in the folder or NULL for /dev/null.
pid_t command_start(const struct command_folder *folder, bool ours, const char *arguments,
                    const char *input, const char *output);

// The exit status; waits 60 s at most.
int command_wait(pid_t pid);

// Both.
int command_run(const struct command_folder *folder, bool ours, const char *arguments,
                const char *input, const char *output);

// Shows what the commands of this folder have written to standard error so far.
void command_show_log(const struct command_folder *folder);

// Files of the folder.
void command_write(const struct command_folder *folder, const char *name, const char *text);
void command_write_random(const struct command_folder *folder, const char *name, size_t n);
bool command_same(const struct command_folder *folder, const char *name, const char *other);
bool command_wait_file(const struct command_folder *folder,
                       const char *name); // until it exists, 30 s at most

#endif
