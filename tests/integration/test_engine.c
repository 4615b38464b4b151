// SPDX-License-Identifier: MIT
// The engine process in its sandbox: what it answers to front and monitor, what it does for
// channels, how it ends.
#include "engine_rig.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "reference.h"
#include "role.h"
#include "fixture_proc.h"

TestSuite(engine, .timeout = 120);

static struct engine_rig rig;
static uint8_t key[ALGORITHM_KEY_MAX];

static void start(void)
{
    struct message_role_config config = engine_rig_config();
    struct reference_random random = {.state = 5};

    reference_random_fill(&random, key, sizeof(key));
    engine_rig_start(&rig, &config);
}

static void start_with_fault(const char *spec)
{
    struct message_role_config config = engine_rig_config();

    config.backends = CONFIG_BACKEND_FAULT | CONFIG_BACKEND_CPU;
    strncpy(config.fault, spec, sizeof(config.fault) - 1);
    engine_rig_start(&rig, &config);
}

static void pause_ms(long ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

static void open_client(struct engine_client *client, uint32_t channel)
{
    cr_assert_eq(engine_client_open(client, &rig, channel, 4, 16), MESSAGE_OK);
    cr_assert_eq(engine_client_open_stream(client, 0, ALGORITHM_AES_128_CBC, key), MESSAGE_OK);
}

static void expect_works(struct engine_client *client)
{
    engine_client_expect_right(client, 0, ALGORITHM_AES_128_CBC, key, true, 4096);
}

static struct shm_request make_request(const struct engine_client *client)
{
    return (struct shm_request){.sequence = client->sequence,
                                .slot = client->sequence % SHM_SLOTS_REQUEST,
                                .stream = 0,
                                .operation = SHM_OP_ENCRYPT,
                                .n_bytes = 64};
}

// ---------------------------------------------------------------- what it is

// A line of /proc/PID/status.
static void expect_status_line(pid_t pid, const char *expected)
{
    char path[64], line[256];
    bool found = false;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    while (!found && fgets(line, sizeof(line), file))
        found = strncmp(line, expected, strlen(expected)) == 0;
    fclose(file);
    cr_expect(found, "no line '%s'", expected);
}

Test(engine, gives_up_everything_before_it_serves)
{
    start();
    expect_status_line(rig.pid, "Uid:\t61991\t61991\t61991\t61991\n");
    expect_status_line(rig.pid, "Gid:\t61991\t61991\t61991\t61991\n");
    expect_status_line(rig.pid, "Seccomp:\t2\n");
    expect_status_line(rig.pid, "NoNewPrivs:\t1\n");
    expect_status_line(rig.pid, "CapEff:\t0000000000000000\n");
    expect_status_line(rig.pid, "CapPrm:\t0000000000000000\n");
    expect_status_line(rig.pid, "CapBnd:\t0000000000000000\n");
#ifdef __SANITIZE_THREAD__ // which has a thread of its own
    expect_status_line(rig.pid, "Threads:\t4\n");
#else
    expect_status_line(rig.pid, "Threads:\t3\n");
#endif
    engine_rig_stop(&rig);
}

// Counts what every thread of the engine has done by way of sleeping and waking.
static unsigned long count_switches(pid_t pid)
{
    char path[512], line[256];
    unsigned long sum = 0, n;

    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *directory = opendir(path);
    cr_assert_not_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        while (file && fgets(line, sizeof(line), file))
            if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1)
                sum += n;
        if (file)
            fclose(file);
    }
    closedir(directory);
    return sum;
}

Test(engine, does_nothing_while_idle)
{
    struct engine_client clients[3];
    unsigned long before;

#ifdef __SANITIZE_THREAD__
    cr_skip_test("ThreadSanitizer has a thread of its own, which never rests");
#endif
    start();
    for (uint32_t i = 0; i < 3; i++) {
        open_client(&clients[i], i + 1);
        expect_works(&clients[i]);
    }
    close(clients[2].bell); // a client that is gone, and that front has not noticed
    pause_ms(300);
    before = count_switches(rig.pid);
    pause_ms(500);
    cr_expect_eq(count_switches(rig.pid), before);
    clients[2].bell = -1;
    for (uint32_t i = 0; i < 3; i++)
        engine_client_close(&clients[i]);
    engine_rig_stop(&rig);
}

