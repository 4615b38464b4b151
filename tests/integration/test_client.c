// SPDX-License-Identifier: MIT
// The library against the real daemon with the cpu backend: right bytes through the request lane
// whatever the sizes and places, what it costs in descriptors, what status says about it, limits.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client_flow.h"
#include "fixture.h"
#include "fixture_proc.h"

#define N_SLOT ((size_t)65536)

static struct fixture fixture;

static void stop(void)
{
    fixture_stop(&fixture);
}

TestSuite(client, .timeout = 300, .fini = stop);

ParameterizedTestParameters(client, every_size)
{
    static uint32_t ids[ALGORITHM_CHACHA20];

    for (uint32_t id = 0; id < ALGORITHM_CHACHA20; id++)
        ids[id] = id;
    return cr_make_param_array(uint32_t, ids, ALGORITHM_CHACHA20);
}

ParameterizedTest(uint32_t *id, client, every_size)
{
    fixture_start(&fixture, CLIENT_PATIENT CLIENT_REQUESTS_ONLY);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    for (int encrypt = 0; encrypt <= 1; encrypt++) {
        struct client_flow flow;
        client_flow_init(&flow, *id, encrypt);
        client_flow_enter_lane(&flow);
        struct cryptod_counters before = client_counters();
        for (size_t k = 1; k <= 8; k++)
            for (int delta = -1; delta <= 1; delta++)
                client_flow_step(&flow, k * N_SLOT + (size_t)(delta * (int)flow.info->n_block));
        for (int i = 0; i < 300; i++) {
            size_t most = reference_random_below(&flow.random, 4) == 0 ? 200000 : 300;
            client_flow_step(&flow, reference_random_below(&flow.random, most));
        }
        struct cryptod_counters after = client_counters();
        cr_assert_gt(after.request_bytes - before.request_bytes, 108 * N_SLOT);
        cr_assert_eq(after.fallbacks, 0);
        cr_assert_eq(cryptod_stream_lane(flow.stream), CRYPTOD_LANE_REQUEST);
        client_flow_fini(&flow);
    }
    cryptod_close();
    fixture_stop(&fixture);
}

Test(client, ivs_keys_and_copies_in_the_lane)
{
    fixture_start(&fixture, CLIENT_PATIENT CLIENT_REQUESTS_ONLY);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    for (uint32_t id = 0; id < ALGORITHM_CHACHA20; id += 3) {
        struct client_flow flow;
        client_flow_init(&flow, id, true);
        client_flow_enter_lane(&flow);
        uint64_t before = client_counters().request_operations;
        for (int i = 0; i < 1000; i++) {
            client_flow_restart(&flow, false);
            client_flow_step(&flow, 16 + reference_random_below(&flow.random, 2000));
        }
        cr_assert_geq(client_counters().request_operations - before, 1000);
        for (int i = 0; i < 30; i++) {
            client_flow_restart(&flow, true);
            client_flow_enter_lane(&flow);
            client_flow_step(&flow, 10000);
            // The copy goes on where the original is; then it is the original's turn.
            cryptod_stream *copy, *original = flow.stream;
            EVP_CIPHER_CTX *original_ctx = flow.ctx;
            cr_assert_eq(cryptod_stream_dup(original, &copy), 0);
            flow.stream = copy;
            flow.ctx = EVP_CIPHER_CTX_new();
            cr_assert_eq(EVP_CIPHER_CTX_copy(flow.ctx, original_ctx), 1);
            client_flow_step(&flow, 5001);
            client_flow_enter_lane(&flow);
            client_flow_step(&flow, 70000);
            cryptod_stream_free(copy);
            EVP_CIPHER_CTX_free(flow.ctx);
            flow.stream = original;
            flow.ctx = original_ctx;
            cr_assert_eq(cryptod_stream_lane(original), CRYPTOD_LANE_REQUEST);
            client_flow_step(&flow, 70000);
        }
        client_flow_fini(&flow);
    }
    cr_assert_eq(client_counters().fallbacks, 0);
    cryptod_close();
    fixture_stop(&fixture);
}

