// SPDX-License-Identifier: MIT
// A stream beside OpenSSL's. See client_flow.h.
#include "client_flow.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_SLACK 64u

void client_start(struct fixture *fixture, const char *extra_conf)
{
    fixture_start(fixture, extra_conf);
    cr_assert_eq(cryptod_open(NULL, 5000), 0);
}

void client_finish(struct fixture *fixture)
{
    cryptod_close();
    fixture_stop(fixture);
}

void client_flow_init(struct client_flow *flow, uint32_t algorithm, bool encrypt)
{
    memset(flow, 0, sizeof *flow);
    flow->info = algorithm_get(algorithm);
    flow->encrypt = encrypt;
    flow->in = malloc(CLIENT_FLOW_MOST + N_SLACK);
    flow->out = malloc(CLIENT_FLOW_MOST + N_SLACK);
    flow->expected = malloc(CLIENT_FLOW_MOST + N_SLACK);
    cr_assert(flow->in && flow->out && flow->expected, "no memory");
    reference_random_init(&flow->random);
    reference_random_fill(&flow->random, flow->key, sizeof flow->key);
    reference_random_fill(&flow->random, flow->iv, sizeof flow->iv);
    flow->ctx = reference_new(flow->info->id, flow->key, flow->iv, encrypt);
    cr_assert_eq(cryptod_stream_new((enum cryptod_algorithm)algorithm, &flow->stream), 0);
    cr_assert_eq(cryptod_stream_init(flow->stream, flow->key, flow->iv, encrypt), 0);
}

void client_flow_fini(struct client_flow *flow)
{
    cryptod_stream_free(flow->stream);
    EVP_CIPHER_CTX_free(flow->ctx);
    free(flow->in);
    free(flow->out);
    free(flow->expected);
}

static bool place_is_right(const struct client_flow *flow)
{
    uint8_t ours[ALGORITHM_IV_LEN_MAX], theirs[ALGORITHM_IV_LEN_MAX];
    unsigned num;

    if (cryptod_stream_iv(flow->stream, ours, &num) != 0)
        return false;
    if (flow->info->mode == ALGORITHM_CHACHA) // OpenSSL 3.0 does not tell
        return true;
    return EVP_CIPHER_CTX_get_updated_iv(flow->ctx, theirs, sizeof theirs) == 1 &&
           memcmp(ours, theirs, flow->info->n_iv) == 0 &&
           num == (unsigned)EVP_CIPHER_CTX_get_num(flow->ctx);
}

bool client_flow_step_is_right(struct client_flow *flow, size_t n)
{
    uint8_t *in = flow->in + reference_random_below(&flow->random, N_SLACK);
    uint8_t *out = flow->out + reference_random_below(&flow->random, N_SLACK);
    int n_out = 0;

    n -= n % flow->info->n_block;
    if (n == 0)
        return true;
    if (reference_random_below(&flow->random, 2) == 0)
        out = in;
    reference_random_fill(&flow->random, in, n);
    return EVP_CipherUpdate(flow->ctx, flow->expected, &n_out, in, (int)n) == 1 &&
           n_out == (int)n && cryptod_stream_crypt(flow->stream, out, in, n) == 0 &&
           memcmp(out, flow->expected, n) == 0 && place_is_right(flow);
}

void client_flow_step(struct client_flow *flow, size_t n)
{
    cr_assert_leq(n, CLIENT_FLOW_MOST);
    cr_assert(client_flow_step_is_right(flow, n), "%s %s, %zu bytes: not what OpenSSL says",
              flow->info->name, flow->encrypt ? "encrypt" : "decrypt", n);
}

void client_flow_restart(struct client_flow *flow, bool key)
{
    if (key)
        reference_random_fill(&flow->random, flow->key, sizeof flow->key);
    reference_random_fill(&flow->random, flow->iv, sizeof flow->iv);
    cr_assert_eq(EVP_CipherInit_ex2(flow->ctx, NULL, key ? flow->key : NULL, flow->iv, -1, NULL),
                 1);
    cr_assert_eq(cryptod_stream_init(flow->stream, key ? flow->key : NULL, flow->iv, flow->encrypt),
                 0);
}

void client_flow_enter_lane(struct client_flow *flow)
{
    for (int i = 0; cryptod_stream_lane(flow->stream) == CRYPTOD_LANE_SOFTWARE; i++) {
        cr_assert_lt(i, 20000, "%s never got its lane", flow->info->name);
        if (i % 1000 == 999) // a busy machine may answer past the deadline, which is a refusal
            client_flow_restart(flow, true);
        client_flow_step(flow, 4096);
        usleep(1000);
    }
}

void client_flow_run(struct client_flow *flow, size_t n)
{
    for (size_t i = 0; i < n; i++)
        client_flow_step(flow, 32768);
}

struct cryptod_counters client_counters(void)
{
    struct cryptod_counters counters;

    cryptod_counters_get(&counters);
    return counters;
}

uint64_t client_lane_bytes(void)
{
    struct cryptod_counters counters = client_counters();

    return counters.request_bytes + counters.keystream_bytes;
}

int client_wait(pid_t pid)
{
    int status;

    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status), "status %#x", status);
    return WEXITSTATUS(status);
}
