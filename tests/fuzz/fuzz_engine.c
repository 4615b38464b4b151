// SPDX-License-Identifier: MIT
// libFuzzer entry for the engine's main loop with a front that has been taken over, and clients of
// its that write anything into their memory; also orders of the monitor. Workers run. Without the
// sandbox, and without measuring, which takes seconds.
//
// Everything is said before the engine looks; it must come to an end by itself, answer with nothing
// but well-formed messages, and keep no descriptor and no memory.
#include "fuzz_input.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "calibration.h"
#include "control.h"
#include "log.h"
#include "packet.h"
#include "role.h"

#define STEPS_MAX 40
#define N_SLOTS   8u // two of the request lane and more: keystream too
#define N_STREAMS 4u
#define N_WORKERS 1u // a thread costs most of the time

static struct offer offer;
static struct message_role_config config = {
    .backends = CONFIG_BACKEND_CPU,
    .offload = CONFIG_OFFLOAD_ALWAYS,
    .channels_max = 3,
    .streams_per_channel = N_STREAMS,
    .slots_per_channel = N_SLOTS,
    .keystream_slots = 4,
    .idle_s = 30,
    .verify = 2,
    .deadline_ms = 250,
};
static struct shm_map map; // one memory for all channels and inputs
static int memory = -1, null_fd = -1;

struct scene {
    struct fuzz_input *in;
    int front, monitor; // our ends
    int bell[2];
};

int __wrap_calibration_start(struct calibration *calibration, const struct measure_subject *jobs,
                             uint32_t n_jobs);

int __wrap_calibration_start(struct calibration *calibration, const struct measure_subject *jobs,
                             uint32_t n_jobs)
{
    (void)calibration;
    (void)jobs;
    (void)n_jobs;
    return -EAGAIN;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    log_init("engine", 0);
    fuzz_require(offer_init(&offer, &config, N_WORKERS, NULL) == 0);
    offer_decide(&offer, config.offload, config.request_min);
    fuzz_require(shm_create(N_SLOTS, N_STREAMS, &map, &memory) == 0);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    fuzz_require(null_fd >= 0);
    return 0;
}

static void make_pair(int ret[2])
{
    fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret) == 0);
}

static void say(int to, const struct message *m, const int *fds, size_t n_fds)
{
    (void)packet_send(to, m, fds, n_fds); // what does not fit is not said
}

// ---------------------------------------------------------------- what a front says

static void say_add(struct scene *scene, uint8_t how)
{
    const int kinds[] = {memory, scene->bell[1], null_fd, scene->bell[0]};
    struct message m = {.type = MESSAGE_CHANNEL_ADD,
                        .serial = how,
                        .u.channel_add = {1u + (how & 3u), how >> 2 & 1u, 1, N_SLOTS, N_STREAMS}};
    int fds[2] = {memory, scene->bell[1]};

    if ((how & 0xc0) == 0x40)
        fuzz_take(scene->in, &m.u.channel_add, sizeof(m.u.channel_add));
    if ((how & 0xc0) == 0x80)
        for (unsigned i = 0; i < 2; i++)
            fds[i] = kinds[fuzz_byte(scene->in) & 3];
    say(scene->front, &m, fds, 2);
}

static void say_stream(struct scene *scene, enum message_type type, uint8_t how)
{
    struct message m = {.type = type,
                        .serial = how,
                        .u.engine_stream = {.channel = 1u + (how & 3u), .stream = how >> 2 & 7u}};

    m.u.engine_stream.algorithm = type == MESSAGE_ENGINE_OPEN ? fuzz_byte(scene->in) & 15u : 0;
    say(scene->front, &m, NULL, 0);
}

