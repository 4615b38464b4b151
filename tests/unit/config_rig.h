// SPDX-License-Identifier: MIT
// A configuration file for one test.
#ifndef CRYPTOD_TESTS_CONFIG_RIG_H
#define CRYPTOD_TESTS_CONFIG_RIG_H

#include "config.h"

// What no configuration can do without on a machine where cryptod is not installed.
#define USERS "[daemon]\nfront_user = 61990\nengine_user = 61991\n"

// Make and remove the file.
void config_rig_setup(void);
void config_rig_teardown(void);

const char *config_rig_path(void);
void config_rig_write(const void *text, size_t n);

// The text must be accepted.
void config_rig_load(const char *text, struct config *ret);

// The text must be refused with the file's name and then `expected`, and the result left alone.
void config_rig_refuse(const char *text, const char *expected);
void config_rig_refuse_bytes(const void *text, size_t n, const char *expected);

#endif
