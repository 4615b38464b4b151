// SPDX-License-Identifier: MIT
// libFuzzer entry for the client library with a daemon that has been taken over: it answers HELLO
// and STREAM_OPEN as the input says, and writes anything into the shared memory and both sockets,
// also in the middle of a call, whenever the library reads its bell.
//
// What must hold: no byte is touched that is not the library's, no call fails, none waits for ever,
// and once the channel is gone each stream goes on where its caller thinks that it is.
#include "fuzz_input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cryptod.h"
#include "handshake.h"
#include "packet.h"
#include "wire.h"

#define STREAMS     3u
#define STEPS_MAX   48
#define OPENS_MAX   3
#define BYTES_MAX   (140u * 1024u) // three requests
#define CLOCK_STEP  100000u        // ns: what each look at the clock takes
#define CHECK_BYTES 64u

// What a stream's caller knows.
struct model {
    cryptod_stream *stream; // NULL: none
    enum cryptod_algorithm algorithm;
    bool encrypt;
    uint8_t key[32], iv[16];
    size_t n_bytes;    // since the IV was set
    uint8_t chain[16]; // CBC: the last ciphertext block
};

static struct {
    struct fuzz_input *in;
    bool in_call; // of the library
    int n_opens;
    int control, bell; // the daemon's ends; -1: none
    struct shm_map map;
    int memory;
    uint32_t n_answered;   // requests
    struct message ask[4]; // unanswered STREAM_OPENs
    unsigned n_asked;
    uint64_t clock_ns;
} engine = {.control = -1, .bell = -1, .memory = -1};

int __wrap_wire_connect(const char *path, int *ret_fd);
ssize_t __real_read(int fd, void *to, size_t n);
ssize_t __wrap_read(int fd, void *to, size_t n);
int __wrap_ppoll(struct pollfd *items, nfds_t n, const struct timespec *limit, const void *mask);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

// ---------------------------------------------------------------- the daemon

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void engine_forget(void)
{
    close_fd(&engine.control);
    close_fd(&engine.bell);
    close_fd(&engine.memory);
    shm_unmap(&engine.map);
    engine.n_answered = engine.n_asked = 0;
}

