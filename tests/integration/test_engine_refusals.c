// SPDX-License-Identifier: MIT
// What the engine process refuses: front's mistakes and clients' wrong memory, bells, streams and
// requests.
#include "engine_rig.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reference.h"
#include "role.h"
#include "fixture_proc.h"

TestSuite(engine_refusals, .timeout = 120);

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

Test(engine_refusals, keeps_its_limits)
{
    struct engine_client clients[9], refused;

    start();
    cr_expect_eq(engine_client_open(&refused, &rig, 100, 8, 16), MESSAGE_REASON_SIZE);
    for (uint32_t i = 0; i < 8; i++)
        cr_assert_eq(engine_client_open(&clients[i], &rig, i, 4, 16), MESSAGE_OK);
    cr_expect_eq(engine_client_open(&refused, &rig, 100, 4, 16), MESSAGE_REASON_LIMIT);
    engine_client_close(&clients[3]);
    cr_expect_eq(engine_client_open(&clients[3], &rig, 2, 4, 16), MESSAGE_REASON_MALFORMED,
                 "a number twice");
    cr_expect_eq(engine_client_open(&clients[3], &rig, 100, 4, 16), MESSAGE_OK);
    for (uint32_t i = 0; i < 8; i++)
        engine_client_close(&clients[i]);
    engine_rig_stop(&rig);
}

// The client's table of streams may have more places than it may use.
Test(engine_refusals, keeps_the_limit_of_streams)
{
    struct engine_client client;

    start();
    cr_assert_eq(engine_client_open(&client, &rig, 1, 4, 32), MESSAGE_OK);
    for (uint32_t i = 0; i < 16; i++)
        cr_expect_eq(engine_client_open_stream(&client, 31 - i, ALGORITHM_AES_128_CTR, key),
                     MESSAGE_OK);
    cr_expect_eq(engine_client_open_stream(&client, 0, ALGORITHM_AES_128_CTR, key),
                 MESSAGE_REASON_LIMIT);
    engine_client_close_stream(&client, 20);
    cr_expect_eq(engine_client_open_stream(&client, 0, ALGORITHM_AES_128_CTR, key), MESSAGE_OK);
    engine_client_close(&client);
    engine_rig_stop(&rig);
}

static uint32_t try_descriptors(int memory, int bell)
{
    struct message m = {.type = MESSAGE_CHANNEL_ADD, .serial = 77};
    const int fds[2] = {memory, bell};

    m.u.channel_add =
        (struct message_channel_add){.channel = 9, .uid = 1, .n_slots = 2, .n_streams = 2};
    engine_rig_send(&rig, &m, fds, 2);
    engine_rig_receive(&rig, &m);
    cr_assert_eq(m.type, MESSAGE_CHANNEL_REPLY);
    return m.u.channel.reason;
}

// Front has checked all that, but the engine does not rely on it.
Test(engine_refusals, checks_descriptors_again)
{
    struct engine_client client;
    struct shm_map map;
    int memory, unsealed, bells[2], null = open("/dev/null", O_RDWR);
    size_t before;

    start();
    before = fixture_proc_count_descriptors(rig.pid);
    cr_assert_eq(shm_create(2, 2, &map, &memory), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, bells), 0);
    unsealed = memfd_create("unsealed", MFD_ALLOW_SEALING);
    cr_assert_eq(ftruncate(unsealed, (off_t)shm_size(2)), 0);
    cr_expect_eq(try_descriptors(unsealed, bells[1]), MESSAGE_REASON_MEMORY);
    cr_expect_eq(try_descriptors(null, bells[1]), MESSAGE_REASON_MEMORY);
    cr_expect_eq(try_descriptors(bells[0], bells[1]), MESSAGE_REASON_MEMORY);
    cr_expect_eq(try_descriptors(memory, null), MESSAGE_REASON_BELL);
    cr_expect_eq(try_descriptors(memory, memory), MESSAGE_REASON_BELL);
    open_client(&client, 1);
    expect_works(&client);
    cr_expect_eq(fixture_proc_count_descriptors(rig.pid), before + 2,
                 "only the bell and the memory of this client");
    engine_client_close(&client);
    engine_rig_stop(&rig);
}

Test(engine_refusals, checks_streams)
{
    struct engine_client client, other = {.rig = &rig, .channel = 12345};

    start();
    open_client(&client, 1);
    cr_expect_eq(engine_client_open_stream(&client, 0, ALGORITHM_AES_128_CBC, key),
                 MESSAGE_REASON_MALFORMED);
    cr_expect_eq(engine_client_open_stream(&client, 16, ALGORITHM_AES_128_CBC, key),
                 MESSAGE_REASON_MALFORMED);
    cr_expect_eq(engine_client_open_stream(&client, 1, ALGORITHM_COUNT, key),
                 MESSAGE_REASON_ALGORITHM);
    cr_expect_eq(engine_client_open_stream(&client, 1, UINT32_MAX, key), MESSAGE_REASON_ALGORITHM);
    other.map = client.map;
    cr_expect_eq(engine_client_open_stream(&client, 1, ALGORITHM_AES_128_CBC, key), MESSAGE_OK);
    engine_client_close_stream(&client, 1);
    engine_client_close_stream(&client, 1);
    engine_client_close_stream(&client, 99);
    engine_client_close_stream(&other, 0);
    cr_expect_eq(engine_client_open_stream(&client, 1, ALGORITHM_AES_256_CTR, key), MESSAGE_OK);
    engine_client_expect_right(&client, 1, ALGORITHM_AES_256_CTR, key, true, 77);
    expect_works(&client);
    engine_client_close(&client);
    engine_rig_stop(&rig);
}

Test(engine_refusals, says_that_a_backend_refuses_a_key)
{
    struct engine_client client;

    start_with_fault("open_error,algorithm=aes-256-cbc");
    open_client(&client, 1);
    cr_expect_eq(engine_client_open_stream(&client, 1, ALGORITHM_AES_256_CBC, key),
                 MESSAGE_REASON_ENGINE);
    expect_works(&client);
    engine_client_close(&client);
    engine_rig_stop(&rig);
}

Test(engine_refusals, reports_a_client_that_breaks_the_rules)
{
    struct engine_client good, bad;
    struct message m;

    start();
    open_client(&good, 1);
    open_client(&bad, 2);
    expect_works(&bad);
    struct shm_request request = make_request(&bad);
    request.stream = 1000;
    engine_client_submit(&bad, &request);
    engine_rig_receive(&rig, &m);
    cr_expect_eq(m.type, MESSAGE_CHANNEL_FAULT);
    cr_expect_eq(m.u.channel.channel, 2);
    cr_expect_eq(m.u.channel.reason, MESSAGE_REASON_MALFORMED);
    expect_works(&good);
    // Front answers it with a removal, of a channel that the engine does not know any more.
    engine_client_close(&bad);
    expect_works(&good);
    open_client(&bad, 3);
    expect_works(&bad);
    engine_client_close(&bad);
    engine_client_close(&good);
    engine_rig_stop(&rig);
}
