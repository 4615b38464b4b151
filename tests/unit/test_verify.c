// SPDX-License-Identifier: MIT
// Results compared in use: which, what a wrong one leads to, and that nothing is left of either
// side's work.
#include "verify.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "channel_impl.h"
#include "keys.h"
#include "reference.h"
#include "ring_rig.h"

TestSuite(verify, .timeout = 120);

#define N_BYTES 4096u

static struct {
    struct backend *cpu, *fault;
    struct statistics statistics;
    struct verify_trust trust;
    struct verifier *verifier;
    uint32_t n_lost;
    struct key *key;
    uint8_t bytes[ALGORITHM_KEY_MAX];
    enum algorithm_id algorithm;
} rig;

static void on_lost(void *user)
{
    ++*(uint32_t *)user;
}

static void open_key(void)
{
    const struct key_source source = {
        .info = algorithm_get(rig.algorithm),
        .ops = &backend_fault_ops,
        .backend = rig.fault,
        .reference_ops = &backend_cpu_ops,
        .reference = rig.cpu,
        .statistics = &rig.statistics,
        .trust = &rig.trust,
    };

    cr_assert_eq(key_open(&source, rig.bytes, &rig.key), 0);
}

static void setup(uint32_t rate, const char *fault, enum algorithm_id algorithm)
{
    const struct backend_settings settings = {.workers = 1, .fault = fault};

    memset(&rig, 0, sizeof(rig));
    rig.algorithm = algorithm;
    ring_fill(rig.bytes, sizeof(rig.bytes), 3);
    cr_assert_eq(backend_cpu_ops.init(&settings, &rig.cpu), 0);
    cr_assert_eq(backend_fault_ops.init(&settings, &rig.fault), 0);
    cr_assert_eq(verifier_new(rate, on_lost, &rig.n_lost, &rig.verifier), 0);
    open_key();
}

static void teardown(void)
{
    key_unref(rig.key);
    verifier_free(rig.verifier);
    backend_fault_ops.fini(rig.fault);
    backend_cpu_ops.fini(rig.cpu);
}

// One request; its error, and whether the bytes are right.
static int request(enum verify_operation operation, bool *ret_right)
{
    uint8_t iv[ALGORITHM_IV_LEN_MAX] = {1}, data[N_BYTES], want[N_BYTES] = {0};
    const struct verify_trust *rests_on;
    int r;

    if (operation == VERIFY_KEYSTREAM) {
        reference_crypt(rig.algorithm, rig.bytes, iv, true, want, want, N_BYTES);
        r = key_keystream(rig.key, rig.verifier, iv, data, N_BYTES, &rests_on);
    } else {
        ring_fill(data, N_BYTES, 5);
        reference_crypt(rig.algorithm, rig.bytes, iv, operation == VERIFY_ENCRYPT, want, data,
                        N_BYTES);
        r = key_crypt(rig.key, rig.verifier, operation == VERIFY_ENCRYPT, iv, data, N_BYTES);
    }
    *ret_right = memcmp(data, want, N_BYTES) == 0;
    return r;
}

static void expect_right(enum verify_operation operation)
{
    bool right;

    cr_expect_eq(request(operation, &right), 0);
    cr_expect(right);
}

// ---------------------------------------------------------------- which

Test(verify, compares_nothing_when_off)
{
    bool right;

    setup(VERIFY_OFF, "wrong_every=1", ALGORITHM_AES_128_CBC);
    for (int i = 0; i < 100; i++) {
        cr_expect_eq(request(VERIFY_ENCRYPT, &right), 0);
        cr_expect_not(right);
    }
    cr_expect_eq(atomic_load(&rig.trust.n_verified), 0);
    cr_expect_eq(rig.n_lost, 0);
    teardown();
}

Test(verify, compares_everything_when_told_to)
{
    setup(VERIFY_ALL, "delay_ms=0", ALGORITHM_AES_256_CTR);
    for (int i = 0; i < 100; i++)
        expect_right(i % 3);
    cr_expect_eq(atomic_load(&rig.trust.n_verified), 100);
    cr_expect_eq(atomic_load(&rig.trust.n_mismatches), 0);
    cr_expect_not(verify_is_lost(&rig.trust));
    teardown();
}