static void say_bytes(int fd, size_t n_most)
{
    size_t n;
    const uint8_t *bytes = fuzz_bytes(engine.in, fuzz_byte(engine.in) % (n_most + 1), &n);

    if (fd >= 0)
        (void)!send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Everything is offered, unless the input changes the answer.
static void say_hello(void)
{
    struct message m = {.type = MESSAGE_HELLO_REPLY, .serial = 1};
    struct message_hello_reply *reply = &m.u.hello_reply;
    uint8_t how = fuzz_byte(engine.in);

    *reply = (struct message_hello_reply){
        .version = 1, .channel = 7, .deadline_ms = 10, .keystream_slots = how & 0x1f};
    for (unsigned i = 0; i < ALGORITHM_COUNT; i++)
        reply->offer[i].lanes = MESSAGE_LANE_REQUEST | ((how & 0x20) ? MESSAGE_LANE_KEYSTREAM : 0);
    if ((how & 0xc0) == 0x40)
        fuzz_take(engine.in, reply, fuzz_byte(engine.in) % (sizeof(*reply) + 1));
    if ((how & 0xc0) == 0x80) {
        reply->reason = fuzz_byte(engine.in) % (MESSAGE_REASON_COUNT + 1);
        reply->offer[fuzz_byte(engine.in) % ALGORITHM_COUNT].request_min = fuzz_u32(engine.in);
    }
    if ((how & 0xc0) == 0xc0)
        say_bytes(engine.control, 200);
    (void)packet_send(engine.control, &m, NULL, 0);
}

int __wrap_wire_connect(const char *path, int *ret_fd)
{
    int pair[2];

    (void)path;
    engine_forget();
    fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    engine.control = pair[0];
    say_hello();
    *ret_fd = pair[1];
    return 0;
}

// What the client said; HELLO brings memory and bell.
static void engine_hear(void)
{
    struct message m;
    int fds[MESSAGE_FDS_MAX];

    while (engine.control >= 0 &&
           packet_recv(engine.control, MESSAGE_CLIENT_TO_FRONT, &m, fds) == 0) {
        if (m.type == MESSAGE_STREAM_OPEN)
            engine.ask[engine.n_asked++ % 4] = m;
        if (m.type != MESSAGE_HELLO)
            continue;
        engine.memory = fds[0];
        engine.bell = fds[1];
        fuzz_require(shm_attach(fds[0], m.u.hello.n_slots, m.u.hello.n_streams, &engine.map) == 0);
    }
}

static void engine_answer_stream(uint8_t how)
{
    if (engine.n_asked == 0 || engine.control < 0)
        return;
    const struct message *ask = &engine.ask[--engine.n_asked % 4];
    struct message m = {.type = MESSAGE_STREAM_REPLY,
                        .serial = ask->serial + (how >> 7),
                        .u.stream_reply = {ask->u.stream_open.stream, how & 0x0f}};

    if ((how & 0x40) != 0)
        m.u.stream_reply.stream = fuzz_u32(engine.in);
    (void)packet_send(engine.control, &m, NULL, 0);
}

// Completes requests in their order, without doing them.
static void engine_answer_requests(uint8_t how)
{
    uint32_t submitted = atomic_load(&shm_header(&engine.map)->submitted);

    for (unsigned i = 0; i <= (how & 31u) && engine.n_answered != submitted; i++) {
        const struct shm_request *request = shm_request(&engine.map, engine.n_answered++);
        struct shm_done *done = shm_done(&engine.map, request->slot);

        done->result = (how & 0x40) != 0 ? (int8_t)fuzz_byte(engine.in) : 0;
        atomic_store(&done->sequence, request->sequence + 1);
    }
    if ((how & 0x80) == 0)
        (void)!send(engine.bell, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void engine_write_memory(uint8_t how)
{
    uint32_t at = fuzz_u32(engine.in);

    if ((how & 0x80) == 0)
        at %= SHM_OFF_DATA; // index words, requests, completions
    at %= (uint32_t)engine.map.size - 64;
    fuzz_take(engine.in, engine.map.base + at, 1 + (how & 63u));
}

static void engine_change_slot(uint8_t how)
{
    const uint32_t slot = fuzz_byte(engine.in) % engine.map.n_slots;

    if ((how & 4) != 0)
        (void)shm_slot_free(engine.memory, slot);
    else
        atomic_store(&shm_done(&engine.map, slot)->claim, how & 3u);
}

static void engine_turn(void)
{
    uint8_t what = fuzz_byte(engine.in), how = fuzz_byte(engine.in);

    engine_hear();
    if (engine.map.base == NULL)
        return;
    switch (what & 15) {
    case 0 ... 3:
        engine_answer_stream(how & 0x30 ? how : 0);
        engine_answer_requests(how);
        break;
    case 4 ... 5:
        engine_answer_stream(how);
        break;
    case 6:
        engine_write_memory(how);
        break;
    case 7:
        engine_change_slot(how);
        break;
    case 8:
        say_bytes(engine.control, 200);
        break;
    case 9:
        say_bytes(engine.bell, 5);
        break;
    case 10:
        close_fd((how & 1) != 0 ? &engine.bell : &engine.control);
        break;
    default:; // an engine that is late
    }
}

// ---------------------------------------------------------------- what the library calls

// A bell is read byte by byte. Nothing is waited for: what has not come has missed its deadline.
ssize_t __wrap_read(int fd, void *to, size_t n)
{
    if (!engine.in_call || n != 1)
        return __real_read(fd, to, n);
    engine_turn();
    return recv(fd, to, n, MSG_DONTWAIT);
}

int __wrap_ppoll(struct pollfd *items, nfds_t n, const struct timespec *limit, const void *mask)
{
    (void)limit;
    (void)mask;
    if (engine.in_call)
        engine_turn();
    return poll(items, n, 0);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    (void)clock;
    engine.clock_ns += CLOCK_STEP;
    ret->tv_sec = (time_t)(engine.clock_ns / 1000000000u);
    ret->tv_nsec = (long)(engine.clock_ns % 1000000000u);
    return 0;
}

// ---------------------------------------------------------------- the program

static bool is_cbc(enum cryptod_algorithm algorithm)
{
    return algorithm <= CRYPTOD_AES_256_CBC || algorithm == CRYPTOD_DES_EDE3_CBC;
}

static void program_open(void)
{
    if (engine.n_opens++ < OPENS_MAX)
        (void)cryptod_open("/", 0);
    engine_hear();
}

static void program_init(struct model *m, uint8_t how)
{
    const bool new_key = m->stream == NULL || (how & 1) != 0;

    if (m->stream == NULL) {
        m->algorithm = (enum cryptod_algorithm)(how >> 3 & 7);
        fuzz_require(cryptod_stream_new(m->algorithm, &m->stream) == 0);
    }
    if (new_key)
        memset(m->key, how | 1, sizeof(m->key));
    fuzz_take(engine.in, m->iv + 8, 8);
    m->encrypt = (how & 2) != 0;
    m->n_bytes = 0;
    memcpy(m->chain, m->iv, sizeof(m->chain));
    fuzz_require(cryptod_stream_init(m->stream, new_key ? m->key : NULL, m->iv, m->encrypt) == 0);
}

// In buffers that are no longer than they must be, so that the sanitizer sees each byte too many.
static void program_crypt(struct model *m, uint8_t how)
{
    size_t n = (size_t)fuzz_byte(engine.in) << (how & 15u);
    const size_t n_iv = m->algorithm == CRYPTOD_DES_EDE3_CBC ? 8 : 16;

    if (m->stream == NULL)
        return;
    n = n + (how >> 4) < BYTES_MAX ? n + (how >> 4) : BYTES_MAX;
    if (is_cbc(m->algorithm))
        n -= n % 16;
    uint8_t *in = calloc(1, n + 1), *out = (how & 0x10) != 0 ? in : malloc(n + 1);
    fuzz_require(in != NULL && out != NULL);
    uint8_t *from = in + 1, *to = out + 1; // unaligned, up to the end of its memory
    if (is_cbc(m->algorithm) && n > 0 && !m->encrypt)
        memcpy(m->chain, from + n - n_iv, n_iv);
    fuzz_require(cryptod_stream_crypt(m->stream, to, from, n) == 0);
    if (is_cbc(m->algorithm) && n > 0 && m->encrypt)
        memcpy(m->chain, to + n - n_iv, n_iv);
    m->n_bytes += n;
    if (out != in)
        free(out);
    free(in);
}

static void program_copy(struct model *to, const struct model *from)
{
    if (to == from || from->stream == NULL)
        return;
    cryptod_stream_free(to->stream);
    *to = *from;
    to->stream = NULL;
    fuzz_require(cryptod_stream_dup(from->stream, &to->stream) == 0);
}

static void program_look(const struct model *m)
{
    uint8_t iv[16];
    unsigned num;

    if (m->stream == NULL)
        return;
    fuzz_require(cryptod_stream_iv(m->stream, iv, &num) == 0);
    (void)cryptod_stream_lane(m->stream);
}

static void program_step(struct model *models)
{
    uint8_t what = fuzz_byte(engine.in), how = fuzz_byte(engine.in);
    struct model *m = &models[(what >> 4) % STREAMS];

    engine.in_call = true;
    switch (what & 15) {
    case 0:
        program_init(m, how);
        break;
    case 1:
        program_copy(m, &models[how % STREAMS]);
        break;
    case 2:
        cryptod_stream_free(m->stream);
        *m = (struct model){.stream = NULL};
        break;
    case 3:
        program_look(m);
        break;
    case 4:
        program_open();
        break;
    case 5 ... 7:
        engine_turn();
        break;
    default:
        program_crypt(m, how);
    }
    engine.in_call = false;
}

// Without a channel: the next bytes are those of a stream that has always been in software.
static void check_stream(const struct model *m)
{
    uint8_t got[CHECK_BYTES] = {0}, expected[CHECK_BYTES] = {0};
    cryptod_stream *reference;
    size_t n_left = is_cbc(m->algorithm) ? 0 : m->n_bytes;
    static uint8_t skipped[BYTES_MAX];

    if (m->stream == NULL)
        return;
    fuzz_require(cryptod_stream_new(m->algorithm, &reference) == 0);
    fuzz_require(cryptod_stream_init(reference, m->key, is_cbc(m->algorithm) ? m->chain : m->iv,
                                     m->encrypt) == 0);
    for (; n_left > 0; n_left -= n_left < BYTES_MAX ? n_left : BYTES_MAX)
        fuzz_require(cryptod_stream_crypt(reference, skipped, skipped,
                                          n_left < BYTES_MAX ? n_left : BYTES_MAX) == 0);
    fuzz_require(cryptod_stream_crypt(reference, expected, expected, CHECK_BYTES) == 0);
    fuzz_require(cryptod_stream_crypt(m->stream, got, got, CHECK_BYTES) == 0);
    fuzz_require(memcmp(got, expected, CHECK_BYTES) == 0);
    cryptod_stream_free(reference);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, data + n};
    struct model models[STREAMS] = {{.stream = NULL}};

    engine.in = &in;
    engine.n_opens = 0;
    program_open();
    for (int i = 0; i < STEPS_MAX && fuzz_left(&in) > 0; i++)
        program_step(models);
    cryptod_close();
    for (unsigned i = 0; i < STREAMS; i++) {
        check_stream(&models[i]);
        cryptod_stream_free(models[i].stream);
    }
    engine_forget();
    return 0;
}