// 100 channels one after the other, and 500 streams in one: nothing is left in any process.
Test(client, costs_nothing_lasting)
{
    fixture_start(&fixture, CLIENT_PATIENT);
    size_t n_before = fixture_proc_count_descriptors(getpid());
    pid_t engine = fixture_role_pid(&fixture, "engine"),
          front = fixture_role_pid(&fixture, "front");
    size_t n_engine = fixture_proc_count_descriptors(engine),
           n_front = fixture_proc_count_descriptors(front);
    for (int round = 0; round < 100; round++) {
        struct client_flow flow;
        cr_assert_eq(cryptod_open(NULL, 5000), 0);
        cr_assert_eq(fixture_proc_count_descriptors(getpid()), n_before + 2);
        client_flow_init(&flow, ALGORITHM_AES_128_CBC, true);
        if (round % 2 == 0)
            client_flow_enter_lane(&flow);
        for (int i = 0; round == 0 && i < 500; i++) {
            client_flow_restart(&flow, true);
            client_flow_step(&flow, 4096);
        }
        if (round % 3 == 0)
            cryptod_close();
        client_flow_step(&flow, 5000);
        client_flow_fini(&flow);
        cryptod_close();
        cr_assert_eq(fixture_proc_count_descriptors(getpid()), n_before);
    }
    for (int i = 0; fixture_proc_count_descriptors(engine) != n_engine ||
                    fixture_proc_count_descriptors(front) != n_front;
         i++) {
        cr_assert_lt(i, 1000, "descriptors stay in the daemon");
        usleep(10000);
    }
    fixture_stop(&fixture);
}

static const struct cryptod_status_channel *find_channel(const struct cryptod_status *status,
                                                         pid_t pid)
{
    for (size_t i = 0; i < status->n_channel_rows; i++)
        if (status->channel_rows[i].pid == (uint32_t)pid)
            return &status->channel_rows[i];
    return NULL;
}

Test(client, status_knows_what_was_done)
{
    struct cryptod_status *status;
    struct client_flow flow;

    fixture_start(&fixture, CLIENT_PATIENT CLIENT_REQUESTS_ONLY);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    client_flow_init(&flow, ALGORITHM_AES_256_CTR, true);
    client_flow_enter_lane(&flow);
    client_flow_run(&flow, 10);
    struct cryptod_counters counters = client_counters();
    cr_assert_gt(counters.request_operations, 9);
    cr_assert_eq(cryptod_status_get(NULL, 10000, &status), 0);
    cr_assert_not(status->software_only);
    const struct cryptod_status_channel *channel = find_channel(status, getpid());
    cr_assert_not_null(channel);
    cr_assert_eq(channel->uid, geteuid());
    cr_assert_eq(channel->streams, 1);
    cr_assert_eq(channel->operations, counters.request_operations);
    cr_assert_eq(channel->bytes, counters.request_bytes);
    cr_assert_eq(channel->software_bytes, counters.software_bytes);
    cr_assert_eq(channel->fallbacks, 0);
    bool found = false;
    for (size_t i = 0; i < status->n_algorithms; i++) {
        const struct cryptod_status_algorithm *row = &status->algorithms[i];
        if (strcmp(row->algorithm, "aes-256-ctr") != 0 || strcmp(row->backend, "cpu") != 0)
            continue;
        found = true;
        cr_assert_eq(row->state, CRYPTOD_STATE_OFFERED);
        cr_assert(row->lanes & CRYPTOD_LANE_BIT(CRYPTOD_LANE_REQUEST));
        cr_assert_geq(row->operations, counters.request_operations);
        cr_assert_geq(row->bytes, counters.request_bytes);
        cr_assert_eq(row->errors, 0);
    }
    cr_assert(found);
    cryptod_status_free(status);
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);
}

