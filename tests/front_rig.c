// SPDX-License-Identifier: MIT
#include "front_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"
#include "packet.h"
#include "role.h"
#include "shm.h"

#define TURNS         64
#define UNTIL_STEP_MS 10
#define UNTIL_STEPS   500

static void make_pair(int ret[2])
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret), 0,
                 "%s", strerror(errno));
}

void front_rig_config(struct message_role_config *ret)
{
    *ret = (struct message_role_config){
        .uid = 61990,
        .gid = 61990,
        .log_level = LOG_LEVEL_ERROR,
        .mode = MESSAGE_OK,
        .offload = CONFIG_OFFLOAD_ALWAYS,
        .deadline_ms = 250,
        .bulk_threshold = 1000,
        .spin_us = 7,
        .channels_max = 4,
        .channels_per_uid = 3,
        .streams_per_channel = 2,
        .slots_per_channel = 4,
    };
}

void front_rig_init(struct front_rig *rig, const struct message_role_config *config,
                    int listener_fd)
{
    int monitor[2], engine[2] = {-1, -1};

    log_init("front", config->log_level);
    make_pair(monitor);
    if (config->mode == MESSAGE_OK)
        make_pair(engine);
    rig->monitor = monitor[0];
    rig->engine = engine[0];
    cr_assert_eq(front_init(&rig->front, config, monitor[1], engine[1], listener_fd), 0);
}

void front_rig_fini(struct front_rig *rig)
{
    front_fini(&rig->front);
    close(rig->monitor);
    if (rig->engine >= 0)
        close(rig->engine);
}

void front_rig_turn(struct front_rig *rig)
{
    // One pass handles a bounded number of messages a client.
    for (int i = 0; i < TURNS; i++)
        cr_assert_geq(event_base_loop(rig->front.base, EVLOOP_NONBLOCK), 0);
}

void front_rig_turn_until_readable(struct front_rig *rig, int fd)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};
    for (int i = 0; i < UNTIL_STEPS; i++) {
        front_rig_turn(rig);
        if (poll(&item, 1, UNTIL_STEP_MS) > 0)
            return;
    }
    cr_assert_fail("nothing came");
}

void front_rig_offer(struct front_rig *rig)
{
    struct message m = {.type = MESSAGE_ENGINE_OFFER};
    for (unsigned i = 0; i < ALGORITHM_COUNT - 1; i++)
        m.u.engine_offer.offer[i] =
            (struct message_offer){.lanes = MESSAGE_LANE_REQUEST, .request_min = 100 + i};
    front_rig_send(rig, rig->engine, &m, NULL, 0);
}

int front_rig_connect(struct front_rig *rig)
{
    int pair[2];
    make_pair(pair);
    cr_assert_eq(client_new(&rig->front, pair[1]), 0);
    return pair[0];
}

struct client *front_rig_last_client(struct front_rig *rig)
{
    struct client *client = LIST_FIRST(&rig->front.clients);
    cr_assert_not_null(client);
    return client;
}

void front_rig_send(struct front_rig *rig, int fd, const struct message *m, const int *fds,
                    size_t n_fds)
{
    int r = packet_send(fd, m, fds, n_fds);
    cr_assert_eq(r, 0, "%s", strerror(-r));
    front_rig_turn(rig);
}

void front_rig_hello(struct front_rig *rig, int client, uint64_t serial, int *ret_bell)
{
    const struct message m = {
        .type = MESSAGE_HELLO,
        .serial = serial,
        .u.hello = {.version_min = 1, .version_max = 1, .n_slots = 2, .n_streams = 4},
    };
    struct shm_map map;
    int memory, bell[2];

    cr_assert_eq(shm_create(2, 4, &map, &memory), 0);
    make_pair(bell);
    front_rig_send(rig, client, &m, (const int[]){memory, bell[1]}, 2);
    close(memory);
    close(bell[1]);
    shm_unmap(&map);
    if (ret_bell != NULL)
        *ret_bell = bell[0];
    else
        close(bell[0]);
}

void front_rig_stream_open(struct front_rig *rig, int client, uint64_t serial, uint32_t stream,
                           uint32_t algorithm)
{
    const struct message m = {
        .type = MESSAGE_STREAM_OPEN,
        .serial = serial,
        .u.stream_open = {.stream = stream, .algorithm = algorithm},
    };
    front_rig_send(rig, client, &m, NULL, 0);
}

