// SPDX-License-Identifier: MIT
// libFuzzer entry for the front: sequences of what clients and the engine may do to it, in one
// process, without the sandbox.
//
// The input is a list of steps: one byte says what, one byte who, then what that needs. Whatever
// the clients say, the front must not end, must forward nothing but well-formed messages in its own
// numbers, and must have nothing left once they are gone. Whatever the engine says, it may end, but
// nothing may be touched that is not there.
#include "front.h"
#include "fuzz_input.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"
#include "packet.h"
#include "role.h"

#define CLIENTS   4u
#define STEPS_MAX 64

#define FDS_MAX 253u // the most that the kernel carries in one packet

struct scene {
    struct front front;
    int monitor;
    int engine;
    int clients[CLIENTS];    // -1: not connected
    bool engine_lied;        // it may have ended the front
    struct message heard[8]; // what the engine was asked last
    unsigned n_heard;
};

// Made once: right and wrong things to pass.
static int good_memory = -1, good_bell[2] = {-1, -1}, null_fd = -1;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct shm_map map;

    (void)argc;
    (void)argv;
    log_init("front", 0); // nothing
    fuzz_require(shm_create(1, 4, &map, &good_memory) == 0);
    shm_unmap(&map);
    fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, good_bell) ==
                 0);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    fuzz_require(null_fd >= 0);
    return 0;
}

static void make_pair(int ret[2])
{
    fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret) == 0);
}

static void scene_turn(struct scene *scene)
{
    for (int i = 0; i < 3; i++)
        event_base_loop(scene->front.base, EVLOOP_NONBLOCK);
    fuzz_require(scene->engine_lied || scene->front.exit_status == 0);
}

// The engine must get well-formed messages only; packet_recv() checks that for us.
static void scene_hear(struct scene *scene)
{
    struct message m;
    int fds[MESSAGE_FDS_MAX], r;

    while ((r = packet_recv(scene->engine, MESSAGE_FRONT_TO_ENGINE, &m, fds)) == 0) {
        for (size_t i = 0; i < MESSAGE_FDS_MAX; i++) {
            if (fds[i] >= 0)
                close(fds[i]);
        }
        scene->heard[scene->n_heard++ % 8] = m;
    }
    fuzz_require(r == -EAGAIN);
}

