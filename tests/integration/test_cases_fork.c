// SPDX-License-Identifier: MIT
// Cases from the field about programs that fork.
//
// 24: a VPN daemon with an offload library never connected, because it becomes a daemon (forks)
// after the library was set up. 36: a crypto engine's child deadlocked in fork, where it was set up
// again.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client_flow.h"
#include "fixture.h"
#include "provider_pair.h"

#define HANG_GUARD_S 60
#define N_IV         16
#define N_PACKET     (N_IV + 1500)

static struct fixture fixture;

static void stop(void)
{
    fixture_stop(&fixture);
}

TestSuite(cases_fork, .timeout = 300, .fini = stop);

enum daemon_state {
    DAEMON_RUNS,
    DAEMON_STOPPED,
    DAEMON_FULL, // stopped, and not one more connection fits into its backlog
    DAEMON_KILLED,
};

struct state_case {
    char name[16];
    enum daemon_state state;
};

static void signal_daemon(int number)
{
    const pid_t pids[] = {fixture.monitor, fixture_role_pid(&fixture, "front"),
                          fixture_role_pid(&fixture, "engine")};

    for (size_t i = 0; i < sizeof(pids) / sizeof(*pids); i++)
        if (pids[i] > 0)
            cr_assert_eq(kill(pids[i], number), 0);
}

// Connects until the kernel takes no more.
static void fill_backlog(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    memcpy(address.sun_path, fixture.socket, strlen(fixture.socket) + 1);
    for (int i = 0; i < 900; i++) { // below the limit of descriptors; they stay open
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        cr_assert_geq(fd, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
            cr_assert_eq(errno, EAGAIN);
            close(fd);
            return;
        }
    }
    cr_assert_fail("the backlog takes everything");
}

static void enter_state(enum daemon_state state)
{
    if (state == DAEMON_STOPPED || state == DAEMON_FULL)
        signal_daemon(SIGSTOP);
    if (state == DAEMON_FULL)
        fill_backlog();
    if (state == DAEMON_KILLED)
        signal_daemon(SIGKILL);
}

static void leave_state(enum daemon_state state)
{
    if (state == DAEMON_STOPPED || state == DAEMON_FULL)
        signal_daemon(SIGCONT);
    if (state == DAEMON_KILLED)
        fixture_wait_end(&fixture);
}

// ---------------------------------------------------------------- case 24

static const uint8_t tunnel_key[32] = "the key of both ends of a tunnel";

struct tunnel {
    EVP_CIPHER_CTX *in, *out; // for what comes, and what goes
};

static bool tunnel_open(struct tunnel *tunnel, const EVP_CIPHER *cipher)
{
    tunnel->in = EVP_CIPHER_CTX_new();
    tunnel->out = EVP_CIPHER_CTX_new();
    return EVP_DecryptInit_ex2(tunnel->in, cipher, tunnel_key, NULL, NULL) == 1 &&
           EVP_EncryptInit_ex2(tunnel->out, cipher, tunnel_key, NULL, NULL) == 1;
}

static void tunnel_close(struct tunnel *tunnel)
{
    EVP_CIPHER_CTX_free(tunnel->in);
    EVP_CIPHER_CTX_free(tunnel->out);
}

// IV, then ciphertext with padding.
static bool tunnel_send(struct tunnel *tunnel, int fd, const uint8_t *data, size_t n,
                        uint8_t iv_byte)
{
    uint8_t packet[N_PACKET + 32];
    int n_out, n_final;

    memset(packet, iv_byte, N_IV);
    return EVP_EncryptInit_ex2(tunnel->out, NULL, NULL, packet, NULL) == 1 &&
           EVP_EncryptUpdate(tunnel->out, packet + N_IV, &n_out, data, (int)n) == 1 &&
           EVP_EncryptFinal_ex(tunnel->out, packet + N_IV + n_out, &n_final) == 1 &&
           write(fd, packet, (size_t)(N_IV + n_out + n_final)) == N_IV + n_out + n_final;
}

// The length of what came; 0 at the end, -1 for an error.
static int tunnel_receive(struct tunnel *tunnel, int fd, uint8_t data[N_PACKET + 32])
{
    uint8_t packet[N_PACKET + 32];
    ssize_t n = read(fd, packet, sizeof(packet));
    int n_out, n_final;

    if (n <= N_IV)
        return n == 0 ? 0 : -1;
    if (EVP_DecryptInit_ex2(tunnel->in, NULL, NULL, packet, NULL) != 1 ||
        EVP_DecryptUpdate(tunnel->in, data, &n_out, packet + N_IV, (int)n - N_IV) != 1 ||
        EVP_DecryptFinal_ex(tunnel->in, data + n_out, &n_final) != 1)
        return -1;
    return n_out + n_final;
}

