// SPDX-License-Identifier: MIT
// What tests of the monitor do with sockets and processes.
#ifndef CRYPTOD_TESTS_MONITOR_RIG_H
#define CRYPTOD_TESTS_MONITOR_RIG_H

#include <sys/types.h>

#include "message.h"

// A connected, blocking socket whose read() gives up after 5 s.
int rig_connect(const char *path);

// Says HELLO with good memory and a bell, closes everything again; the reply's reason, and the
// reply if not NULL.
uint32_t rig_hello(const char *path, struct message_hello_reply *ret);

// Listens at path, as systemd would.
int rig_listen(const char *path, int type);

// The text of /proc/PID/NAME, NULs as line breaks; the caller frees it.
char *rig_read_proc(pid_t pid, const char *name);

// The first number after a key of /proc/PID/status.
long rig_proc_status_number(pid_t pid, const char *key);

void rig_sleep_ms(int ms);

#endif
