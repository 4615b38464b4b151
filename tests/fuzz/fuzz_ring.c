// SPDX-License-Identifier: MIT
// libFuzzer entry for the engine's side of the ring: a client that writes anything into requests of
// both lanes, completions, keys and index words. Each input is a series of steps; after each the
// engine collects and runs what it believes.
#include "channel.h"
#include "fuzz_input.h"

#include <sys/socket.h>
#include <unistd.h>

#define N_SLOTS   8u // four of the request lane, four for keystream
#define N_STREAMS 4u

static struct backend *backend;
static struct fair_queue *queue;
static struct statistics statistics;
static struct verify_trust trust;
static struct shm_map map; // one for all inputs: making memory takes most of the time
static int memfd = -1;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const struct backend_settings settings = {.workers = 1};

    (void)argc;
    (void)argv;
    fuzz_require(backend_cpu_ops.init(&settings, &backend) == 0 && fair_queue_new(&queue) == 0);
    fuzz_require(shm_create(N_SLOTS, N_STREAMS, &map, &memfd) == 0);
    return 0;
}

static struct channel *make_channel(int *ret_bell)
{
    const struct message_channel_add add = {
        .channel = 1, .uid = 1, .n_slots = N_SLOTS, .n_streams = N_STREAMS};
    struct channel *channel = NULL;
    int bells[2];

    memset(map.base, 0, SHM_OFF_DATA);
    fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, bells) == 0);
    // The channel takes its memfd over; the map is used again by the next input.
    fuzz_require(channel_new(&add, dup(memfd), bells[1], queue, &channel) == 0);
    *ret_bell = bells[0];
    return channel;
}

static void open_stream(struct channel *channel, uint32_t stream, uint32_t algorithm)
{
    const struct algorithm_info *info = algorithm_get(algorithm);
    uint8_t bytes[ALGORITHM_KEY_MAX];
    const struct key_source source = {.info = info,
                                      .ops = &backend_cpu_ops,
                                      .backend = backend,
                                      .statistics = &statistics,
                                      .trust = &trust};
    struct key *key;

    if (!info || channel_take_key(channel, stream, bytes, info->n_key) < 0)
        return;
    fuzz_require(key_open(&source, bytes, &key) == 0);
    channel_set_stream(channel, stream, key);
}

// A request that is right but for what the input changes in it: whole random ones never get past
// the first check.
static void write_request(struct fuzz_input *input, uint32_t submitted)
{
    struct shm_request *request = shm_request(&map, submitted);
    uint8_t changes = fuzz_byte(input);

    memset(request, 0, sizeof(*request));
    request->sequence = submitted;
    request->stream = changes & 3;
    request->operation = changes & 4 ? SHM_OP_ENCRYPT : SHM_OP_DECRYPT;
    request->n_bytes = (fuzz_byte(input) + 1u) * 64;
    request->slot = submitted % SHM_SLOTS_REQUEST;
    if (changes & 64) {
        request->operation = SHM_OP_KEYSTREAM;
        request->slot += SHM_SLOTS_REQUEST;
        atomic_store(&shm_done(&map, request->slot)->claim, changes >> 7);
    }
    if (changes & 8)
        fuzz_take(input, request->iv, sizeof(request->iv));
    if (changes & 16)
        fuzz_take(input, &request->n_bytes, sizeof(request->n_bytes));
    if (changes & 32)
        fuzz_take(input, request, sizeof(*request));
}

static void run_all(void)
{
    struct fair_item *item;
    uint32_t n_left;

    while ((item = fair_queue_pop(queue, &n_left)))
        channel_run(item, NULL);
}

static void step(struct fuzz_input *input, struct channel *channel)
{
    struct shm_header *header = shm_header(&map);
    uint32_t submitted = atomic_load(&header->submitted);
    uint8_t order = fuzz_byte(input);

    switch (order & 7) {
    case 0:
        open_stream(channel, order >> 3 & 3, order >> 5);
        break;
    case 1:
        channel_close_stream(channel, order >> 3);
        break;
    case 2:
        fuzz_take(input, &submitted, sizeof(submitted));
        atomic_store(&header->submitted, submitted);
        break;
    case 3:
        fuzz_take(input, map.base + (order & 8 ? SHM_OFF_DONE : SHM_OFF_STREAM), 128);
        break;
    case 4:
        channel_tend(channel); // takes keystream memory back, if the client was idle
        break;
    default:
        write_request(input, submitted);
        atomic_store(&header->submitted, submitted + 1);
    }
    if (order & 0x80)
        return; // the engine sleeps a little longer
    int r = channel_collect(channel);
    fuzz_require(r <= (int)N_SLOTS && (r >= 0 || channel_fault(channel)));
    if (order & 0x40)
        run_all();
    (void)channel_begin_sleep(channel);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input input = {data, data + n};
    struct message_engine_channel report;
    int bell;
    struct channel *channel = make_channel(&bell);

    while (input.at < input.end)
        step(&input, channel);
    channel_collect(channel);
    run_all();
    channel_report(channel, &report);
    fuzz_require(report.streams <= N_STREAMS);
    channel_unref(channel);
    close(bell);
    return 0;
}
