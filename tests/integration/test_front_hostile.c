// SPDX-License-Identifier: MIT
// Hostile clients against a real daemon. Each is closed with a reason in the log, leaves no
// descriptor in the front, and a well-behaved client beside it goes on through the engine.
#include "front_raw.h"
#include "front_wrong.h"
#include "fixture_proc.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define MALFORMED "malformed message or wrong descriptors"
#define MEMORY    "HELLO: shared memory of the wrong kind, seals or size"
#define BELL      "HELLO: bell of the wrong kind"

struct hostile {
    const char *name;
    void (*act)(const struct fixture *f, int client, const struct hostile *hostile);
    const char *reason; // in the log
    uint32_t a, b;      // what `act` makes of them
    int (*make)(void);  // the wrong descriptor
};

// ---------------------------------------------------------------- wrong bytes

static void put32(uint8_t *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

// A right STATUS, of which the 32-bit word at offset a is b.
static void act_word(const struct fixture *f, int client, const struct hostile *h)
{
    const struct message m = {.type = MESSAGE_STATUS, .serial = 1};
    uint8_t buf[MESSAGE_LEN_MAX];
    size_t n;

    (void)f;
    cr_assert_eq(message_encode(&m, buf, sizeof(buf), &n), 0);
    put32(buf + h->a, h->b);
    raw_send(client, buf, n, NULL, 0);
}

// The first a bytes of a right STATUS with zeros after it, with b descriptors.
static void act_length(const struct fixture *f, int client, const struct hostile *h)
{
    const struct message m = {.type = MESSAGE_STATUS, .serial = 1};
    uint8_t buf[2 * MESSAGE_LEN_MAX] = {0};
    size_t n;
    int fds[RAW_FDS_MAX];

    (void)f;
    cr_assert_eq(message_encode(&m, buf, sizeof(buf), &n), 0);
    for (size_t i = 0; i < RAW_FDS_MAX; i++)
        fds[i] = client;
    raw_send(client, buf, h->a, fds, h->b);
}

// A well-formed message of type a that clients do not send.
static void act_type(const struct fixture *f, int client, const struct hostile *h)
{
    const struct message m = {.type = (enum message_type)h->a, .serial = 1};

    (void)f;
    raw_send_message(client, &m, NULL, 0);
}

// ---------------------------------------------------------------- wrong HELLOs

static void send_hello(int client, uint32_t n_slots, uint32_t n_streams, const int *fds,
                       size_t n_fds)
{
    struct message m;

    raw_hello_fill(&m);
    m.u.hello.n_slots = n_slots;
    m.u.hello.n_streams = n_streams;
    raw_send_message(client, &m, fds, n_fds);
}

static void act_hello_count(const struct fixture *f, int client, const struct hostile *h)
{
    struct raw_channel channel;
    int fds[RAW_FDS_MAX];

    (void)f;
    raw_channel_make(&channel);
    for (size_t i = 0; i < RAW_FDS_MAX; i++)
        fds[i] = i == 0 ? channel.memory : channel.bell[1];
    send_hello(client, 2, 4, fds, h->a);
    raw_channel_free(&channel);
}

static void act_hello_geometry(const struct fixture *f, int client, const struct hostile *h)
{
    struct raw_channel channel;

    (void)f;
    raw_channel_make(&channel);
    send_hello(client, h->a, h->b, (const int[]){channel.memory, channel.bell[1]}, 2);
    raw_channel_free(&channel);
}

// Wrong memory (a = 0) or a wrong bell (a = 1).
static void act_hello_wrong(const struct fixture *f, int client, const struct hostile *h)
{
    struct raw_channel channel;
    int wrong = h->make();

    (void)f;
    cr_assert_geq(wrong, 0, "%s: %s", h->name, strerror(errno));
    raw_channel_make(&channel);
    int fds[2] = {channel.memory, channel.bell[1]};
    fds[h->a] = wrong;
    send_hello(client, 2, 4, fds, 2);
    raw_channel_free(&channel);
    close(wrong);
}

static void act_hello_swapped(const struct fixture *f, int client, const struct hostile *h)
{
    struct raw_channel channel;

    (void)f;
    (void)h;
    raw_channel_make(&channel);
    send_hello(client, 2, 4, (const int[]){channel.bell[1], channel.memory}, 2);
    raw_channel_free(&channel);
}

// ---------------------------------------------------------------- wrong order

static void send_stream_open(int client, uint32_t stream, uint32_t algorithm)
{
    const struct message m = {
        .type = MESSAGE_STREAM_OPEN, .serial = 9, .u.stream_open = {stream, algorithm}};

    raw_send_message(client, &m, NULL, 0);
}

static void send_stream_close(int client, uint32_t stream)
{
    const struct message m = {.type = MESSAGE_STREAM_CLOSE, .u.stream_close = {stream}};

    raw_send_message(client, &m, NULL, 0);
}

static void hello_and_wait(int client)
{
    struct raw_channel channel;
    struct message reply;

    raw_channel_make(&channel);
    send_hello(client, 2, 4, (const int[]){channel.memory, channel.bell[1]}, 2);
    raw_expect(client, MESSAGE_HELLO_REPLY, &reply);
    cr_assert_eq(reply.u.hello_reply.reason, MESSAGE_OK);
    raw_channel_free(&channel);
}

static void act_hello_twice(const struct fixture *f, int client, const struct hostile *h)
{
    struct raw_channel channel;

    (void)f;
    (void)h;
    hello_and_wait(client);
    raw_channel_make(&channel);
    send_hello(client, 2, 4, (const int[]){channel.memory, channel.bell[1]}, 2);
    raw_channel_free(&channel);
}

static void act_open_early(const struct fixture *f, int client, const struct hostile *h)
{
    (void)f;
    send_stream_open(client, h->a, h->b);
}

static void act_close_early(const struct fixture *f, int client, const struct hostile *h)
{
    (void)f;
    send_stream_close(client, h->a);
}

static void act_open(const struct fixture *f, int client, const struct hostile *h)
{
    (void)f;
    hello_and_wait(client);
    send_stream_open(client, h->a, h->b);
}

static void act_open_twice(const struct fixture *f, int client, const struct hostile *h)
{
    act_open(f, client, h);
    send_stream_open(client, h->a, h->b);
}

static void act_close(const struct fixture *f, int client, const struct hostile *h)
{
    (void)f;
    hello_and_wait(client);
    send_stream_close(client, h->a);
}

static void act_status_flood(const struct fixture *f, int client, const struct hostile *h)
{
    const struct message m = {.type = MESSAGE_STATUS, .serial = 1};

    (void)f;
    (void)h;
    while (raw_send_message(client, &m, NULL, 0)) // it never reads
        ;
}

// ---------------------------------------------------------------- the table

static const struct hostile hostiles[] = {
    {"zero type", act_word, MALFORMED, 0, 0, NULL},
    {"unknown type", act_word, MALFORMED, 0, 5000, NULL},
    {"length too small", act_word, MALFORMED, 4, 16, NULL},
    {"length too large", act_word, MALFORMED, 4, 24, NULL},
    {"length huge", act_word, MALFORMED, 4, UINT32_MAX, NULL},
    {"reserved field not zero", act_word, MALFORMED, 16, 1, NULL},
    {"one byte", act_length, MALFORMED, 1, 0, NULL},
    {"header alone", act_length, MALFORMED, 16, 0, NULL},
    {"one byte less", act_length, MALFORMED, 19, 0, NULL},
    {"one byte more", act_length, MALFORMED, 21, 0, NULL},
    {"more than the longest", act_length, MALFORMED, 2 * MESSAGE_LEN_MAX, 0, NULL},
    {"empty packet", act_length, MALFORMED, 0, 0, NULL},
    {"descriptors with an empty packet", act_length, MALFORMED, 0, 3, NULL},
    {"descriptor with STATUS", act_length, MALFORMED, 20, 1, NULL},
    {"253 descriptors with STATUS", act_length, MALFORMED, 20, 253, NULL},
    {"answer as question", act_type, MALFORMED, MESSAGE_STREAM_REPLY, 0, NULL},
    {"what front tells the engine", act_type, MALFORMED, MESSAGE_ENGINE_OPEN, 0, NULL},
    {"what the engine tells front", act_type, MALFORMED, MESSAGE_ENGINE_OFFER, 0, NULL},
    {"an order of the monitor", act_type, MALFORMED, MESSAGE_ROLE_CONFIG, 0, NULL},
    {"a ping", act_type, MALFORMED, MESSAGE_PING, 0, NULL},

    {"HELLO without descriptors", act_hello_count, MALFORMED, 0, 0, NULL},
    {"HELLO with 1 descriptor", act_hello_count, MALFORMED, 1, 0, NULL},
    {"HELLO with 3 descriptors", act_hello_count, MALFORMED, 3, 0, NULL},
    {"HELLO with 253 descriptors", act_hello_count, MALFORMED, 253, 0, NULL},
    {"no slots", act_hello_geometry, "HELLO: a message or a request broke the rules", 0, 4, NULL},
    {"3 slots", act_hello_geometry, "HELLO: a message or a request broke the rules", 3, 4, NULL},
    {"too many slots", act_hello_geometry, "HELLO: a message or a request broke the rules", 128, 4,
     NULL},
    {"no streams", act_hello_geometry, "HELLO: a message or a request broke the rules", 2, 0, NULL},
    {"too many streams", act_hello_geometry, "HELLO: a message or a request broke the rules", 2, 33,
     NULL},
    {"more slots than there is memory", act_hello_geometry, MEMORY, 4, 4, NULL},

    {"unsealed memory", act_hello_wrong, MEMORY, 0, 0, wrong_memory_unsealed},
    {"memory that may shrink", act_hello_wrong, MEMORY, 0, 0, wrong_memory_may_shrink},
    {"memory that may grow", act_hello_wrong, MEMORY, 0, 0, wrong_memory_may_grow},
    {"write-sealed memory", act_hello_wrong, MEMORY, 0, 0, wrong_memory_write_sealed},
    {"short memory", act_hello_wrong, MEMORY, 0, 0, wrong_memory_short},
    {"long memory", act_hello_wrong, MEMORY, 0, 0, wrong_memory_long},
    {"sparse memory", act_hello_wrong, MEMORY, 0, 0, wrong_memory_sparse},
    {"half sparse memory", act_hello_wrong, MEMORY, 0, 0, wrong_memory_half_sparse},
    {"a file as memory", act_hello_wrong, MEMORY, 0, 0, wrong_memory_file},
    {"read-only memory", act_hello_wrong, MEMORY, 0, 0, wrong_memory_read_only},
    {"a pipe as memory", act_hello_wrong, MEMORY, 0, 0, wrong_pipe_end},
    {"a folder as memory", act_hello_wrong, MEMORY, 0, 0, wrong_folder},

    {"a file as bell", act_hello_wrong, BELL, 1, 0, wrong_memory_file},
    {"a pipe as bell", act_hello_wrong, BELL, 1, 0, wrong_pipe_end},
    {"a stream socket as bell", act_hello_wrong, BELL, 1, 0, wrong_bell_stream},
    {"a datagram socket as bell", act_hello_wrong, BELL, 1, 0, wrong_bell_datagram},
    {"an unconnected socket as bell", act_hello_wrong, BELL, 1, 0, wrong_bell_unconnected},
    {"a listening socket as bell", act_hello_wrong, BELL, 1, 0, wrong_bell_listening},
    {"an internet socket as bell", act_hello_wrong, BELL, 1, 0, wrong_bell_internet},
    {"memory and bell swapped", act_hello_swapped, BELL, 0, 0, NULL},

    {"HELLO twice", act_hello_twice, "HELLO out of order", 0, 0, NULL},
    {"STREAM_OPEN first", act_open_early, "STREAM_OPEN out of order", 0, 0, NULL},
    {"STREAM_CLOSE first", act_close_early, "STREAM_CLOSE out of order", 0, 0, NULL},
    {"stream out of range", act_open, "STREAM_OPEN: stream 4 out of range", 4, 0, NULL},
    {"stream far out of range", act_open, "stream 4294967295 out of range", UINT32_MAX, 0, NULL},
    {"unknown algorithm", act_open, "unknown algorithm 8", 0, ALGORITHM_COUNT, NULL},
    {"stream opened twice", act_open_twice, "STREAM_OPEN: stream 1 is open", 1,
     ALGORITHM_AES_128_CBC, NULL},
    {"close of a closed stream", act_close, "STREAM_CLOSE: stream 1 is not open", 1, 0, NULL},
    {"close out of range", act_close, "STREAM_CLOSE: stream 77 out of range", 77, 0, NULL},
    {"questions without reading", act_status_flood, "STATUS before the last one was answered", 0, 0,
     NULL},
};

static struct fixture fixture;

static void hostile_setup(void)
{
    fixture_start(&fixture, RAW_PATIENT);
    raw_witness_start(&fixture);
}

static void hostile_teardown(void)
{
    raw_witness_stop();
    fixture_stop(&fixture);
}

TestSuite(front_hostile, .init = hostile_setup, .fini = hostile_teardown, .timeout = 300);

Test(front_hostile, each_is_closed_alone_and_named)
{
    const char *from = "client closed: pid ";
    pid_t front = fixture_role_pid(&fixture, "front"),
          engine = fixture_role_pid(&fixture, "engine");
    unsigned n_front = fixture_proc_count_descriptors(front),
             n_engine = fixture_proc_count_descriptors(engine);

    for (size_t i = 0; i < sizeof(hostiles) / sizeof(hostiles[0]); i++) {
        const struct hostile *h = &hostiles[i];
        unsigned n_lines = raw_log_count(&fixture, from, h->reason);
        int client = raw_connect(&fixture);
        cr_log_info("%s", h->name);
        h->act(&fixture, client, h);
        raw_expect_closed(client);
        close(client);
        raw_wait_log_count(&fixture, from, h->reason, n_lines + 1);
        raw_wait_fds(front, n_front);
        raw_wait_fds(engine, n_engine);
        raw_witness_check();
        if (i % 10 == 9) // the log has so many lines a second
            sleep(1);
    }
    cr_assert_eq(fixture_role_pid(&fixture, "front"), front, "still the same process");
    cr_assert_eq(fixture_role_pid(&fixture, "engine"), engine, "still the same process");
    struct message_status_summary summary;
    raw_status(&fixture, &summary);
    cr_assert_eq(summary.violations_total, sizeof(hostiles) / sizeof(hostiles[0]));
    cr_assert_eq(summary.channels, 1);
}