void front_rig_stream_close(struct front_rig *rig, int client, uint32_t stream)
{
    const struct message m = {.type = MESSAGE_STREAM_CLOSE, .u.stream_close = {.stream = stream}};
    front_rig_send(rig, client, &m, NULL, 0);
}

void front_rig_status(struct front_rig *rig, int client, uint64_t serial)
{
    const struct message m = {.type = MESSAGE_STATUS, .serial = serial};
    front_rig_send(rig, client, &m, NULL, 0);
}

static void expect(int fd, enum message_direction direction, enum message_type type,
                   struct message *ret)
{
    struct message m;
    int fds[MESSAGE_FDS_MAX];
    int r = packet_recv(fd, direction, &m, fds);

    cr_assert_eq(r, 0, "no %s: %s", message_info(type)->name, strerror(-r));
    cr_assert_eq(m.type, type, "%s, not %s", message_info(m.type)->name, message_info(type)->name);
    for (size_t i = 0; i < MESSAGE_FDS_MAX; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    if (ret != NULL)
        *ret = m;
}

void front_rig_expect_engine(struct front_rig *rig, enum message_type type, struct message *ret)
{
    expect(rig->engine, MESSAGE_FRONT_TO_ENGINE, type, ret);
}

void front_rig_expect_client(int client, enum message_type type, struct message *ret)
{
    expect(client, MESSAGE_FRONT_TO_CLIENT, type, ret);
}

void front_rig_expect_nothing(int fd)
{
    char byte;
    cr_assert_lt(recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT), 0);
    cr_assert_eq(errno, EAGAIN);
}

void front_rig_expect_closed(int client)
{
    char byte;
    ssize_t n = recv(client, &byte, 1, MSG_DONTWAIT);
    // ECONNRESET: the front left something unread, as it does when it has seen enough.
    cr_assert(n == 0 || (n < 0 && errno == ECONNRESET), "%zd", n);
}

void front_rig_channel_reply(struct front_rig *rig, const struct message *add, uint32_t reason)
{
    const struct message m = {
        .type = MESSAGE_CHANNEL_REPLY,
        .serial = add->serial,
        .u.channel = {.channel = add->u.channel_add.channel, .reason = reason},
    };
    front_rig_send(rig, rig->engine, &m, NULL, 0);
}

void front_rig_stream_reply(struct front_rig *rig, const struct message *open, uint32_t reason)
{
    const struct message m = {
        .type = MESSAGE_ENGINE_REPLY,
        .serial = open->serial,
        .u.engine_stream = {.channel = open->u.engine_stream.channel,
                            .stream = open->u.engine_stream.stream,
                            .reason = reason},
    };
    front_rig_send(rig, rig->engine, &m, NULL, 0);
}

void front_rig_status_reply(struct front_rig *rig, const struct message *ask, uint32_t n_algorithms)
{
    struct message m = {.type = MESSAGE_ENGINE_SUMMARY, .serial = ask->serial};
    m.u.engine_summary.afalg_errno = EAFNOSUPPORT;
    front_rig_send(rig, rig->engine, &m, NULL, 0);
    front_rig_rows_reply(rig, ask, n_algorithms);
}

void front_rig_rows_reply(struct front_rig *rig, const struct message *ask, uint32_t n_algorithms)
{
    struct message m;

    for (uint32_t i = 0; i < n_algorithms; i++) {
        m = (struct message){.type = MESSAGE_STATUS_ALGORITHM, .serial = ask->serial};
        m.u.status_algorithm.algorithm = i;
        front_rig_send(rig, rig->engine, &m, NULL, 0);
    }
    m = (struct message){.type = MESSAGE_STATUS_END, .serial = ask->serial};
    front_rig_send(rig, rig->engine, &m, NULL, 0);
}

int front_rig_open(struct front_rig *rig, uint32_t *ret_channel)
{
    struct message add;
    int client = front_rig_connect(rig);

    front_rig_hello(rig, client, 1, NULL);
    front_rig_expect_engine(rig, MESSAGE_CHANNEL_ADD, &add);
    front_rig_channel_reply(rig, &add, MESSAGE_OK);
    front_rig_expect_client(client, MESSAGE_HELLO_REPLY, NULL);
    if (ret_channel != NULL)
        *ret_channel = add.u.channel_add.channel;
    return client;
}
