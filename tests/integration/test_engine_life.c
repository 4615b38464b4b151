// SPDX-License-Identifier: MIT
// The engine process and its monitor: pings, a new configuration, workers that hang, and the end.
#include "engine_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "packet.h"
#include "reference.h"
#include "role.h"

TestSuite(engine_life, .timeout = 120);

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

// ---------------------------------------------------------------- the monitor

static void expect_pong(uint64_t serial)
{
    struct message m = {.type = MESSAGE_PING, .serial = serial};
    int fds[MESSAGE_FDS_MAX];

    cr_assert_eq(packet_send(rig.monitor, &m, NULL, 0), 0);
    cr_assert_eq(packet_recv(rig.monitor, MESSAGE_ROLE_TO_MONITOR, &m, fds), 0);
    cr_expect_eq(m.type, MESSAGE_PONG);
    cr_expect_eq(m.serial, serial);
}

Test(engine_life, answers_pings)
{
    start();
    for (uint64_t i = 1; i < 10; i++)
        expect_pong(i * 1000);
    engine_rig_stop(&rig);
}

Test(engine_life, takes_a_new_configuration)
{
    struct message m = {.type = MESSAGE_ROLE_CONFIG};
    struct engine_client client;

    start();
    open_client(&client, 1);
    m.u.role_config = engine_rig_config();
    m.u.role_config.offload = CONFIG_OFFLOAD_OFF;
    cr_assert_eq(packet_send(rig.monitor, &m, NULL, 0), 0);
    engine_rig_receive(&rig, &m);
    cr_assert_eq(m.type, MESSAGE_ENGINE_OFFER);
    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++)
        cr_expect_eq(m.u.engine_offer.offer[a].lanes, 0);
    cr_expect_eq(engine_client_open_stream(&client, 1, ALGORITHM_AES_128_CBC, key),
                 MESSAGE_REASON_ALGORITHM);
    expect_works(&client); // what is open stays open
    engine_client_close(&client);
    engine_rig_stop(&rig);
}

// The first wrong result: front is told that the algorithm is not offered any more, the monitor
// what to tell the next engine, and what the client got was right.
Test(engine_life, tells_front_and_monitor_of_a_quarantine)
{
    struct message_role_config config = engine_rig_config();
    struct engine_client client;
    int fds[MESSAGE_FDS_MAX];
    struct message m;

    config.backends = CONFIG_BACKEND_FAULT;
    config.verify = 1;
    strcpy(config.fault, "wrong_after=1");
    strcpy(config.quarantined, "fault-on-order aes-256-cbc other-driver aes-128-cbc");
    engine_rig_start(&rig, &config);
    cr_expect_eq(rig.offer.offer[ALGORITHM_AES_128_CBC].lanes, MESSAGE_LANE_REQUEST);
    cr_expect_eq(rig.offer.offer[ALGORITHM_AES_256_CBC].lanes, 0, "an earlier engine's finding");
    open_client(&client, 1);
    expect_works(&client);
    expect_works(&client);
    engine_rig_receive(&rig, &m);
    cr_assert_eq(m.type, MESSAGE_ENGINE_OFFER);
    cr_expect_eq(m.u.engine_offer.offer[ALGORITHM_AES_128_CBC].lanes, 0);
    cr_expect_eq(m.u.engine_offer.offer[ALGORITHM_AES_192_CBC].lanes, MESSAGE_LANE_REQUEST);
    cr_assert_eq(packet_recv(rig.monitor, MESSAGE_ROLE_TO_MONITOR, &m, fds), 0);
    cr_assert_eq(m.type, MESSAGE_QUARANTINE);
    cr_expect_eq(m.u.quarantine.algorithm, ALGORITHM_AES_128_CBC);
    cr_expect_str_eq(m.u.quarantine.driver, "fault-on-order");
    struct shm_request request = make_request(&client);
    engine_client_submit(&client, &request);
    cr_expect_eq(engine_client_wait(&client, request.sequence), -EKEYREVOKED);
    cr_expect_eq(engine_client_open_stream(&client, 1, ALGORITHM_AES_128_CBC, key),
                 MESSAGE_REASON_ALGORITHM);
    engine_client_close(&client);
    engine_rig_stop(&rig);
}

// One worker never comes back: the other serves, the main loop answers, and the end is not held up.
Test(engine_life, lives_with_a_worker_that_hangs)
{
    struct engine_client hangs, others[4];

    start_with_fault("hang_after=0,algorithm=aes-256-cbc");
    cr_assert_eq(engine_client_open(&hangs, &rig, 1, 1, 1), MESSAGE_OK);
    cr_assert_eq(engine_client_open_stream(&hangs, 0, ALGORITHM_AES_256_CBC, key), MESSAGE_OK);
    struct shm_request request = make_request(&hangs);
    engine_client_submit(&hangs, &request);
    pause_ms(100);
    // Of two channels each worker gets one, so that at least two of these four have the one that
    // works.
    for (uint32_t i = 0; i < 4; i++)
        open_client(&others[i], 2 + i);
    uint32_t n_served = 0;
    for (uint32_t i = 0; i < 4; i++) {
        request = make_request(&others[i]);
        engine_client_submit(&others[i], &request);
    }
    pause_ms(500);
    for (uint32_t i = 0; i < 4; i++)
        n_served += atomic_load(&shm_done(&others[i].map, 0)->sequence) == 1;
    cr_expect_geq(n_served, 2);
    expect_pong(1);
    // Then another thread has the channels of the one that hangs, and answers all that wait.
    for (uint32_t i = 0; i < 4; i++) {
        const int r = engine_client_wait(&others[i], 0);

        cr_expect(r == 0 || r == -EKEYREVOKED, "the driver is not used any more: %d", r);
    }
    cr_expect_eq(engine_client_wait(&hangs, 0), SHM_RESULT_LOST);
    engine_rig_stop(&rig);
}

// ---------------------------------------------------------------- the end

static void expect_exit(int expected)
{
    int status = engine_rig_wait(&rig);

    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == expected, "status %#x", (unsigned)status);
}

Test(engine_life, ends_with_its_front)
{
    start();
    close(rig.front);
    expect_exit(0);
}

Test(engine_life, ends_at_a_message_that_front_must_not_send)
{
    const struct message m = {.type = MESSAGE_HELLO};

    start();
    engine_rig_send(&rig, &m, (const int[]){0, 1}, 2);
    expect_exit(1);
}

Test(engine_life, ends_with_channels_and_requests_under_way)
{
    struct engine_client client;

    start_with_fault("delay_ms=50");
    open_client(&client, 1);
    for (int i = 0; i < 4; i++) {
        struct shm_request request = make_request(&client);
        engine_client_submit(&client, &request);
    }
    engine_rig_stop(&rig);
}

Test(engine_life, does_not_start_without_orders)
{
    struct message_role_config config = engine_rig_config();

    config.uid = 0;
    engine_rig_launch(&rig, &config);
    expect_exit(1);
}
