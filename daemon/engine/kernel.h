// SPDX-License-Identifier: MIT
// Which kernel this is. A look at uname(2), nothing else.
#ifndef CRYPTOD_DAEMON_KERNEL_H
#define CRYPTOD_DAEMON_KERNEL_H

#include <stdbool.h>

// Whether a release as uname(2) gives it ("6.1.0-37-amd64") is major.minor or later; false if it is
// no such text.
bool kernel_release_is_from(const char *release, unsigned major, unsigned minor);

// The same for the running kernel.
bool kernel_is_from(unsigned major, unsigned minor);

#endif
