// SPDX-License-Identifier: MIT
// A real cryptod for one test: the built program in a fresh folder, with its own socket,
// configuration and log. Every function here fails or skips the test (Criterion) instead of
// returning an error.
#ifndef CRYPTOD_TESTS_FIXTURE_H
#define CRYPTOD_TESTS_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cryptod.h"

#define FIXTURE_FRONT_UID  61990
#define FIXTURE_ENGINE_UID 61991

struct fixture {
    char folder[64]; // mode 0755, so that other users reach the socket
    char socket[96];
    char config[96];
    char log[96];
    char state[96]; // an empty directory
    pid_t monitor;  // a child of the test; 0 after fixture_stop()
    void (*prepare)(void *user);
    void *prepare_user;
};

// Starts cryptod and waits until it answers (at most 10 s; longer under a sanitizer). Points
// $CRYPTOD_SOCKET at it. extra_conf (NULL: none): lines "section.key=value" that are added to, or
// replace, these defaults:
//   daemon.socket, daemon.state_directory, daemon.front_user, daemon.engine_user,
//   daemon.log_level=debug, lanes.offload=always, lanes.bulk_threshold=0, lanes.request_min=1,
//   engine.backends=cpu
// An empty value removes the key. Skips the test if it does not run as root.
void fixture_start(struct fixture *f, const char *extra_conf);

// The same without the wait: for daemons that shall fail, or never serve.
void fixture_launch(struct fixture *f, const char *extra_conf);

// The same, with a function that runs in the new process just before it executes cryptod: to set
// its environment, descriptors, limits or user.
void fixture_launch_with(struct fixture *f, const char *extra_conf, void (*prepare)(void *user),
                         void *user);

// SIGTERM; waits; asserts exit status 0, that no process of it and no socket is left, and that no
// role made a call that its policy lacks; removes the folder. Does nothing on a fixture that was
// not started or is stopped already, so it may be called in a .fini too.
void fixture_stop(struct fixture *f);

// Waits for the monitor to end by itself (at most 10 s), asserts that no process is left; returns
// the status of waitpid(). The folder stays for fixture_log() until fixture_stop().
int fixture_wait_end(struct fixture *f);

// Writes the configuration file again, as fixture_start() does, for a SIGHUP to f->monitor.
void fixture_configure(const struct fixture *f, const char *extra_conf);

// The process of "monitor", "front" or "engine", or 0 if there is none that lives.
pid_t fixture_role_pid(const struct fixture *f, const char *role);

// Waits (at most 10 s) until a process of that role lives that is not `old`, and returns it.
pid_t fixture_wait_role(const struct fixture *f, const char *role, pid_t old);

// Waits (at most 10 s) until the daemon answers STATUS, both roles or, for software_only, front
// alone.
void fixture_wait_serving(const struct fixture *f, bool software_only);

// Waits (at most 10 s) until front has dealt with every connection that the test has closed, so
// that descriptors counted from now on are those of who is connected. fixture_start() ends with it.
// Nobody else may connect or disconnect meanwhile.
void fixture_settle(const struct fixture *f);

// Everything logged so far; the caller frees it.
char *fixture_log(const struct fixture *f);

// Waits (at most 10 s) until the log contains text.
void fixture_wait_log(const struct fixture *f, const char *text);

// The path of a built program or library ("cryptoctl", "cryptod.so"), in $CRYPTOD_BUILD or
// build/release. Points to a buffer of its own thread until the next call.
const char *fixture_built(const char *name);

#endif