static void say_bytes(struct scene *scene, int to)
{
    size_t n;
    const uint8_t *bytes = fuzz_bytes(scene->in, fuzz_byte(scene->in), &n);

    (void)!send(to, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// What the engine needs no new start for.
static void say_config(struct scene *scene, uint8_t how)
{
    struct message m = {.type = MESSAGE_ROLE_CONFIG, .u.role_config = config};

    if ((how & 1) != 0) {
        say(scene->monitor, &(struct message){.type = MESSAGE_PING, .serial = how}, NULL, 0);
        return;
    }
    m.u.role_config.offload = how >> 1 & 3u;
    m.u.role_config.request_min = fuzz_u32(scene->in);
    m.u.role_config.channels_max = how >> 3 & 3u;
    m.u.role_config.slots_per_channel = how >> 4;
    m.u.role_config.idle_s = fuzz_byte(scene->in);
    say(scene->monitor, &m, NULL, 0);
}

// ---------------------------------------------------------------- what a client writes

// A request that is right but for what the input changes in it.
static void write_request(struct scene *scene, uint8_t how)
{
    struct shm_header *header = shm_header(&map);
    uint32_t submitted = atomic_load(&header->submitted);
    struct shm_request *request = shm_request(&map, submitted);

    *request = (struct shm_request){.sequence = submitted,
                                    .stream = how & 3u,
                                    .operation = 1u + (how >> 2 & 3u) % 3u,
                                    .n_bytes = (fuzz_byte(scene->in) + 1u) * 64u};
    request->slot =
        request->operation == SHM_OP_KEYSTREAM ? SHM_SLOTS_REQUEST + (how >> 4 & 3u) : how >> 4;
    if ((how & 0x80) != 0)
        fuzz_take(scene->in, (uint8_t *)request + (fuzz_byte(scene->in) & 63u) % 60u, 4);
    atomic_store(&header->submitted, submitted + 1);
    (void)!send(scene->bell[0], "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void write_memory(struct scene *scene)
{
    uint32_t at = fuzz_u32(scene->in) % (SHM_OFF_DATA - 64);

    fuzz_take(scene->in, map.base + at, 1 + (fuzz_byte(scene->in) & 63u));
}

static void step(struct scene *scene)
{
    uint8_t what = fuzz_byte(scene->in), how = fuzz_byte(scene->in);

    switch (what & 15) {
    case 0:
    case 1:
        say_add(scene, how);
        break;
    case 2:
    case 3:
        say_stream(scene, MESSAGE_ENGINE_OPEN, how);
        break;
    case 4:
        say_stream(scene, MESSAGE_ENGINE_CLOSE, how);
        break;
    case 5:
        say(scene->front,
            &(struct message){.type = MESSAGE_CHANNEL_REMOVE, .u.channel = {1u + (how & 3u), 0}},
            NULL, 0);
        break;
    case 6:
        say(scene->front, &(struct message){.type = MESSAGE_ENGINE_STATUS, .serial = how}, NULL, 0);
        break;
    case 7:
        say(scene->front,
            &(struct message){.type = MESSAGE_ENGINE_CALIBRATE, .u.calibrate = {how & 1u}}, NULL,
            0);
        break;
    case 8:
        say_config(scene, how);
        break;
    case 9:
        say_bytes(scene, (how & 7) == 0 ? scene->monitor : scene->front);
        break;
    case 10:
        write_memory(scene);
        break;
    default:
        write_request(scene, how);
    }
}

// ---------------------------------------------------------------- the engine

static void hear(int fd, enum message_direction direction)
{
    struct message m;
    int fds[MESSAGE_FDS_MAX], r;

    while ((r = packet_recv(fd, direction, &m, fds)) == 0)
        ;
    fuzz_require(r == -ENODATA || r == -ECONNRESET || r == -EAGAIN);
}

static void scene_run(struct scene *scene, int front, int monitor)
{
    static const struct message_calibration_key key = {.cpus = 1};
    const struct control_settings settings = {.config = &config,
                                              .offer = &offer,
                                              .key = &key,
                                              .n_workers = N_WORKERS,
                                              .front_fd = front,
                                              .monitor_fd = monitor};
    struct control *control;

    fuzz_require(control_new(&settings, &control) == 0 && control_start(control) == 0);
    while (fuzz_left(scene->in) > 0)
        step(scene);
    (void)shutdown(scene->front, SHUT_WR);
    (void)shutdown(scene->monitor, SHUT_WR);
    (void)control_run(control);
    fuzz_require(control_stop(control));
    control_free(control);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, data + (n < 4096 ? n : 4096)};
    struct scene scene = {.in = &in};
    int front[2], monitor[2];
    const int before = dup(null_fd);

    close(before);
    make_pair(front);
    make_pair(monitor);
    make_pair(scene.bell);
    memset(map.base, 0, SHM_OFF_DATA);
    scene.front = front[0];
    scene.monitor = monitor[0];
    scene_run(&scene, front[1], monitor[1]);
    close(front[1]);
    close(monitor[1]);
    hear(scene.front, MESSAGE_ENGINE_TO_FRONT);
    hear(scene.monitor, MESSAGE_ROLE_TO_MONITOR);
    close(scene.front);
    close(scene.monitor);
    close(scene.bell[0]);
    close(scene.bell[1]);
    const int after = dup(null_fd); // the lowest free number is what it was
    fuzz_require(after == before);
    close(after);
    offer_decide(&offer, config.offload, config.request_min);
    return 0;
}
