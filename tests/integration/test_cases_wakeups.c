// SPDX-License-Identifier: MIT
// Case 43 from the field: lost wake-ups. Both sides of a channel sleep and wake each other by flags
// in shared memory and a bell; here they are delayed at random by a slow driver, and stopped and
// continued in the middle of it. A wake-up that gets lost would be a deadline that passes, and
// deadlines are long.
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client_flow.h"
#include "fixture.h"
#include "ssh_packets.h"

#define N_SESSIONS 3
#define N_STEPS    250

static struct fixture fixture;

static void stop(void)
{
    fixture_stop(&fixture);
}

TestSuite(cases_wakeups, .timeout = 300, .fini = stop);

// Exit statuses of a session.
enum { SESSION_RIGHT, SESSION_WRONG, SESSION_WAITED_IN_VAIN, SESSION_FELL_BACK, SESSION_ALONE };

static int judge(bool right)
{
    const struct cryptod_counters counters = client_counters();

    if (!right)
        return SESSION_WRONG;
    if (counters.timeouts > 0)
        return SESSION_WAITED_IN_VAIN;
    if (counters.fallbacks > 0)
        return SESSION_FELL_BACK;
    return client_lane_bytes() > 0 ? SESSION_RIGHT : SESSION_ALONE;
}

// What a session does. Made by the test, because in a forked child Criterion must not be called.
struct session {
    pid_t pid;
    uint32_t seed;
    bool sends_packets;
    struct client_flow flow;
    struct ssh_packets packets;
};

// Large and small steps, with and without a pause in which the engine can fall asleep.
static bool run_step(struct session *session, uint32_t i)
{
    const uint32_t n = 1 + (i * 2654435761u + session->seed * 40503u) % 200000;
    bool right;

    if (session->sends_packets)
        right = ssh_packets_send_is_right(&session->packets, 32784);
    else
        right = client_flow_step_is_right(&session->flow, i % 3 == 0 ? n % 4096 + 16 : n);
    if (i % 4 == 0)
        usleep(n % 3000);
    return right;
}

static int run_session(struct session *session)
{
    bool right = true;

    if (cryptod_open(NULL, 5000) < 0)
        return SESSION_ALONE;
    for (uint32_t i = 0; right && i < N_STEPS; i++)
        right = run_step(session, i);
    return judge(right);
}

static void start_session(struct session *session, uint32_t algorithm, uint32_t seed)
{
    session->seed = seed;
    session->sends_packets = algorithm == ALGORITHM_CHACHA20;
    if (session->sends_packets)
        ssh_packets_init(&session->packets, 3, seed % 2 == 0);
    else
        client_flow_init(&session->flow, algorithm, seed % 2 == 0);
    session->pid = fork();
    cr_assert_geq(session->pid, 0);
    if (session->pid == 0)
        _exit(run_session(session));
}

static void end_session(struct session *session)
{
    if (session->sends_packets)
        ssh_packets_fini(&session->packets);
    else
        client_flow_fini(&session->flow);
}

// Stops and continues one of them after another until all sessions have ended.
static void disturb(pid_t engine, const struct session sessions[N_SESSIONS],
                    int statuses[N_SESSIONS])
{
    struct reference_random random = {.state = 43};
    bool ended[N_SESSIONS] = {false};
    int n_left = N_SESSIONS;

    while (n_left > 0) {
        const uint32_t k = (uint32_t)reference_random_below(&random, N_SESSIONS + 2);
        const pid_t victim = k >= N_SESSIONS ? engine : ended[k] ? 0 : sessions[k].pid;

        if (victim > 0)
            kill(victim, SIGSTOP);
        usleep((useconds_t)reference_random_below(&random, 8000));
        if (victim > 0)
            kill(victim, SIGCONT);
        usleep((useconds_t)reference_random_below(&random, 8000));
        for (int i = 0; i < N_SESSIONS; i++)
            if (!ended[i] && waitpid(sessions[i].pid, &statuses[i], WNOHANG) == sessions[i].pid) {
                ended[i] = true;
                n_left--;
            }
    }
}

static void run_sessions(const uint32_t algorithms[N_SESSIONS], const char *conf)
{
    static struct session sessions[N_SESSIONS];
    int statuses[N_SESSIONS];
    char all[512];

    snprintf(all, sizeof(all),
             CLIENT_PATIENT "engine.backends=fault\nengine.fault=jitter_us=1500\nengine.workers=2\n"
                            "daemon.ping_interval_ms=10000\n%s",
             conf);
    fixture_start(&fixture, all);
    for (uint32_t i = 0; i < N_SESSIONS; i++)
        start_session(&sessions[i], algorithms[i], i + 1);
    disturb(fixture_role_pid(&fixture, "engine"), sessions, statuses);
    for (uint32_t i = 0; i < N_SESSIONS; i++) {
        end_session(&sessions[i]);
        cr_expect(WIFEXITED(statuses[i]) && WEXITSTATUS(statuses[i]) == SESSION_RIGHT,
                  "session %u: status %#x", i, (unsigned)statuses[i]);
    }
    fixture_stop(&fixture);
}

static const uint32_t requests[N_SESSIONS] = {ALGORITHM_AES_128_CBC, ALGORITHM_AES_256_CBC,
                                              ALGORITHM_AES_128_CTR};
static const uint32_t keystream[N_SESSIONS] = {ALGORITHM_AES_128_CTR, ALGORITHM_CHACHA20,
                                               ALGORITHM_AES_256_CTR};

Test(cases_wakeups, case_43_lost_wake_ups_in_the_request_lane)
{
    run_sessions(requests, CLIENT_REQUESTS_ONLY "lanes.spin_us=0\n");
}

Test(cases_wakeups, case_43_lost_wake_ups_while_spinning)
{
    run_sessions(requests, CLIENT_REQUESTS_ONLY "lanes.spin_us=50\n");
}

Test(cases_wakeups, case_43_lost_wake_ups_in_the_keystream_lane)
{
    run_sessions(keystream, "lanes.spin_us=0\n");
}