Test(client, small_calls_and_short_streams_stay_in_the_process)
{
    struct client_flow flow;
    struct cryptod_status *status;

    fixture_start(&fixture, CLIENT_PATIENT "lanes.bulk_threshold=128K\nlanes.request_min=4K");
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    client_flow_init(&flow, ALGORITHM_AES_128_CBC, false);
    for (int i = 0; i < 16; i++)
        client_flow_step(&flow, 8192); // the last one begins below 128 KiB
    cr_assert_eq(cryptod_status_get(NULL, 10000, &status), 0);
    cr_assert_eq(status->streams_total, 0);
    cryptod_status_free(status);
    client_flow_enter_lane(&flow);
    uint64_t before = client_counters().request_operations;
    for (int i = 0; i < 100; i++)
        client_flow_step(&flow, 4080);
    cr_assert_eq(client_counters().request_operations, before);
    client_flow_step(&flow, 4096);
    cr_assert_eq(client_counters().request_operations, before + 1);
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);
}

Test(client, offers_follow_the_configuration)
{
    struct client_flow flow;

    fixture_start(&fixture, "lanes.offload=off");
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++)
        cr_assert_not(cryptod_offers((enum cryptod_algorithm)id));
    client_flow_init(&flow, ALGORITHM_AES_128_CBC, true);
    client_flow_run(&flow, 20);
    cr_assert_eq(client_counters().request_operations, 0);
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);

    fixture_start(&fixture, CLIENT_PATIENT);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++)
        cr_assert(cryptod_offers((enum cryptod_algorithm)id), "%s", algorithm_get(id)->name);
    client_flow_init(&flow, ALGORITHM_CHACHA20, true);
    client_flow_run(&flow, 20);
    cr_assert_eq(cryptod_stream_lane(flow.stream), CRYPTOD_LANE_SOFTWARE);
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);
}

// The exit status is what cryptod_open() says in a process of another user.
static int open_as(uid_t uid, const char *socket)
{
    pid_t pid = fork();

    cr_assert_geq(pid, 0);
    if (pid == 0) {
        if (setgid(uid) != 0 || setuid(uid) != 0)
            _exit(255);
        _exit(-cryptod_open(socket, 5000));
    }
    return client_wait(pid);
}

Test(client, refusals_of_the_real_daemon)
{
    fixture_start(&fixture, "daemon.allow_users=61993\nlimits.channels_per_uid=1");
    cr_assert_eq(open_as(61993, fixture.socket), 0);
    cr_assert_eq(open_as(61994, fixture.socket), EACCES);
    cr_assert_eq(cryptod_open(NULL, 5000), 0); // root
    cr_assert_eq(open_as(0, fixture.socket), EUSERS);
    cryptod_close();
    fixture_stop(&fixture);
    cr_assert_eq(cryptod_open(fixture.socket, 5000), -ENOENT);
}

struct worker {
    pthread_t thread;
    struct client_flow flow;
    bool right;
};

static void *work(void *argument)
{
    struct worker *worker = argument;

    worker->right = true;
    for (int i = 0; i < 100 && worker->right; i++)
        worker->right = client_flow_step_is_right(&worker->flow, (size_t)(i % 3 + 1) * 40000);
    return NULL;
}

Test(client, threads_share_the_channel)
{
    struct worker workers[ALGORITHM_COUNT];

    fixture_start(&fixture, CLIENT_PATIENT);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
    for (uint32_t i = 0; i < ALGORITHM_COUNT; i++)
        client_flow_init(&workers[i].flow, i, i % 2 == 0);
    for (uint32_t i = 0; i < ALGORITHM_COUNT; i++)
        cr_assert_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (uint32_t i = 0; i < ALGORITHM_COUNT; i++) {
        cr_assert_eq(pthread_join(workers[i].thread, NULL), 0);
        cr_assert(workers[i].right, "%s", algorithm_get(i)->name);
        client_flow_fini(&workers[i].flow);
    }
    cr_assert_gt(client_counters().request_operations, 0);
    cr_assert_eq(client_counters().fallbacks, 0);
    cryptod_close();
    fixture_stop(&fixture);
}