static void send_with_fds(int to, const void *bytes, size_t n_bytes, const int *fds, size_t n_fds)
{
    union {
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = n_bytes};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (n_fds > 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    (void)!sendmsg(to, &msg,
                   MSG_NOSIGNAL | MSG_DONTWAIT); // what does not fit or is refused is not sent
}

// Up to 3 descriptors of a kind each that the input chooses, or as many as there can be.
static size_t take_fds(struct fuzz_input *in, int *ret)
{
    const int kinds[] = {good_memory, good_bell[1], null_fd, good_bell[0]};
    uint8_t choice = fuzz_byte(in);
    size_t n = choice & 3u;

    if (choice == 0xff)
        n = FDS_MAX;
    for (size_t i = 0; i < n; i++)
        ret[i] = kinds[(choice >> (2 + 2 * (i % 3))) & 3u];
    return n;
}

static void step_client_bytes(struct fuzz_input *in, int client)
{
    int fds[FDS_MAX];
    size_t n_fds = take_fds(in, fds);
    size_t n;
    const uint8_t *bytes = fuzz_bytes(in, fuzz_byte(in), &n);

    send_with_fds(client, bytes, n, fds, n_fds);
}

// Well-formed, with small numbers of the input's choice: a fuzzer gets deep with these.
static void step_client_message(struct fuzz_input *in, int client)
{
    static const enum message_type types[] = {MESSAGE_HELLO, MESSAGE_STREAM_OPEN,
                                              MESSAGE_STREAM_CLOSE, MESSAGE_STATUS,
                                              MESSAGE_CALIBRATE};
    struct message m = {.type = types[fuzz_byte(in) % 5u], .serial = fuzz_left(in)};
    int fds[2] = {good_memory, good_bell[1]};
    uint8_t buf[MESSAGE_LEN_MAX];
    size_t n;
    uint8_t a = fuzz_byte(in), b = fuzz_byte(in);

    if (m.type == MESSAGE_HELLO)
        m.u.hello = (struct message_hello){1u + (a >> 5 & 1u), 1u + (a & 1u), a >> 6, b & 63u};
    else if (m.type == MESSAGE_STREAM_OPEN)
        m.u.stream_open = (struct message_stream_open){a & 7u, b & 15u};
    else if (m.type == MESSAGE_STREAM_CLOSE)
        m.u.stream_close = (struct message_stream_close){a & 7u};
    else if (m.type == MESSAGE_CALIBRATE)
        m.u.calibrate = (struct message_calibrate){a & 1u};
    if (message_encode(&m, buf, sizeof(buf), &n) == 0)
        send_with_fds(client, buf, n, fds, message_info(m.type)->n_fds);
}

static void answer(const struct scene *scene, const struct message *ask, uint8_t how)
{
    static const enum message_type of_status[] = {MESSAGE_STATUS_END, MESSAGE_ENGINE_SUMMARY,
                                                  MESSAGE_STATUS_ALGORITHM, MESSAGE_ENGINE_CHANNEL},
                                   of_calibration[] = {
                                       MESSAGE_CALIBRATION_END, MESSAGE_CALIBRATION_PROGRESS,
                                       MESSAGE_CALIBRATION, MESSAGE_CALIBRATION_END};
    struct message m = {.serial = ask->serial};

    switch (ask->type) {
    case MESSAGE_CHANNEL_ADD:
        m.type = (how & 0x80) != 0 ? MESSAGE_CHANNEL_FAULT : MESSAGE_CHANNEL_REPLY;
        m.u.channel = (struct message_channel){ask->u.channel_add.channel, how & 0x0f};
        break;
    case MESSAGE_ENGINE_OPEN:
        m.type = MESSAGE_ENGINE_REPLY;
        m.u.engine_stream = ask->u.engine_stream;
        m.u.engine_stream.reason = how & 0x0f;
        break;
    case MESSAGE_ENGINE_STATUS:
        m.type = of_status[how >> 6];
        m.u.engine_channel.channel = how & 0x0f; // where there is one
        break;
    case MESSAGE_ENGINE_CALIBRATE:
        m.type = of_calibration[how >> 6];
        break;
    default:
        return;
    }
    packet_send(scene->engine, &m, NULL, 0);
}

// The honest engine: answers one of the last questions, in any order, any number of times.
static void step_engine_answer(struct scene *scene, struct fuzz_input *in)
{
    uint8_t which = fuzz_byte(in), how = fuzz_byte(in);
    unsigned n = scene->n_heard < 8 ? scene->n_heard : 8;

    if (n > 0)
        answer(scene, &scene->heard[(scene->n_heard - 1 - which % n) % 8], how);
}

// A client as it should be, up to its open channel: the way to what lies behind that.
static void step_hello(struct scene *scene, int client)
{
    const struct message m = {.type = MESSAGE_HELLO, .u.hello = {1, 1, 1, 8}};

    packet_send(client, &m, (const int[]){good_memory, good_bell[1]}, 2);
    scene_turn(scene);
    scene_hear(scene);
    if (scene->n_heard > 0)
        answer(scene, &scene->heard[(scene->n_heard - 1) % 8], MESSAGE_OK);
}

static void step_engine_bytes(struct scene *scene, struct fuzz_input *in)
{
    size_t n;
    const uint8_t *bytes = fuzz_bytes(in, fuzz_byte(in), &n);

    scene->engine_lied = true;
    send_with_fds(scene->engine, bytes, n, NULL, 0);
}

static void step_connect(struct scene *scene, unsigned who)
{
    int pair[2];

    if (scene->clients[who] >= 0)
        return;
    make_pair(pair);
    fuzz_require(client_new(&scene->front, pair[1]) == 0);
    scene->clients[who] = pair[0];
    if (who == CLIENTS - 1) { // one that is nobody
        struct access_peer *peer = &LIST_FIRST(&scene->front.clients)->peer;
        peer->allowed = peer->admin = false;
    }
}

static void client_drop(struct scene *scene, unsigned who)
{
    if (scene->clients[who] >= 0)
        close(scene->clients[who]);
    scene->clients[who] = -1;
}

static void scene_step(struct scene *scene, struct fuzz_input *in)
{
    uint8_t what = fuzz_byte(in);
    unsigned who = fuzz_byte(in) % CLIENTS;

    step_connect(scene, who);
    switch (what % 8u) {
    case 0:
        step_client_bytes(in, scene->clients[who]);
        break;
    case 1:
    case 2:
    case 3:
        step_client_message(in, scene->clients[who]);
        break;
    case 4:
        step_engine_answer(scene, in);
        break;
    case 5:
        step_hello(scene, scene->clients[who]);
        break;
    case 6:
        client_drop(scene, who);
        break;
    default:
        step_engine_bytes(scene, in);
        break;
    }
    scene_turn(scene);
    scene_hear(scene);
}

static void scene_init(struct scene *scene)
{
    const struct message_role_config config = {
        .uid = 1,
        .gid = 1,
        .offload = CONFIG_OFFLOAD_ALWAYS,
        .channels_max = 3,
        .channels_per_uid = 3,
        .streams_per_channel = 2,
        .slots_per_channel = 1,
    };
    struct message offer = {.type = MESSAGE_ENGINE_OFFER};
    int monitor[2], engine[2];

    *scene = (struct scene){.clients = {-1, -1, -1, -1}};
    make_pair(monitor);
    make_pair(engine);
    scene->monitor = monitor[0];
    scene->engine = engine[0];
    fuzz_require(front_init(&scene->front, &config, monitor[1], engine[1], -1) == 0);
    for (unsigned i = 0; i < 4; i++)
        offer.u.engine_offer.offer[i].lanes = MESSAGE_LANE_REQUEST;
    fuzz_require(packet_send(scene->engine, &offer, NULL, 0) == 0);
    scene_turn(scene);
}

// The honest end: everybody leaves, the engine answers what it was asked; then nothing may be left.
static void scene_check_empty(struct scene *scene)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        client_drop(scene, i);
    scene_turn(scene);
    scene_hear(scene);
    for (const struct client *client = LIST_FIRST(&scene->front.clients); client != NULL;
         client = LIST_NEXT(client, link)) {
        fuzz_require(client->state == CLIENT_GONE && client->channel != 0);
        fuzz_require(client->add_serial != 0 || client->n_pending > 0);
    }
    if (LIST_EMPTY(&scene->front.clients)) {
        for (unsigned kind = 0; kind < ACCOUNT_KIND_COUNT; kind++)
            fuzz_require(account_count(scene->front.account, (enum account_kind)kind) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, data + n};
    struct scene scene;

    scene_init(&scene);
    for (int i = 0; i < STEPS_MAX && fuzz_left(&in) > 0 && scene.front.exit_status == 0; i++)
        scene_step(&scene, &in);
    if (!scene.engine_lied)
        scene_check_empty(&scene);
    for (unsigned i = 0; i < CLIENTS; i++)
        client_drop(&scene, i);
    front_fini(&scene.front);
    close(scene.monitor);
    close(scene.engine);
    return 0;
}