Test(verify, compares_the_first_request_of_each_key)
{
    setup(1000000, "delay_ms=0", ALGORITHM_DES_EDE3_CBC);
    for (uint32_t i = 0; i < 20; i++) {
        expect_right(VERIFY_DECRYPT);
        const uint64_t n = atomic_load(&rig.trust.n_verified);
        cr_expect_geq(n, i + 1);
        key_unref(rig.key);
        open_key();
    }
    teardown();
}

// A first request that fails is no proof: the next one is compared.
Test(verify, goes_on_until_a_first_request_was_compared)
{
    bool right;

    setup(1000000, "error_every=2", ALGORITHM_AES_128_CTR);
    expect_right(VERIFY_KEYSTREAM);
    cr_expect_eq(atomic_load(&rig.trust.n_verified), 1);
    key_unref(rig.key);
    open_key();
    cr_expect_eq(request(VERIFY_KEYSTREAM, &right), -EIO);
    expect_right(VERIFY_KEYSTREAM);
    cr_expect_eq(atomic_load(&rig.trust.n_verified), 2);
    cr_expect_eq(statistics_get(&rig.statistics.errors), 1);
    teardown();
}

// One of eight, of many: more than half and less than twice of what is expected (by 16 standard
// deviations), and two verifiers do not choose the same.
Test(verify, chooses_a_share_at_random)
{
    enum { N = 20000 };
    struct verifier *other = NULL;
    uint32_t n = 0, n_same = 0;

    setup(8, "delay_ms=0", ALGORITHM_AES_128_CBC);
    cr_assert_eq(verifier_new(8, on_lost, &rig.n_lost, &other), 0);
    for (int i = 0; i < N; i++) {
        const bool a = verifier_chooses(rig.verifier, false), b = verifier_chooses(other, false);

        n += a;
        n_same += a && b;
    }
    cr_expect_gt(n, N / 16);
    cr_expect_lt(n, N / 4);
    cr_expect_lt(n_same, n / 2);
    cr_expect_not(verifier_chooses(NULL, true));
    verifier_free(other);
    teardown();
}

// ---------------------------------------------------------------- what a wrong result leads to

Test(verify, gives_the_right_bytes_and_trusts_no_more)
{
    for (enum verify_operation operation = 0; operation <= VERIFY_KEYSTREAM; operation++) {
        static const char *const texts[] = {"in use (encrypt, 4096 bytes)",
                                            "in use (decrypt, 4096 bytes)",
                                            "in use (keystream, 4096 bytes)"};
        char text[64];
        bool right;

        setup(VERIFY_ALL, "wrong_after=10", ALGORITHM_AES_192_CTR);
        for (int i = 0; i < 11; i++)
            expect_right(operation);
        cr_expect_eq(rig.n_lost, 1);
        cr_expect_eq(atomic_load(&rig.trust.n_verified), 11);
        cr_expect_eq(atomic_load(&rig.trust.n_mismatches), 1);
        for (int i = 0; i < 3; i++)
            cr_expect_eq(request(operation, &right), -EKEYREVOKED);
        cr_expect_eq(rig.n_lost, 1);
        cr_expect_eq(statistics_get(&rig.statistics.operations), 11);
        cr_expect_eq(statistics_get(&rig.statistics.errors), 3);
        verify_describe(&rig.trust, text, sizeof(text));
        cr_expect_str_eq(text, texts[operation]);
        teardown();
    }
}

Test(verify, notices_an_output_that_is_not_there)
{
    for (enum verify_operation operation = 0; operation <= VERIFY_KEYSTREAM; operation++) {
        setup(1000000, "short=0", ALGORITHM_AES_128_CTR);
        expect_right(operation);
        cr_expect_eq(rig.n_lost, 1);
        teardown();
    }
}

Test(verify, says_what_keystream_rests_on)
{
    uint8_t iv[ALGORITHM_IV_LEN_MAX] = {1}, data[64];
    const struct verify_trust *rests_on = NULL;

    setup(1000000, "delay_ms=0", ALGORITHM_CHACHA20);
    cr_assert_eq(key_keystream(rig.key, rig.verifier, iv, data, sizeof(data), &rests_on), 0);
    cr_expect_null(rests_on, "it was compared");
    cr_assert_eq(key_keystream(rig.key, NULL, iv, data, sizeof(data), &rests_on), 0);
    cr_expect_eq(rests_on, &rig.trust);
    teardown();
}

// ---------------------------------------------------------------- in the ring

static struct ring_pool pool;

static struct shm_request keystream_request(struct ring_client *client, uint32_t slot)
{
    struct shm_request made = ring_client_make(client, 0, true, SHM_SLOT_SIZE);

