// SPDX-License-Identifier: MIT
// See engine_rig.h. Must not know what the tests look for.
#include "engine_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"
#include "packet.h"
#include "reference.h"
#include "role.h"

#define GUARD_S 20

// ---------------------------------------------------------------- the process

struct message_role_config engine_rig_config(void)
{
    struct message_role_config config = {
        .uid = ENGINE_RIG_UID,
        .gid = ENGINE_RIG_UID,
        .log_level = 7,
        .offload = CONFIG_OFFLOAD_ALWAYS,
        .backends = CONFIG_BACKEND_CPU,
        .workers = 2,
        .deadline_ms = 250,
        .request_min = 1,
        .channels_max = 8,
        .channels_per_uid = 8,
        .streams_per_channel = 16,
        .slots_per_channel = 4,
    };

    return config;
}

static void become_engine(int monitor, int peer)
{
    int high_monitor = fcntl(monitor, F_DUPFD, 20), high_peer = fcntl(peer, F_DUPFD, 20);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(high_monitor, ROLE_FD_MONITOR) < 0 || dup2(high_peer, ROLE_FD_PEER) < 0)
        _exit(126);
    closefrom(ROLE_FD_PEER + 1);
    execl(fixture_built("cryptod"), "cryptod engine", "--role", "engine", (char *)NULL);
    _exit(127);
}

void engine_rig_launch(struct engine_rig *rig, const struct message_role_config *config)
{
    const struct message m = {.type = MESSAGE_ROLE_CONFIG, .u.role_config = *config};
    int monitors[2], fronts[2];

    if (geteuid() != 0)
        cr_skip_test("only root can start the engine");
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, monitors), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fronts), 0);
    *rig = (struct engine_rig){.pid = fork(), .monitor = monitors[0], .front = fronts[0]};
    cr_assert_geq(rig->pid, 0);
    if (rig->pid == 0)
        become_engine(monitors[1], fronts[1]);
    close(monitors[1]);
    close(fronts[1]);
    cr_assert_eq(packet_send(rig->monitor, &m, NULL, 0), 0);
}

static void receive(int fd, enum message_direction direction, struct message *ret)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int fds[MESSAGE_FDS_MAX];

    cr_assert_eq(poll(&p, 1, GUARD_S * 1000), 1, "no message from the engine");
    int r = packet_recv(fd, direction, ret, fds);
    cr_assert_eq(r, 0, "%s", strerror(-r));
}

void engine_rig_start(struct engine_rig *rig, const struct message_role_config *config)
{
    struct message m;

    engine_rig_launch(rig, config);
    do
        receive(rig->monitor, MESSAGE_ROLE_TO_MONITOR, &m);
    while (m.type == MESSAGE_QUARANTINE); // trials
    cr_assert_eq(m.type, MESSAGE_ROLE_READY);
    engine_rig_receive(rig, &m);
    cr_assert_eq(m.type, MESSAGE_STATUS_NOTE);
    cr_expect_str_eq(m.u.status_note.topic, "engine");
    cr_expect_not_null(strstr(m.u.status_note.text, "seccomp, empty root, "));
    engine_rig_receive(rig, &m);
    cr_assert_eq(m.type, MESSAGE_ENGINE_OFFER);
    rig->offer = m.u.engine_offer;
}

int engine_rig_wait(struct engine_rig *rig)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    int status = 0;

    for (int i = 0; i < GUARD_S * 100; i++) {
        if (waitpid(rig->pid, &status, WNOHANG) == rig->pid) {
            rig->pid = 0;
            return status;
        }
        nanosleep(&pause, NULL);
    }
    cr_assert_fail("the engine does not end");
    return -1;
}

void engine_rig_stop(struct engine_rig *rig)
{
    close(rig->monitor);
    int status = engine_rig_wait(rig);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", (unsigned)status);
    close(rig->front);
}

void engine_rig_send(struct engine_rig *rig, const struct message *m, const int *fds, size_t n_fds)
{
    cr_assert_eq(packet_send(rig->front, m, fds, n_fds), 0);
}

void engine_rig_receive(struct engine_rig *rig, struct message *ret)
{
    receive(rig->front, MESSAGE_ENGINE_TO_FRONT, ret);
}

// ---------------------------------------------------------------- clients

uint32_t engine_client_open(struct engine_client *client, struct engine_rig *rig, uint32_t channel,
                            uint32_t n_slots, uint32_t n_streams)
{
    const struct timeval guard = {.tv_sec = GUARD_S};
    struct message m = {.type = MESSAGE_CHANNEL_ADD, .serial = ++rig->serial};
    int fds[2], bells[2];

    *client = (struct engine_client){.rig = rig, .channel = channel};
    cr_assert_eq(shm_create(n_slots, n_streams, &client->map, &fds[0]), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, bells), 0);
    fds[1] = bells[1];
    client->bell = bells[0];
    cr_assert_eq(setsockopt(client->bell, SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof(guard)), 0);
    m.u.channel_add = (struct message_channel_add){.channel = channel,
                                                   .uid = 1000,
                                                   .pid = (uint32_t)getpid(),
                                                   .n_slots = n_slots,
                                                   .n_streams = n_streams};
    engine_rig_send(rig, &m, fds, 2);
    close(fds[0]);
    close(fds[1]);
    engine_rig_receive(rig, &m);
    cr_assert_eq(m.type, MESSAGE_CHANNEL_REPLY);
    cr_assert_eq(m.serial, rig->serial);
    cr_assert_eq(m.u.channel.channel, channel);
    if (m.u.channel.reason != MESSAGE_OK) {
        close(client->bell);
        shm_unmap(&client->map);
    }
    return m.u.channel.reason;
}

