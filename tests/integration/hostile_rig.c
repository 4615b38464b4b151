// SPDX-License-Identifier: MIT
// See hostile_rig.h. The transfer is another process, so that nothing that a test does to its own
// (descriptors, forks, limits) reaches it.
#include "hostile_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cryptod.h"
#include "fixture_proc.h"
#include "reference.h"

#define STEP_MS     10
#define STEPS       6000  // a minute
#define PIECE       4080u // bytes: short enough that no clock decides on the lane
#define N_PIECES    64    // of a stream
#define OPEN_LIMIT  30000
#define PATIENCE    50 // ms, for what may never come
#define LANE_OF_CBC 0
#define LANE_OF_CTR 1

struct hostile_progress {
    _Atomic bool stop;
    _Atomic uint64_t n_bytes[2]; // by the request lane, by the keystream lane
    _Atomic uint64_t n_troubles; // fallbacks and deadlines
    _Atomic bool is_wrong;
};

static void sleep_step(void)
{
    nanosleep(&(struct timespec){.tv_nsec = STEP_MS * 1000000L}, NULL);
}

// ---------------------------------------------------------------- the transfer

static bool transfer_stream(enum cryptod_algorithm algorithm, struct hostile_progress *progress)
{
    static const uint8_t key[32] = {1}, iv[16] = {2};
    uint8_t in[PIECE], out[PIECE], expected[PIECE];
    EVP_CIPHER_CTX *reference = reference_new((enum algorithm_id)algorithm, key, iv, true);
    cryptod_stream *stream;
    bool is_right = cryptod_stream_new(algorithm, &stream) == 0 &&
                    cryptod_stream_init(stream, key, iv, true) == 0;

    for (unsigned i = 0; is_right && i < N_PIECES && !atomic_load(&progress->stop); i++) {
        struct cryptod_counters counters;

        memset(in, (int)i, sizeof(in));
        reference_update(reference, expected, in, PIECE);
        is_right =
            cryptod_stream_crypt(stream, out, in, PIECE) == 0 && memcmp(out, expected, PIECE) == 0;
        cryptod_counters_get(&counters);
        atomic_store(&progress->n_bytes[LANE_OF_CBC], counters.request_bytes);
        atomic_store(&progress->n_bytes[LANE_OF_CTR], counters.keystream_bytes);
        atomic_store(&progress->n_troubles, counters.fallbacks + counters.timeouts);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); // leaves something for others
    }
    EVP_CIPHER_CTX_free(reference);
    cryptod_stream_free(stream);
    return is_right;
}

static int transfer_run(const char *socket, struct hostile_progress *progress)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (cryptod_open(socket, OPEN_LIMIT) < 0)
        return 2;
    while (!atomic_load(&progress->stop))
        if (!transfer_stream(CRYPTOD_AES_128_CBC, progress) ||
            !transfer_stream(CRYPTOD_AES_256_CTR, progress)) {
            atomic_store(&progress->is_wrong, true);
            return 3;
        }
    cryptod_close();
    return 0;
}

void hostile_setup(struct hostile_rig *rig, const char *extra_conf)
{
    char conf[1024];

    snprintf(conf, sizeof(conf), "%s%s", RAW_PATIENT, extra_conf != NULL ? extra_conf : "");
    fixture_start(&rig->fixture, conf);
    rig->progress = mmap(NULL, sizeof(*rig->progress), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(rig->progress, MAP_FAILED);
    fflush(NULL);
    rig->transfer = fork();
    cr_assert_geq(rig->transfer, 0);
    if (rig->transfer == 0)
        _exit(transfer_run(rig->fixture.socket, rig->progress));
    hostile_check(rig);
    rig->front = fixture_role_pid(&rig->fixture, "front");
    rig->engine = fixture_role_pid(&rig->fixture, "engine");
    rig->n_front = fixture_proc_count_descriptors(rig->front);
    rig->n_engine = fixture_proc_count_descriptors(rig->engine);
}

void hostile_check(struct hostile_rig *rig)
{
    struct hostile_progress *progress = rig->progress;
    const uint64_t n_request = atomic_load(&progress->n_bytes[LANE_OF_CBC]),
                   n_keystream = atomic_load(&progress->n_bytes[LANE_OF_CTR]);

    for (int i = 0;; i++) {
        cr_assert_not(atomic_load(&progress->is_wrong), "the transfer went wrong");
        cr_assert_eq(atomic_load(&progress->n_troubles), 0, "the transfer was disturbed");
        if (atomic_load(&progress->n_bytes[LANE_OF_CBC]) > n_request &&
            atomic_load(&progress->n_bytes[LANE_OF_CTR]) > n_keystream)
            return;
        cr_assert_lt(i, STEPS, "the transfer does not go on; the daemon says: %s",
                     fixture_log(&rig->fixture));
        sleep_step();
    }
}

void hostile_check_all(struct hostile_rig *rig)
{
    hostile_check(rig);
    raw_wait_fds(rig->front, rig->n_front);
    raw_wait_fds(rig->engine, rig->n_engine);
    cr_assert_eq(fixture_role_pid(&rig->fixture, "front"), rig->front, "front was restarted");
    cr_assert_eq(fixture_role_pid(&rig->fixture, "engine"), rig->engine, "engine was restarted");
}

void hostile_teardown(struct hostile_rig *rig)
{
    int status;

    if (rig->progress == NULL) // skipped
        return;
    hostile_check_all(rig);
    atomic_store(&rig->progress->stop, true);
    cr_assert_eq(waitpid(rig->transfer, &status, 0), rig->transfer);
    cr_assert_eq(status, 0, "the transfer ended with %#x", (unsigned)status);
    munmap(rig->progress, sizeof(*rig->progress));
    rig->progress = NULL;
    fixture_stop(&rig->fixture);
}

// ---------------------------------------------------------------- a client

void hostile_client_make(struct hostile_client *client, int *ret_bell)
{
    int bells[2];

    *client = (struct hostile_client){.control = -1};
    cr_assert_eq(shm_create(HOSTILE_SLOTS, HOSTILE_STREAMS, &client->map, &client->memory), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, bells), 0);
    client->bell = bells[0];
    *ret_bell = bells[1];
}

