// SPDX-License-Identifier: MIT
// The real engine process, sandbox and all, between a monitor and a front that a test plays.
// Every function here fails or skips the test (Criterion) instead of returning an error.
#ifndef CRYPTOD_TESTS_ENGINE_RIG_H
#define CRYPTOD_TESTS_ENGINE_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "message.h"
#include "shm.h"

#define ENGINE_RIG_UID 61991

struct engine_rig {
    pid_t pid;   // 0 after engine_rig_stop()
    int monitor; // the test's ends
    int front;
    struct message_engine_offer offer; // the first one
    uint64_t serial;
};

// What fixtures of the whole daemon use too: offload always, backend cpu. To be changed before
// engine_rig_start().
struct message_role_config engine_rig_config(void);

// Starts the built program, sends the configuration, waits until it is ready and has sent its
// offer. Skips the test if it does not run as root.
void engine_rig_start(struct engine_rig *rig, const struct message_role_config *config);

// Starts it and sends the configuration, nothing more.
void engine_rig_launch(struct engine_rig *rig, const struct message_role_config *config);

// Waits (20 s at most) for its end, and returns the status of waitpid().
int engine_rig_wait(struct engine_rig *rig);

// Closes the monitor's end, and asserts that the engine ends with status 0.
void engine_rig_stop(struct engine_rig *rig);

// One message to the engine as front, and the next one from it (20 s at most).
void engine_rig_send(struct engine_rig *rig, const struct message *m, const int *fds, size_t n_fds);
void engine_rig_receive(struct engine_rig *rig, struct message *ret);

// ---------------------------------------------------------------- clients

struct engine_client {
    struct engine_rig *rig;
    struct shm_map map;
    int bell;
    uint32_t channel;
    uint32_t sequence;
};

// Returns the reason of the engine's answer; the client exists if it is MESSAGE_OK.
uint32_t engine_client_open(struct engine_client *client, struct engine_rig *rig, uint32_t channel,
                            uint32_t n_slots, uint32_t n_streams);
// With the engine's CHANNEL_REMOVE.
void engine_client_close(struct engine_client *client);

// Leaves a key, asks for the stream; returns the reason of the answer.
uint32_t engine_client_open_stream(struct engine_client *client, uint32_t stream,
                                   uint32_t algorithm, const uint8_t key[ALGORITHM_KEY_MAX]);
void engine_client_close_stream(struct engine_client *client, uint32_t stream);

// Publishes a request, rings if the engine sleeps; and waits for it (20 s at most), returning its
// result.
void engine_client_submit(struct engine_client *client, const struct shm_request *request);
int engine_client_wait(struct engine_client *client, uint32_t sequence);

// One request whose bytes are compared with OpenSSL's.
void engine_client_expect_right(struct engine_client *client, uint32_t stream, uint32_t algorithm,
                                const uint8_t *key, bool encrypt, uint32_t n_bytes);

#endif
