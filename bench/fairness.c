// SPDX-License-Identifier: MIT
// bench-fairness UID: what a single stream (of root) gets through a lane while another user has 50
// busy streams in it, over what it gets alone. For both lanes; the lower one counts. The daemon's
// backend must be what limits both: the script gives it a delay for each request.
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define BUSY     50
#define N_BYTES  (256u * 1024u)
#define N_STREAM 4 // calls of a stream: it rides at first, before the lane's cost is looked at
#define RUN_S    2.0
#define SETTLE_S 1
#define PAIRS    5

enum lane { REQUEST, KEYSTREAM, LANES };
static const char *const lane_names[LANES] = {"request", "keystream"};

struct shared {
    _Atomic int lane; // that the busy ones work in; LANES: rest
    _Atomic uint32_t n_ready;
    _Atomic uint64_t n_bytes[BUSY]; // through the lane
};

static uint8_t data[N_BYTES];

static uint64_t lane_bytes(void)
{
    struct cryptod_counters counters;

    cryptod_counters_get(&counters);
    return counters.request_bytes + counters.keystream_bytes;
}

// A stream asks for its lane in its first call.
static void await_lane(cryptod_stream *stream)
{
    for (int i = 0; cryptod_stream_lane(stream) == CRYPTOD_LANE_SOFTWARE; i++) {
        if (i > 20000)
            harness_die("a stream does not get its lane");
        if (cryptod_stream_crypt(stream, data, data, 16) < 0)
            harness_die("a stream failed");
        usleep(500);
    }
}

// CBC decryption is many requests at once, CTR has the keystream lane. Returns what went through
// the lane.
static uint64_t use_stream(enum lane lane)
{
    static const uint8_t key[16] = {1}, iv[16] = {2};
    const uint64_t before = lane_bytes();
    cryptod_stream *stream = NULL;

    if (cryptod_stream_new(lane == REQUEST ? CRYPTOD_AES_128_CBC : CRYPTOD_AES_128_CTR, &stream) ||
        cryptod_stream_init(stream, key, iv, lane != REQUEST))
        harness_die("no stream");
    await_lane(stream);
    for (int i = 0; i < N_STREAM; i++)
        if (cryptod_stream_crypt(stream, data, data, N_BYTES) < 0)
            harness_die("a stream failed");
    cryptod_stream_free(stream);
    return lane_bytes() - before;
}

static void open_channel(void)
{
    int r = cryptod_open(NULL, 20000);
    if (r < 0)
        harness_die("no channel: %s", strerror(-r));
}

static _Noreturn void be_busy(struct shared *shared, int index, uid_t uid)
{
    if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
        harness_die("cannot become user %u: %s", (unsigned)uid, strerror(errno));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_channel();
    atomic_fetch_add(&shared->n_ready, 1);
    for (;;) {
        int lane = atomic_load(&shared->lane);
        if (lane == LANES)
            usleep(10000);
        else
            atomic_fetch_add(&shared->n_bytes[index], use_stream((enum lane)lane));
    }
}

static uint64_t sum(const struct shared *shared)
{
    uint64_t n = 0;
    for (int i = 0; i < BUSY; i++)
        n += atomic_load(&shared->n_bytes[i]);
    return n;
}

// MB/s of the single stream; *ret_others: of the busy ones meanwhile.
static double run_single(const struct shared *shared, enum lane lane, double *ret_others)
{
    const uint64_t before = sum(shared);
    double start = harness_now(), took;
    uint64_t n_bytes = 0;

    do {
        n_bytes += use_stream(lane);
        took = harness_now() - start;
    } while (took < RUN_S);
    *ret_others = (double)(sum(shared) - before) / took / 1e6;
    return (double)n_bytes / took / 1e6;
}

static struct harness_pair measure(void *argument)
{
    struct shared *shared = argument;
    struct harness_pair lowest = {1, 0};

    for (enum lane lane = REQUEST; lane < LANES; lane++) {
        double others;
        struct harness_pair pair;
        pair.b = run_single(shared, lane, &others);
        atomic_store(&shared->lane, (int)lane);
        sleep(SETTLE_S);
        pair.a = run_single(shared, lane, &others);
        atomic_store(&shared->lane, LANES);
        sleep(SETTLE_S);
        if (pair.b <= 0)
            harness_die("nothing went through the %s lane", lane_names[lane]);
        printf("fairness %s: MB/s alone %.1f; beside %d busy streams %.1f, which have %.1f: share "
               "%.2f\n",
               lane_names[lane], pair.b, BUSY, pair.a, others, pair.a / (pair.a + others));
        if (lane == REQUEST || pair.a / pair.b < lowest.a / lowest.b)
            lowest = pair;
    }
    return lowest;
}

int main(int argc, char **argv)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (argc != 2 || shared == MAP_FAILED)
        harness_die("usage: bench-fairness UID");
    atomic_store(&shared->lane, LANES);
    for (int i = 0; i < BUSY; i++) {
        pid_t pid = fork();
        if (pid < 0)
            harness_die("fork: %s", strerror(errno));
        if (pid == 0)
            be_busy(shared, i, (uid_t)strtoul(argv[1], NULL, 10));
    }
    for (int i = 0; atomic_load(&shared->n_ready) < BUSY; i++) {
        if (i > 3000 || waitpid(-1, NULL, WNOHANG) > 0)
            harness_die("a process has no channel");
        usleep(10000);
    }
    open_channel();
    printf("fairness: a single stream beside %d busy ones of another user / alone, MB/s; the lower "
           "of both lanes\n",
           BUSY);
    harness_run("fairness", PAIRS, measure, shared);
    return 0; // the others end with this process
}
