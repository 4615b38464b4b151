// SPDX-License-Identifier: MIT
// The whole engine process with backend afalg, in its sandbox, on a kernel that has AF_ALG;
// elsewhere skipped, with the reason.
#include "engine_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reference.h"
#include "role.h"
#include "fixture_proc.h"

TestSuite(afalg_engine, .timeout = 200);

static struct engine_rig rig;
static uint8_t key[ALGORITHM_KEY_MAX];

static void start_comparing(const char *deny, uint32_t verify)
{
    struct message_role_config config = engine_rig_config();
    struct reference_random random = {.state = 5};
    int fd = socket(AF_ALG, SOCK_SEQPACKET, 0);

    if (fd < 0)
        cr_skip_test("this kernel gives no AF_ALG socket: %s", strerror(errno));
    close(fd);
    reference_random_fill(&random, key, sizeof(key));
    config.backends = CONFIG_BACKEND_AFALG | CONFIG_BACKEND_CPU;
    strcpy(config.deny_drivers, deny);
    config.verify = verify;
    engine_rig_start(&rig, &config);
}

static void start(const char *deny)
{
    start_comparing(deny, 0);
}

// Of the rows of a status, those of backend afalg.
static void get_rows(struct message_status_algorithm ret[ALGORITHM_COUNT],
                     struct message_engine_summary *ret_summary)
{
    struct message m = {.type = MESSAGE_ENGINE_STATUS};

    engine_rig_send(&rig, &m, NULL, 0);
    do {
        engine_rig_receive(&rig, &m);
        if (m.type == MESSAGE_STATUS_ALGORITHM &&
            strcmp(m.u.status_algorithm.backend, "afalg") == 0)
            ret[m.u.status_algorithm.algorithm] = m.u.status_algorithm;
        else if (m.type == MESSAGE_ENGINE_SUMMARY)
            *ret_summary = m.u.engine_summary;
    } while (m.type != MESSAGE_STATUS_END);
}

// Every result, in the sandbox: the kernel's driver and OpenSSL agree.
Test(afalg_engine, compares_results_in_use)
{
    struct message_status_algorithm rows[ALGORITHM_COUNT];
    struct message_engine_summary summary;
    struct engine_client client;

    start_comparing("", 1);
    cr_assert_eq(engine_client_open(&client, &rig, 1, 4, 16), MESSAGE_OK);
    for (uint32_t a = 0; a <= ALGORITHM_DES_EDE3_CBC; a++) {
        cr_assert_eq(engine_client_open_stream(&client, a, a, key), MESSAGE_OK);
        for (uint32_t i = 1; i <= 5; i++) {
            engine_client_expect_right(&client, a, a, key, true, i * 12800);
            engine_client_expect_right(&client, a, a, key, false, i * 12800);
        }
    }
    get_rows(rows, &summary);
    for (uint32_t a = 0; a <= ALGORITHM_DES_EDE3_CBC; a++) {
        cr_expect_eq(rows[a].state, MESSAGE_STATE_OFFERED, "%s", rows[a].text);
        cr_expect_eq(rows[a].verified, 10);
        cr_expect_eq(rows[a].mismatches, 0);
    }
    engine_client_close(&client);
    engine_rig_stop(&rig);
}

Test(afalg_engine, serves_every_algorithm_from_its_sandbox)
{
    struct message_status_algorithm rows[ALGORITHM_COUNT];
    struct message_engine_summary summary;
    struct engine_client client;

    start("");
    cr_assert_eq(engine_client_open(&client, &rig, 1, 4, 16), MESSAGE_OK);
    for (uint32_t a = 0; a <= ALGORITHM_DES_EDE3_CBC; a++) {
        cr_assert_eq(engine_client_open_stream(&client, a, a, key), MESSAGE_OK);
        for (uint32_t i = 1; i <= 10; i++) {
            engine_client_expect_right(&client, a, a, key, true, i * 6400);
            engine_client_expect_right(&client, a, a, key, false, i * 6400);
        }
        engine_client_expect_right(&client, a, a, key, true, SHM_SLOT_SIZE);
    }
    get_rows(rows, &summary);
    cr_expect_eq(summary.afalg_errno, 0);
    cr_expect_str_eq(summary.text, "AF_ALG works");
    for (uint32_t a = 0; a <= ALGORITHM_DES_EDE3_CBC; a++) {
        cr_expect_eq(rows[a].state, MESSAGE_STATE_OFFERED, "%s", rows[a].text);
        cr_expect_eq(rows[a].operations, 21);
        cr_expect_eq(rows[a].errors, 0);
        cr_expect_neq(rows[a].driver[0], '\0');
    }
    engine_client_close(&client);
    engine_rig_stop(&rig);
}