void hostile_client_open(struct hostile_client *client, const struct hostile_rig *rig)
{
    struct message m;
    int bell;

    hostile_client_make(client, &bell);
    client->control = raw_connect(&rig->fixture);
    raw_hello_fill(&m);
    m.u.hello.n_slots = HOSTILE_SLOTS;
    m.u.hello.n_streams = HOSTILE_STREAMS;
    cr_assert(raw_send_message(client->control, &m, (const int[]){client->memory, bell}, 2));
    close(bell);
    raw_expect(client->control, MESSAGE_HELLO_REPLY, &m);
    cr_assert_eq(m.u.hello_reply.reason, MESSAGE_OK, "%s",
                 message_reason_text(m.u.hello_reply.reason));
}

void hostile_client_close(struct hostile_client *client)
{
    if (client->control >= 0)
        close(client->control);
    if (client->bell >= 0)
        close(client->bell);
    if (client->memory >= 0)
        close(client->memory);
    shm_unmap(&client->map);
}

void hostile_client_open_stream(struct hostile_client *client, uint32_t stream, uint32_t algorithm)
{
    struct message m = {
        .type = MESSAGE_STREAM_OPEN, .serial = stream, .u.stream_open = {stream, algorithm}};

    cr_assert(raw_send_message(client->control, &m, NULL, 0));
    raw_expect(client->control, MESSAGE_STREAM_REPLY, &m);
    cr_assert_eq(m.u.stream_reply.reason, MESSAGE_OK);
}

struct shm_request hostile_client_make_request(const struct hostile_client *client, bool keystream)
{
    const uint32_t turn = client->n_requests[keystream] % SHM_SLOTS_REQUEST;

    return (struct shm_request){
        .sequence = client->sequence,
        .stream = keystream ? 1 : 0,
        .operation = keystream ? SHM_OP_KEYSTREAM : SHM_OP_ENCRYPT,
        .n_bytes = keystream ? SHM_SLOT_SIZE : 4096,
        .slot = keystream ? SHM_SLOTS_REQUEST + turn : turn,
    };
}

void hostile_client_publish(struct hostile_client *client, uint32_t submitted)
{
    atomic_store(&shm_header(&client->map)->submitted, submitted);
    (void)!send(client->bell, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void hostile_client_submit(struct hostile_client *client, const struct shm_request *request)
{
    atomic_store(&shm_done(&client->map, request->slot)->claim, SHM_CLAIM_NOBODY);
    *shm_request(&client->map, client->sequence++) = *request;
    client->n_requests[request->operation == SHM_OP_KEYSTREAM]++;
    hostile_client_publish(client, client->sequence);
}

void hostile_client_wait(struct hostile_client *client)
{
    const uint32_t last = client->sequence - 1;
    const uint32_t slot = shm_request(&client->map, last)->slot;

    for (int i = 0; atomic_load(&shm_done(&client->map, slot)->sequence) != last + 1; i++) {
        cr_assert_lt(i, STEPS, "a request does not come back");
        sleep_step();
    }
    cr_assert_eq(shm_done(&client->map, slot)->result, 0);
}

bool hostile_client_wait_or_end(struct hostile_client *client)
{
    const uint32_t last = client->sequence - 1;
    const uint32_t slot = shm_request(&client->map, last)->slot;
    struct pollfd item = {.fd = client->control, .events = POLLIN};

    for (int i = 0; i < PATIENCE; i++) {
        if (atomic_load(&shm_done(&client->map, slot)->sequence) == last + 1)
            return true;
        if (poll(&item, 1, 1) > 0 && (item.revents & POLLHUP) != 0)
            return false;
    }
    return false;
}