// The VPN's process: becomes a daemon and answers each packet with its bytes plus one.
static int vpn_main(const EVP_CIPHER *cipher, int fd)
{
    uint8_t data[N_PACKET + 32];
    struct tunnel tunnel;
    int n;

    alarm(HANG_GUARD_S); // inherited by nobody: again below
    if (daemon(0, 0) < 0)
        return 1;
    alarm(HANG_GUARD_S);
    if (!tunnel_open(&tunnel, cipher))
        return 1;
    while ((n = tunnel_receive(&tunnel, fd, data)) > 0) {
        for (int i = 0; i < n; i++)
            data[i]++;
        if (!tunnel_send(&tunnel, fd, data, (size_t)n, (uint8_t)(n + 1)))
            return 1;
    }
    tunnel_close(&tunnel);
    return n == 0 ? 0 : 1;
}

static void exchange(struct tunnel *tunnel, int fd, size_t n, uint8_t mark)
{
    uint8_t data[N_PACKET + 32], answer[N_PACKET + 32];

    memset(data, mark, n);
    cr_assert(tunnel_send(tunnel, fd, data, n, mark));
    cr_assert_eq(tunnel_receive(tunnel, fd, answer), (int)n, "packet %u: no answer", mark);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(answer[i], (uint8_t)(mark + 1));
}

ParameterizedTestParameters(cases_fork, case_24_a_vpn_that_becomes_a_daemon)
{
    static struct state_case cases[] = {
        {"running", DAEMON_RUNS}, {"stopped", DAEMON_STOPPED}, {"killed", DAEMON_KILLED}};
    return cr_make_param_array(struct state_case, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(struct state_case *row, cases_fork, case_24_a_vpn_that_becomes_a_daemon)
{
    const struct timeval guard = {.tv_sec = HANG_GUARD_S};
    uint64_t operations, before, after;
    struct pair_world world;
    struct tunnel tunnel;
    struct pair pair;
    int ends[2];

    fixture_start(&fixture, CLIENT_PATIENT);
    pair_world_open(&world);
    pair_open(&pair, &world, "AES-256-CBC");
    pair_served("AES-256-CBC", &operations, &before);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    cr_assert_eq(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof(guard)), 0);
    enter_state(row->state);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        _exit(vpn_main(pair.cipher, ends[1]));
    }
    close(ends[1]);
    cr_assert_eq(client_wait(pid), 0, "%s: it did not become a daemon", row->name);

    cr_assert(tunnel_open(&tunnel, pair.reference_cipher));
    for (unsigned i = 0; i < 300; i++)
        exchange(&tunnel, ends[0], 1 + i * 5 % 1500, (uint8_t)i);
    after = before + (row->state != DAEMON_RUNS);
    for (unsigned i = 0; i < 100 && after == before; i++) { // a busy machine may be late with a key
        for (unsigned k = 0; k < 20; k++)
            exchange(&tunnel, ends[0], 1400, (uint8_t)k);
        pair_served("AES-256-CBC", &operations, &after);
    }
    cr_assert_gt(after, before, "cryptod has served nothing of it");
    close(ends[0]);
    tunnel_close(&tunnel);
    leave_state(row->state);
    pair_close(&pair);
    pair_world_close(&world);
    fixture_stop(&fixture);
}

// ---------------------------------------------------------------- case 36

ParameterizedTestParameters(cases_fork, case_36_no_child_waits)
{
    static struct state_case cases[] = {
        {"stopped", DAEMON_STOPPED}, {"full", DAEMON_FULL}, {"killed", DAEMON_KILLED}};
    return cr_make_param_array(struct state_case, cases, sizeof cases / sizeof *cases);
}

// In a child, which has another child at once: nobody finds a channel, everybody has his bytes.
static int child_main(struct client_flow *flow, int depth)
{
    int r = 0, status;

    alarm(HANG_GUARD_S);
    if (depth > 0) {
        pid_t pid = fork();

        if (pid == 0)
            _exit(child_main(flow, depth - 1));
        if (waitpid(pid, &status, 0) != pid || status != 0)
            r = 1;
    }
    for (int i = 0; i < 5; i++)
        if (!client_flow_step_is_right(flow, 30000))
            r = 2;
    return client_lane_bytes() == 0 ? r : 3;
}

ParameterizedTest(struct state_case *row, cases_fork, case_36_no_child_waits)
{
    struct client_flow flow;

    fixture_start(&fixture, NULL);
    cr_assert_eq(cryptod_open(NULL, 300), 0);
    client_flow_init(&flow, ALGORITHM_AES_128_CTR, true);
    client_flow_enter_lane(&flow);
    enter_state(row->state);
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();

        if (pid == 0)
            _exit(child_main(&flow, i % 4));
        client_flow_step(&flow, 30000);
        cr_assert_eq(client_wait(pid), 0, "%s, fork %d", row->name, i);
    }
    leave_state(row->state);
    client_flow_run(&flow, 5);
    client_flow_fini(&flow);
    cryptod_close();
    fixture_stop(&fixture);
}