// ---------------------------------------------------------------- requests

Test(engine, serves_every_algorithm)
{
    struct engine_client client;

    start();
    cr_assert_eq(engine_client_open(&client, &rig, 7, 4, 16), MESSAGE_OK);
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        const uint32_t reason = engine_client_open_stream(&client, a, a, key);

        const enum algorithm_mode mode = algorithm_get(a)->mode;

        cr_expect_eq(rig.offer.offer[a].lanes, mode == ALGORITHM_CHACHA ? MESSAGE_LANE_KEYSTREAM
                                               : mode == ALGORITHM_CTR
                                                   ? MESSAGE_LANE_REQUEST | MESSAGE_LANE_KEYSTREAM
                                                   : MESSAGE_LANE_REQUEST);
        cr_assert_eq(reason, MESSAGE_OK);
        for (uint32_t i = 1; i <= 10; i++) {
            engine_client_expect_right(&client, a, a, key, true, i * 6400);
            engine_client_expect_right(&client, a, a, key, false, i * 6400);
        }
        engine_client_expect_right(&client, a, a, key, true, SHM_SLOT_SIZE);
    }
    engine_client_close(&client);
    engine_rig_stop(&rig);
}

Test(engine, keeps_channels_apart)
{
    struct engine_client clients[4];

    start();
    for (uint32_t i = 0; i < 4; i++) {
        key[0] = (uint8_t)i;
        open_client(&clients[i], 10 + i);
    }
    for (uint32_t n = 0; n < 40; n++) {
        key[0] = (uint8_t)(n % 4);
        expect_works(&clients[n % 4]);
    }
    for (uint32_t i = 0; i < 4; i++)
        engine_client_close(&clients[i]);
    engine_rig_stop(&rig);
}

Test(engine, gives_back_what_channels_took)
{
    struct engine_client client;
    size_t before;

    start();
    before = fixture_proc_count_descriptors(rig.pid);
    for (uint32_t i = 0; i < 100; i++) {
        open_client(&client, i);
        expect_works(&client);
        engine_client_close(&client);
    }
    // The last bell's end of file comes before the descriptor's number is free.
    for (int i = 0; i < 1000 && fixture_proc_count_descriptors(rig.pid) != before; i++)
        pause_ms(10);
    cr_expect_eq(fixture_proc_count_descriptors(rig.pid), before);
    engine_rig_stop(&rig);
}

// ---------------------------------------------------------------- status

struct status {
    struct message_engine_summary summary;
    uint32_t n_algorithms;
    struct message_status_algorithm algorithms[32];
    uint32_t n_channels;
    struct message_engine_channel channels[16];
};

static void get_status(struct status *ret)
{
    struct message m = {.type = MESSAGE_ENGINE_STATUS, .serial = 4711};

    memset(ret, 0, sizeof(*ret));
    engine_rig_send(&rig, &m, NULL, 0);
    do {
        engine_rig_receive(&rig, &m);
        cr_assert_eq(m.serial, 4711);
        if (m.type == MESSAGE_ENGINE_SUMMARY)
            ret->summary = m.u.engine_summary;
        else if (m.type == MESSAGE_STATUS_ALGORITHM)
            ret->algorithms[ret->n_algorithms++ % 32] = m.u.status_algorithm;
        else if (m.type == MESSAGE_ENGINE_CHANNEL)
            ret->channels[ret->n_channels++ % 16] = m.u.engine_channel;
        else
            cr_assert_eq(m.type, MESSAGE_STATUS_END);
    } while (m.type != MESSAGE_STATUS_END);
}