    made.operation = SHM_OP_KEYSTREAM;
    made.slot = slot;
    atomic_store(&shm_done(&client->map, slot)->claim, SHM_CLAIM_NOBODY);
    return made;
}

// Published, and waited for.
static int run_keystream(struct ring_client *client, uint32_t slot)
{
    const struct shm_request made = keystream_request(client, slot);
    struct shm_done *done = shm_done(&client->map, slot);

    ring_client_submit(client, &made);
    while (atomic_load(&done->sequence) != made.sequence + 1) // the suite's timeout is the guard
        sched_yield();
    return done->result;
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0;
}

static bool is_taken_back(const struct ring_client *client, uint32_t slot)
{
    return atomic_load(&shm_done(&client->map, slot)->claim) == SHM_CLAIM_ENGINE;
}

// Of the pieces that lie there when trust is lost: those that were compared stay, as do those that
// the client has claimed; the others are taken back; what is made afterwards is refused and wiped.
Test(verify, takes_unused_keystream_back)
{
    struct ring_client client;
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_fill(key, sizeof(key), 7);
    ring_pool_setup_verify(&pool, 1, "delay_ms=0", 1000000);
    ring_client_setup(&client, &pool, 1000, 16, 4);
    ring_client_open(&client, 0, ALGORITHM_AES_128_CTR, key);
    for (uint32_t slot = 4; slot < 8; slot++)
        cr_assert_eq(run_keystream(&client, slot), 0);
    cr_assert(shm_claim(shm_done(&client.map, 5), SHM_CLAIM_CLIENT));
    atomic_store(&pool.trust.is_lost, true);
    worker_pool_tend(client.seat);
    while (!is_taken_back(&client, 7))
        sched_yield();
    cr_expect(is_taken_back(&client, 6));
    cr_expect_not(is_taken_back(&client, 4), "OpenSSL has said the same");
    cr_expect_not(is_taken_back(&client, 5));
    cr_expect_not(is_zero(shm_data(&client.map, 4), SHM_SLOT_SIZE));
    cr_expect(is_zero(shm_data(&client.map, 6), SHM_SLOT_SIZE));
    cr_expect_eq(run_keystream(&client, 8), -EKEYREVOKED);
    cr_expect(is_zero(shm_data(&client.map, 8), SHM_SLOT_SIZE));
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

Test(verify, leaves_nothing_of_keystream_that_failed)
{
    struct ring_client client;
    uint8_t key[ALGORITHM_KEY_MAX];

    ring_fill(key, sizeof(key), 7);
    ring_pool_setup_verify(&pool, 1, "error_after=1", 1000000);
    ring_client_setup(&client, &pool, 1000, 16, 4);
    ring_client_open(&client, 0, ALGORITHM_CHACHA20, key);
    cr_assert_eq(run_keystream(&client, 4), 0);
    cr_expect_not(is_zero(shm_data(&client.map, 4), SHM_SLOT_SIZE));
    cr_assert_eq(run_keystream(&client, 4), -EIO);
    cr_expect(is_zero(shm_data(&client.map, 4), SHM_SLOT_SIZE));
    ring_client_teardown(&client);
    ring_pool_teardown(&pool);
}

// Every request of two busy clients gets right bytes or an error, whenever the driver goes wrong.
Test(verify, gives_out_nothing_wrong_with_several_workers)
{
    for (int round = 0; round < 10; round++) {
        struct ring_client client;
        uint8_t key[ALGORITHM_KEY_MAX];
        char fault[32];
        int r = 0;

        ring_fill(key, sizeof(key), 11);
        snprintf(fault, sizeof(fault), "wrong_after=%d", round * 3);
        ring_pool_setup_verify(&pool, 3, fault, VERIFY_ALL);
        ring_client_setup(&client, &pool, 1000, 4, 4);
        ring_client_open(&client, 0, ALGORITHM_AES_128_CBC, key);
        for (int i = 0; i <= round * 3; i++)
            ring_client_expect_right(&client, 0, ALGORITHM_AES_128_CBC, key, i % 2, 8192);
        const struct shm_request after = ring_client_make(&client, 0, true, 8192);
        ring_client_submit(&client, &after);
        r = ring_client_wait(&client, after.sequence);
        cr_expect_eq(r, -EKEYREVOKED);
        cr_expect_eq(atomic_load(&pool.n_distrusts), 1);
        ring_client_teardown(&client);
        ring_pool_teardown(&pool);
    }
}
