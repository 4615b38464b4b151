// SPDX-License-Identifier: MIT
// The keystream lane in forked processes and on bad days of the real daemon: not one wrong byte,
// and the lane comes back.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client_flow.h"
#include "fixture.h"
#include "ssh_packets.h"

#define N_SLOT   65536u
#define N_PACKET 32784u

static struct fixture fixture;

static void stop(void)
{
    fixture_stop(&fixture);
}

TestSuite(client_keystream_trouble, .timeout = 300, .fini = stop);

static bool packets_are_right(struct ssh_packets *packets, int n)
{
    for (int i = 0; i < n; i++)
        if (!ssh_packets_send_is_right(packets, N_PACKET))
            return false;
    return true;
}

// In a child: until its own channel gives keystream.
static int child_packets(struct ssh_packets *packets)
{
    for (int i = 0; client_counters().keystream_bytes < 20 * N_PACKET; i++) {
        if (!packets_are_right(packets, 1))
            return 1;
        if (i >= 10000)
            return 2;
        usleep(1000);
    }
    return 0;
}

static int child_flow(struct client_flow *flow, size_t n_first)
{
    if (!client_flow_step_is_right(flow, n_first))
        return 1;
    for (int i = 0; client_counters().keystream_bytes < 10 * N_SLOT; i++) {
        if (!client_flow_step_is_right(flow, 30001))
            return 1;
        if (i >= 10000)
            return 2;
        usleep(1000);
    }
    return 0;
}

// Parent and child go on from the same byte, anywhere in the window; the parent's keystream stays
// the parent's.
Test(client_keystream_trouble, forks_in_mid_stream)
{
    struct client_flow flow;

    client_start(&fixture, CLIENT_PATIENT);
    client_flow_init(&flow, ALGORITHM_AES_256_CTR, true);
    client_flow_enter_lane(&flow);
    for (size_t i = 0; i < 12; i++) {
        client_flow_step(&flow, 2 * N_SLOT + i * 5461);
        pid_t pid = fork();
        cr_assert_geq(pid, 0);
        if (pid == 0) {
            int r = client_lane_bytes() == 0 ? child_flow(&flow, i + 1) : 3;
            cryptod_stream_free(flow.stream);
            _exit(r);
        }
        uint64_t software = client_counters().software_bytes;
        for (int step = 0; step < 20; step++)
            client_flow_step(&flow, 20000);
        cr_assert_eq(client_counters().software_bytes, software, "the parent lost its window");
        cr_assert_eq(client_wait(pid), 0);
    }
    cr_assert_eq(client_counters().fallbacks, 0);
    client_flow_fini(&flow);
    client_finish(&fixture);
}

Test(client_keystream_trouble, forks_between_packets)
{
    struct ssh_packets packets;

    client_start(&fixture, CLIENT_PATIENT);
    ssh_packets_init(&packets, 7, true);
    for (int i = 0; i < 6; i++) {
        ssh_packets_enter_lane(&packets, N_PACKET);
        pid_t pid = fork();
        cr_assert_geq(pid, 0);
        if (pid == 0) {
            int r = child_packets(&packets);
            cryptod_stream_free(packets.stream);
            _exit(r);
        }
        cr_assert(packets_are_right(&packets, 20));
        cr_assert_eq(client_wait(pid), 0);
    }
    cr_assert_eq(client_counters().fallbacks, 0);
    ssh_packets_fini(&packets);
    client_finish(&fixture);
}

static void recover(struct ssh_packets *packets)
{
    fixture_wait_serving(&fixture, false);
    for (int i = 0; i < 1000 && cryptod_open(NULL, 5000) != 0; i++)
        usleep(10000);
    ssh_packets_rekey(packets);
    ssh_packets_enter_lane(packets, N_PACKET);
}

ParameterizedTestParameters(client_keystream_trouble, killed)
{
    static char roles[][16] = {"engine", "front"};

    return cr_make_param_array(char[16], roles, 2);
}

ParameterizedTest(char role[16], client_keystream_trouble, killed)
{
    struct ssh_packets packets;

    client_start(&fixture, CLIENT_PATIENT);
    ssh_packets_init(&packets, 1000, false);
    for (int round = 0; round < 2; round++) {
        ssh_packets_enter_lane(&packets, N_PACKET);
        uint64_t fallbacks = client_counters().fallbacks;
        pid_t victim = fixture_role_pid(&fixture, role);
        kill(victim, SIGKILL);
        for (int i = 0; i < 100000 && client_counters().fallbacks == fallbacks; i++)
            ssh_packets_send(&packets, N_PACKET);
        cr_assert_eq(client_counters().fallbacks, fallbacks + 1);
        cr_assert(packets_are_right(&packets, 20));
        fixture_wait_role(&fixture, role, victim);
        recover(&packets);
    }
    ssh_packets_fini(&packets);
    client_finish(&fixture);
}

// Stopped: one deadline, and not another; continued: the lane is back.
Test(client_keystream_trouble, stopped_and_continued)
{
    struct ssh_packets packets;

    client_start(&fixture, "lanes.deadline_ms=200");
    ssh_packets_init(&packets, 1, true);
    ssh_packets_enter_lane(&packets, N_PACKET);
    uint64_t timeouts = client_counters().timeouts;
    pid_t engine = fixture_role_pid(&fixture, "engine");
    kill(engine, SIGSTOP);
    for (int i = 0; i < 1000 && client_counters().timeouts == timeouts; i++)
        ssh_packets_send(&packets, N_PACKET);
    cr_assert_eq(client_counters().timeouts, timeouts + 1);
    uint64_t used = client_counters().keystream_bytes;
    cr_assert(packets_are_right(&packets, 200));
    cr_assert_eq(client_counters().timeouts, timeouts + 1);
    cr_assert_eq(client_counters().keystream_bytes, used);
    kill(engine, SIGCONT);
    ssh_packets_enter_lane(&packets, N_PACKET);
    cr_assert(packets_are_right(&packets, 50));
    cr_assert_gt(client_counters().keystream_bytes, used);
    ssh_packets_fini(&packets);
    client_finish(&fixture);
}

// The engine fails now and then: each failure costs software, and no byte.
Test(client_keystream_trouble, every_third_request_fails)
{
    struct ssh_packets packets;
    struct client_flow flow;

    client_start(&fixture, CLIENT_PATIENT "engine.backends=fault\nengine.fault=error_every=3");
    client_flow_init(&flow, ALGORITHM_AES_128_CTR, true);
    client_flow_enter_lane(&flow);
    for (int i = 0; i < 200; i++)
        client_flow_step(&flow, 100000);
    cr_assert_gt(client_counters().fallbacks, 0);
    cr_assert_gt(client_counters().keystream_bytes, 0);
    client_flow_fini(&flow);
    if (cryptod_offers(CRYPTOD_CHACHA20)) { // else the daemon has left it alone by now
        ssh_packets_init(&packets, 1, true);
        cr_assert(packets_are_right(&packets, 300));
        ssh_packets_fini(&packets);
    }
    client_finish(&fixture);
}