Test(engine, reports_its_status)
{
    struct engine_client client, idle;
    struct status status;

    start_with_fault("error_every=4,algorithm=aes-128-cbc");
    open_client(&client, 3);
    open_client(&idle, 4);
    cr_assert_eq(engine_client_open_stream(&client, 1, ALGORITHM_DES_EDE3_CBC, key), MESSAGE_OK);
    for (int i = 0; i < 3; i++)
        expect_works(&client);
    struct shm_request request = make_request(&client);
    engine_client_submit(&client, &request);
    cr_expect_eq(engine_client_wait(&client, request.sequence), -EIO);
    engine_client_expect_right(&client, 1, ALGORITHM_DES_EDE3_CBC, key, true, 800);
    atomic_store(&shm_header(&client.map)->software_bytes, 123456789012);
    atomic_store(&shm_header(&client.map)->fallbacks, 5);
    atomic_store(&shm_header(&client.map)->lane_changes, 6);
    get_status(&status);
    cr_expect_eq(status.summary.channels, 2);
    cr_expect_eq(status.summary.streams, 3);
    cr_expect_eq(status.summary.workers, 2);
    cr_expect_eq(status.summary.afalg_errno, EOPNOTSUPP);
    cr_expect_str_eq(status.summary.text, "backend afalg is not configured");
    cr_assert_eq(status.n_algorithms, 2 * ALGORITHM_COUNT);
    for (uint32_t i = 0; i < status.n_algorithms; i++) {
        const struct message_status_algorithm *row = &status.algorithms[i];
        const bool fault = i % 2 == 0;

        cr_expect_eq(row->algorithm, i / 2);
        cr_expect_str_eq(row->backend, fault ? "fault" : "cpu");
        cr_expect_eq(row->state, fault ? MESSAGE_STATE_OFFERED : MESSAGE_STATE_DECLINED);
        cr_expect_eq(strncmp(row->driver, fault ? "fault-on-order" : "OpenSSL 3", 9), 0);
        cr_expect_eq(row->operations, !fault ? 0
                                      : i / 2 == ALGORITHM_AES_128_CBC
                                          ? 3
                                          : i / 2 == ALGORITHM_DES_EDE3_CBC);
        cr_expect_eq(row->errors, fault && i / 2 == ALGORITHM_AES_128_CBC ? 1 : 0);
    }
    cr_expect_eq(status.algorithms[0].bytes, 3 * 4096);
    cr_assert_eq(status.n_channels, 2);
    const struct message_engine_channel *busy =
        status.channels[0].channel == 3 ? &status.channels[0] : &status.channels[1];
    cr_expect_eq(busy->channel, 3);
    cr_expect_eq(busy->streams, 2);
    cr_expect_eq(busy->operations, 4);
    cr_expect_eq(busy->bytes, 3 * 4096 + 800);
    cr_expect_eq(busy->software_bytes, 123456789012);
    cr_expect_eq(busy->fallbacks, 5);
    cr_expect_eq(busy->lane_changes, 6);
    engine_client_close(&client);
    engine_client_close(&idle);
    engine_rig_stop(&rig);
}

// A front that asks again and again without reading: nothing is lost, nobody waits.
Test(engine, does_not_wait_for_a_front_that_does_not_read)
{
    struct message m = {.type = MESSAGE_ENGINE_STATUS};
    struct engine_client client;
    uint64_t n_ends = 0;

    start();
    open_client(&client, 1);
    for (uint64_t i = 1; i <= 100; i++) {
        m.serial = i;
        engine_rig_send(&rig, &m, NULL, 0);
    }
    pause_ms(100);
    expect_works(&client);
    while (n_ends < 100) {
        engine_rig_receive(&rig, &m);
        if (m.type == MESSAGE_STATUS_END)
            cr_assert_eq(m.serial, ++n_ends);
    }
    engine_client_close(&client);
    engine_rig_stop(&rig);
}