// An answer to this comes after all that was asked before is done with, descriptors included.
static void settle(struct engine_client *client)
{
    cr_assert_eq(engine_client_open_stream(client, 0, ALGORITHM_COUNT, key),
                 MESSAGE_REASON_ALGORITHM);
}

Test(afalg_engine, gives_back_sockets_of_keys)
{
    struct engine_client client;
    size_t before;

    start("");
    cr_assert_eq(engine_client_open(&client, &rig, 1, 4, 16), MESSAGE_OK);
    settle(&client);
    before = fixture_proc_count_descriptors(rig.pid);
    for (int round = 0; round < 3; round++) {
        for (uint32_t stream = 0; stream < 16; stream++) {
            cr_assert_eq(engine_client_open_stream(&client, stream, ALGORITHM_AES_128_CTR, key),
                         MESSAGE_OK);
            engine_client_expect_right(&client, stream, ALGORITHM_AES_128_CTR, key, true, 1000);
        }
        cr_expect_eq(fixture_proc_count_descriptors(rig.pid), before + 16 * 4);
        for (uint32_t stream = 0; stream < 16; stream++)
            engine_client_close_stream(&client, stream);
        settle(&client);
        for (int i = 0; i < 2000 && fixture_proc_count_descriptors(rig.pid) != before; i++)
            usleep(10000); // a thread of the driver's own closes them
        cr_expect_eq(fixture_proc_count_descriptors(rig.pid), before);
    }
    engine_client_close(&client);
    engine_rig_stop(&rig);
}

Test(afalg_engine, keeps_the_deny_list)
{
    struct message_status_algorithm rows[ALGORITHM_COUNT];
    struct message_engine_summary summary;
    struct engine_client client;

    start("some-other ctr(aes) ecb(aes)");
    get_rows(rows, &summary);
    cr_expect_eq(rows[ALGORITHM_AES_128_CTR].state, MESSAGE_STATE_DENIED);
    cr_expect_str_eq(rows[ALGORITHM_AES_128_CTR].text, "on the list deny_drivers");
    cr_expect_eq(rows[ALGORITHM_AES_128_CBC].state, MESSAGE_STATE_OFFERED);
    // Backend cpu takes its place.
    cr_assert_eq(engine_client_open(&client, &rig, 1, 4, 16), MESSAGE_OK);
    cr_assert_eq(engine_client_open_stream(&client, 0, ALGORITHM_AES_128_CTR, key), MESSAGE_OK);
    engine_client_expect_right(&client, 0, ALGORITHM_AES_128_CTR, key, true, 5000);
    get_rows(rows, &summary);
    cr_expect_eq(rows[ALGORITHM_AES_128_CTR].operations, 0);
    engine_client_close(&client);
    engine_rig_stop(&rig);
}

// What is offered has passed the comparison with OpenSSL, so the counter blocks are right.
Test(afalg_engine, makes_keystream_from_ecb_where_there_is_no_ctr)
{
    struct message_status_algorithm rows[ALGORITHM_COUNT];
    struct message_engine_summary summary;

    start("ctr(aes)");
    get_rows(rows, &summary);
    for (uint32_t a = ALGORITHM_AES_128_CTR; a <= ALGORITHM_AES_256_CTR; a++) {
        cr_expect_eq(rows[a].state, MESSAGE_STATE_OFFERED);
        cr_expect_eq(rows[a].lanes, MESSAGE_LANE_KEYSTREAM);
        cr_expect_eq(strncmp(rows[a].driver, "ecb", 3), 0, "%s", rows[a].driver);
        cr_expect_str_eq(rows[a].text, "from ecb(aes): on the list deny_drivers");
    }
    engine_rig_stop(&rig);
}
