// SPDX-License-Identifier: MIT
// Case 15 from the field: "Corrupted MAC on input", aes256-cbc in bulk in several programs at once.
// Exact to the byte here, with a share of the results compared in the engine as well.
//
// $CRYPTOD_TEST_STREAM_MIB: how much each of the eight streams does (the report's kind is 1024).
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client_flow.h"
#include "fixture.h"
#include "trust_rows.h"

#define N_STREAMS 8
#define N_CALL    ((size_t)1024 * 1024) // bytes, in calls of all sizes up to it
#ifdef __SANITIZE_ADDRESS__
#define N_MIB "8"
#else
#define N_MIB "64"
#endif

static struct fixture fixture;

static void stop(void)
{
    fixture_stop(&fixture);
}

TestSuite(cases_load, .timeout = 1800, .fini = stop);

// Of a child, where Criterion must not be called.
struct load {
    cryptod_stream *stream;
    EVP_CIPHER_CTX *ctx;
    struct reference_random random;
    uint8_t *data, *want;
};

// One MiB in calls of odd sizes, in place; then compared.
static bool one_mib(struct load *load)
{
    int n_want = 0;

    if (EVP_CipherUpdate(load->ctx, load->want, &n_want, load->data, (int)N_CALL) != 1)
        return false;
    for (size_t at = 0, n = 0; at < N_CALL; at += n) {
        n = 16 * (1 + reference_random_below(&load->random, 12000));
        n = n < N_CALL - at ? n : N_CALL - at;
        if (cryptod_stream_crypt(load->stream, load->data + at, load->data + at, n) != 0)
            return false;
    }
    return memcmp(load->data, load->want, N_CALL) == 0; // the result is the next input
}

static bool load_init(struct load *load, uint32_t algorithm, bool encrypt, uint64_t seed)
{
    const EVP_CIPHER *cipher =
        algorithm == ALGORITHM_AES_256_CBC ? EVP_aes_256_cbc() : EVP_aes_256_ctr();
    uint8_t key[ALGORITHM_KEY_MAX], iv[ALGORITHM_IV_LEN_MAX];

    *load = (struct load){.random = {.state = seed}};
    load->data = malloc(N_CALL);
    load->want = malloc(N_CALL + 32);
    load->ctx = EVP_CIPHER_CTX_new();
    if (!load->data || !load->want || !load->ctx || cryptod_open(NULL, 5000) != 0 ||
        cryptod_stream_new((enum cryptod_algorithm)algorithm, &load->stream) != 0)
        return false;
    reference_random_fill(&load->random, key, sizeof(key));
    reference_random_fill(&load->random, iv, sizeof(iv));
    reference_random_fill(&load->random, load->data, N_CALL);
    return EVP_CipherInit_ex(load->ctx, cipher, NULL, key, iv, encrypt) == 1 &&
           EVP_CIPHER_CTX_set_padding(load->ctx, 0) == 1 &&
           cryptod_stream_init(load->stream, key, iv, encrypt) == 0;
}

static void load_fini(struct load *load)
{
    cryptod_stream_free(load->stream);
    EVP_CIPHER_CTX_free(load->ctx);
    cryptod_close();
    free(load->data);
    free(load->want);
}

// Until the stream has its lane, at most 20 s.
static bool enter_lane(struct load *load)
{
    for (int i = 0; cryptod_stream_lane(load->stream) == CRYPTOD_LANE_SOFTWARE; i++) {
        if (i >= 2000 || !one_mib(load))
            return false;
        usleep(10000);
    }
    return true;
}

// The exit status: 0 if every byte was right and the daemon had its share (how large that is, is up
// to what the lane costs on this machine).
static int run_stream(uint32_t algorithm, bool encrypt, uint64_t seed, size_t n_mib)
{
    struct load load;
    int status = load_init(&load, algorithm, encrypt, seed) ? 0 : 2;

    if (status == 0 && !enter_lane(&load))
        status = 3;
    for (size_t i = 0; status == 0 && i < n_mib; i++)
        status = one_mib(&load) ? 0 : 1;
    if (status == 0 && client_lane_bytes() == 0)
        status = 5;
    if (status == 0 && client_counters().fallbacks > 0)
        status = 4;
    load_fini(&load);
    return status;
}

Test(cases_load, case_15_8_streams_at_once_of_64_mib_each)
{
    const char *text = getenv("CRYPTOD_TEST_STREAM_MIB");
    const size_t n_mib = strtoul(text ? text : N_MIB, NULL, 10);
    struct reference_random random;
    pid_t pids[N_STREAMS];

    reference_random_init(&random);
    cr_assert_gt(n_mib, 0);
    fixture_start(&fixture, CLIENT_PATIENT "engine.backends=fault\nengine.fault=delay_ms=0\n"
                                           "engine.verify=1/256");
    for (int i = 0; i < N_STREAMS; i++) {
        pids[i] = fork();
        cr_assert_geq(pids[i], 0);
        if (pids[i] == 0)
            _exit(run_stream(i < 6 ? ALGORITHM_AES_256_CBC : ALGORITHM_AES_256_CTR, i % 2,
                             random.state + (uint64_t)i, n_mib));
    }
    for (int i = 0; i < N_STREAMS; i++)
        cr_expect_eq(client_wait(pids[i]), 0, "stream %d", i);
    const struct trust_row row = trust_row_get("aes-256-cbc", "fault");
    cr_expect_eq(row.state, CRYPTOD_STATE_OFFERED);
    cr_expect_gt(row.verified, 5, "the first request of each key at least");
    cr_expect_eq(row.mismatches, 0);
    fixture_stop(&fixture);
}