void engine_client_close(struct engine_client *client)
{
    const struct message m = {.type = MESSAGE_CHANNEL_REMOVE,
                              .u.channel = {.channel = client->channel}};
    uint8_t byte;

    engine_rig_send(client->rig, &m, NULL, 0);
    while (read(client->bell, &byte, 1) > 0) // to the end of file: the engine has let go
        continue;
    close(client->bell);
    shm_unmap(&client->map);
}

uint32_t engine_client_open_stream(struct engine_client *client, uint32_t stream,
                                   uint32_t algorithm, const uint8_t key[ALGORITHM_KEY_MAX])
{
    struct message m = {
        .type = MESSAGE_ENGINE_OPEN,
        .serial = ++client->rig->serial,
        .u.engine_stream = {.channel = client->channel, .stream = stream, .algorithm = algorithm},
    };
    static const uint8_t nothing[64];
    uint8_t *place = shm_stream(&client->map, stream)->key;

    memcpy(place, key, ALGORITHM_KEY_MAX);
    engine_rig_send(client->rig, &m, NULL, 0);
    engine_rig_receive(client->rig, &m);
    cr_assert_eq(m.type, MESSAGE_ENGINE_REPLY);
    cr_assert_eq(m.serial, client->rig->serial);
    cr_assert_eq(m.u.engine_stream.channel, client->channel);
    cr_assert_eq(m.u.engine_stream.stream, stream);
    if (stream < client->map.n_streams)
        cr_expect_eq(memcmp(place, nothing, sizeof(nothing)), 0,
                     "the key is still in the shared memory");
    return m.u.engine_stream.reason;
}

void engine_client_close_stream(struct engine_client *client, uint32_t stream)
{
    const struct message m = {.type = MESSAGE_ENGINE_CLOSE,
                              .u.engine_stream = {.channel = client->channel, .stream = stream}};

    engine_rig_send(client->rig, &m, NULL, 0);
}

void engine_client_submit(struct engine_client *client, const struct shm_request *request)
{
    struct shm_header *header = shm_header(&client->map);
    const uint8_t byte = 1;

    *shm_request(&client->map, client->sequence) = *request;
    client->sequence++;
    atomic_store_explicit(&header->submitted, client->sequence, memory_order_release);
    if (shm_must_ring(&header->engine_waits))
        cr_assert_eq(write(client->bell, &byte, 1), 1);
}

int engine_client_wait(struct engine_client *client, uint32_t sequence)
{
    struct shm_done *done = shm_done(&client->map, sequence % SHM_SLOTS_REQUEST);
    _Atomic uint32_t *waits = &shm_header(&client->map)->client_waits;
    uint8_t byte;

    while (atomic_load_explicit(&done->sequence, memory_order_acquire) != sequence + 1) {
        shm_wait_begin(waits);
        if (atomic_load_explicit(&done->sequence, memory_order_acquire) != sequence + 1)
            cr_assert_eq(read(client->bell, &byte, 1), 1, "request %u: %s", sequence,
                         strerror(errno));
        shm_wait_end(waits);
    }
    return done->result;
}

void engine_client_expect_right(struct engine_client *client, uint32_t stream, uint32_t algorithm,
                                const uint8_t *key, bool encrypt, uint32_t n_bytes)
{
    struct reference_random random = {.state = client->sequence};
    struct shm_request request = {
        .sequence = client->sequence,
        .slot = client->sequence % SHM_SLOTS_REQUEST,
        .stream = stream,
        .operation = encrypt ? SHM_OP_ENCRYPT : SHM_OP_DECRYPT,
        .n_bytes = n_bytes,
    };
    uint8_t *slot = shm_data(&client->map, client->sequence % SHM_SLOTS_REQUEST);
    static uint8_t want[SHM_SLOT_SIZE];

    reference_random_fill(&random, request.iv, sizeof(request.iv));
    reference_random_fill(&random, slot, n_bytes);
    reference_crypt(algorithm, key, request.iv, encrypt, want, slot, n_bytes);
    engine_client_submit(client, &request);
    cr_assert_eq(engine_client_wait(client, request.sequence), 0);
    cr_expect_eq(memcmp(slot, want, n_bytes), 0, "%s: wrong bytes", algorithm_get(algorithm)->name);
}
