// SPDX-License-Identifier: MIT
// Who else on this machine can reach AF_ALG: whether an ordinary process can, and which of
// systemd's units for sessions deny it by the drop-ins that cryptod brings.
#ifndef CRYPTOD_DAEMON_REACH_H
#define CRYPTOD_DAEMON_REACH_H

#include <stddef.h>

// Tries it in a process of its own, as nobody: makes a socket and binds it to cbc(aes), for which
// the kernel may load modules. Waits at most two seconds. 0; a positive errno that such a process
// gets; or a negative errno if it could not be found out.
int reach_try(void);

// result: reach_try()'s. folder: where the drop-ins are looked for (REACH_UNITS). In words, to ret.
#define REACH_UNITS "/etc/systemd/system"
void reach_describe(int result, const char *folder, char *ret, size_t n);

#endif
