// SPDX-License-Identifier: MIT
// Backend afalg against OpenSSL, on a kernel that has AF_ALG; elsewhere everything here is skipped,
// with the reason.
#include "backend.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "offer.h"
#include "reference.h"
#include "role.h"
#include "selftest.h"

static const struct backend_ops *const ops = &backend_afalg_ops;
static struct backend *backend;

static struct backend *start(const char *deny)
{
    const struct backend_settings settings = {.workers = 4, .deny_drivers = deny};
    struct backend *made = NULL;

    cr_assert_eq(ops->init(&settings, &made), 0);
    return made;
}

static struct backend_probe probe(struct backend *of, enum algorithm_id algorithm)
{
    struct backend_probe found;

    ops->probe(of, algorithm, &found);
    return found;
}

static void setup(void)
{
    backend = start("");
    struct backend_probe found = probe(backend, ALGORITHM_AES_128_CBC);

    if (found.error == -EAFNOSUPPORT || found.error == -EPERM || found.error == -EACCES) {
        ops->fini(backend);
        cr_skip_test("%s", found.text);
    }
}

static void teardown(void)
{
    ops->fini(backend);
}

TestSuite(afalg, .init = setup, .fini = teardown, .timeout = 300);

static void fill(void *data, size_t n_bytes, uint64_t seed)
{
    struct reference_random random = {.state = seed};

    reference_random_fill(&random, data, n_bytes);
}

static struct backend_key *open_key(enum algorithm_id algorithm, uint8_t bytes[ALGORITHM_KEY_MAX])
{
    struct backend_key *key = NULL;

    fill(bytes, ALGORITHM_KEY_MAX, algorithm + 1);
    cr_assert_eq(ops->open(backend, algorithm, bytes, &key), 0, "%s",
                 algorithm_get(algorithm)->name);
    return key;
}

static bool is_served(enum algorithm_id algorithm)
{
    return algorithm_get(algorithm)->kernel_name != NULL;
}

static size_t count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    size_t n = 0;

    cr_assert_not_null(directory);
    while (readdir(directory))
        n++;
    closedir(directory);
    return n;
}

// ---------------------------------------------------------------- the bytes

// The output ends at a page that nobody may touch.
static void compare(struct backend_key *key, enum algorithm_id algorithm, const uint8_t *bytes,
                    bool encrypt, size_t n_bytes, bool in_place)
{
    struct reference_guard out;
    uint8_t *in = malloc(n_bytes), *want = malloc(n_bytes);
    uint8_t iv[ALGORITHM_IV_LEN_MAX];

    cr_assert(in && want);
    reference_guard_new(&out, n_bytes);
    fill(in, n_bytes, n_bytes);
    fill(iv, sizeof(iv), n_bytes + encrypt);
    reference_crypt(algorithm, bytes, iv, encrypt, want, in, n_bytes);
    memcpy(out.bytes, in, n_bytes);
    cr_assert_eq(ops->crypt(key, encrypt, iv, out.bytes, in_place ? out.bytes : in, n_bytes), 0);
    cr_expect_eq(memcmp(out.bytes, want, n_bytes), 0, "%s, %s, %zu bytes",
                 algorithm_get(algorithm)->name, encrypt ? "encrypt" : "decrypt", n_bytes);
    reference_guard_free(&out);
    free(in);
    free(want);
}

Test(afalg, gives_the_bytes_of_openssl)
{
    static const size_t sizes[] = {1,     7,     8,     15,    16,    17,   24,
                                   48,    240,   1000,  4080,  4096,  4104, 4112,
                                   12288, 32768, 32784, 65528, 65535, 65536};

    for (enum algorithm_id algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        uint8_t bytes[ALGORITHM_KEY_MAX];
        struct backend_key *key;

        if (!is_served(algorithm))
            continue;
        key = open_key(algorithm, bytes);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            if (sizes[i] % algorithm_get(algorithm)->n_block != 0)
                continue;
            for (int kind = 0; kind < 4; kind++)
                compare(key, algorithm, bytes, kind & 1, sizes[i], kind & 2);
        }
        ops->close(key);
    }
}

Test(afalg, passes_the_self_test)
{
    const struct backend_settings settings = {.workers = 1};
    struct backend *cpu = NULL;

    cr_assert_eq(backend_cpu_ops.init(&settings, &cpu), 0);
    for (enum algorithm_id algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++)
        if (is_served(algorithm))
            cr_expect_eq(
                selftest_run(ops, backend, &backend_cpu_ops, cpu, algorithm_get(algorithm)), 0,
                "%s", algorithm_get(algorithm)->name);
    backend_cpu_ops.fini(cpu);
}

Test(afalg, carries_the_counter_over_all_its_bytes)
{
    uint8_t bytes[ALGORITHM_KEY_MAX], iv[16], data[256], want[256];
    struct backend_key *key = open_key(ALGORITHM_AES_256_CTR, bytes);

    for (size_t n_ones = 1; n_ones <= sizeof(iv); n_ones++) {
        memset(iv, 0x5a, sizeof(iv));
        memset(iv + sizeof(iv) - n_ones, 0xff, n_ones);
        memset(data, 0, sizeof(data));
        reference_crypt(ALGORITHM_AES_256_CTR, bytes, iv, true, want, data, sizeof(data));
        cr_assert_eq(ops->crypt(key, true, iv, data, data, sizeof(data)), 0);
        cr_expect_arr_eq(data, want, sizeof(data));
    }
    ops->close(key);
}

Test(afalg, makes_keystream_of_ctr)
{
    uint8_t bytes[ALGORITHM_KEY_MAX], iv[16] = {5}, made[4099], want[4099] = {0};
    struct backend_key *ctr = open_key(ALGORITHM_AES_128_CTR, bytes);

    reference_crypt(ALGORITHM_AES_128_CTR, bytes, iv, true, want, want, sizeof(want));
    cr_assert_eq(ops->keystream(ctr, iv, made, sizeof(made)), 0);
    cr_expect_arr_eq(made, want, sizeof(made));
    ops->close(ctr);
    struct backend_key *cbc = open_key(ALGORITHM_AES_128_CBC, bytes);
    cr_expect_eq(ops->keystream(cbc, iv, made, 4096), -EOPNOTSUPP);
    ops->close(cbc);
}

// The same result into the same place again must not look like no result.
Test(afalg, gives_the_same_twice)
{
    uint8_t bytes[ALGORITHM_KEY_MAX], iv[16] = {1}, in[64] = {2}, out[64], want[64];
    struct backend_key *key = open_key(ALGORITHM_AES_128_CBC, bytes);

    reference_crypt(ALGORITHM_AES_128_CBC, bytes, iv, true, want, in, sizeof(in));
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(ops->crypt(key, true, iv, out, in, sizeof(in)), 0);
        cr_expect_arr_eq(out, want, sizeof(out));
    }
    ops->close(key);
}

// ---------------------------------------------------------------- errors

Test(afalg, refuses_what_would_block_or_be_nothing)
{
    uint8_t bytes[ALGORITHM_KEY_MAX], iv[16] = {0};
    uint8_t *data = calloc(1, 65536 + 16);
    struct backend_key *key = open_key(ALGORITHM_AES_128_CBC, bytes);

    cr_assert_not_null(data);
    cr_expect_eq(ops->crypt(key, true, iv, data, data, 65536 + 16), -EMSGSIZE);
    cr_expect_eq(ops->crypt(key, true, iv, data, data, 0), -EMSGSIZE);
    ops->close(key);
    free(data);
}

// After an error the socket has input in it that nobody fetched: the next request must not meet it.
Test(afalg, works_after_an_error)
{
    const size_t n_before = count_descriptors();
    uint8_t bytes[ALGORITHM_KEY_MAX], iv[16] = {0}, data[64] = {0};
    struct backend_key *key = open_key(ALGORITHM_AES_256_CBC, bytes);
    size_t n_working;

    compare(key, ALGORITHM_AES_256_CBC, bytes, true, 64, true);
    n_working = count_descriptors();
    for (int i = 0; i < 20; i++) {
        cr_expect_lt(ops->crypt(key, true, iv, data, data, 17), 0);
        compare(key, ALGORITHM_AES_256_CBC, bytes, i % 2, 4096, i % 3 == 0);
    }
    cr_expect_eq(count_descriptors(), n_working, "sockets that were thrown away are still open");
    ops->close(key);
    cr_expect_eq(count_descriptors(), n_before);
}

// The kernel answers a system call with an error, once the filter is on.
static void forbid(int number, int error)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

    cr_assert(filter);
    cr_assert_eq(seccomp_rule_add(filter, SCMP_ACT_ERRNO((uint32_t)error), number, 0), 0);
    cr_assert_eq(seccomp_load(filter), 0);
    seccomp_release(filter);
}

Test(afalg, hands_the_errno_of_a_request_on)
{
    uint8_t bytes[ALGORITHM_KEY_MAX], iv[16] = {0}, data[64] = {0};
    struct backend_key *key = open_key(ALGORITHM_AES_128_CBC, bytes);

    compare(key, ALGORITHM_AES_128_CBC, bytes, true, 64, true);
    forbid(SCMP_SYS(sendmsg), EBUSY);
    cr_expect_eq(ops->crypt(key, true, iv, data, data, sizeof(data)), -EBUSY);
    cr_expect_eq(ops->crypt(key, true, iv, data, data, sizeof(data)), -EBUSY);
    ops->close(key);
}

Test(afalg, hands_on_that_there_are_no_more_descriptors)
{
    uint8_t bytes[ALGORITHM_KEY_MAX], iv[16] = {0}, data[64] = {0};
    struct backend_key *key = open_key(ALGORITHM_AES_128_CBC, bytes);

    // The first request accepts its operation socket.
    forbid(SCMP_SYS(accept), EMFILE);
    cr_expect_eq(ops->crypt(key, true, iv, data, data, sizeof(data)), -EMFILE);
    ops->close(key);
}

Test(afalg, says_that_the_kernel_refuses_an_algorithm)
{
    forbid(SCMP_SYS(bind), ENOENT);
    struct backend_probe found = probe(backend, ALGORITHM_AES_192_CBC);
    cr_expect_eq(found.error, -ENOENT);
    cr_expect_str_eq(found.text, "the kernel refuses cbc(aes) (ENOENT)");
}

Test(afalg, says_that_a_policy_forbids_an_algorithm)
{
    forbid(SCMP_SYS(bind), EACCES);
    struct backend_probe found = probe(backend, ALGORITHM_DES_EDE3_CBC);
    cr_expect_eq(found.error, -EACCES);
    cr_expect_str_eq(found.text,
                     "AF_ALG with cbc(des3_ede) is blocked by a security policy (EACCES)");
}

static void forbid_netlink(int error)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

    cr_assert(filter);
    cr_assert_eq(seccomp_rule_add(filter, SCMP_ACT_ERRNO((uint32_t)error), SCMP_SYS(socket), 1,
                                  SCMP_A0(SCMP_CMP_EQ, AF_NETLINK)),
                 0);
    cr_assert_eq(seccomp_load(filter), 0);
    seccomp_release(filter);
}

Test(afalg, says_that_netlink_crypto_is_missing)
{
    const uint8_t bytes[ALGORITHM_KEY_MAX] = {1};
    struct backend_key *key = NULL;

    forbid_netlink(EPROTONOSUPPORT);
    struct backend_probe found = probe(backend, ALGORITHM_AES_128_CBC);
    cr_expect_eq(found.error, -EPROTONOSUPPORT);
    cr_expect_str_eq(
        found.text,
        "the kernel's module crypto_user (NETLINK_CRYPTO) is missing (EPROTONOSUPPORT)");
    cr_expect_eq(ops->open(backend, ALGORITHM_AES_128_CBC, bytes, &key), -EPROTONOSUPPORT);
}

Test(afalg, says_that_netlink_crypto_is_forbidden)
{
    forbid_netlink(EPERM);
    struct backend_probe found = probe(backend, ALGORITHM_AES_128_CBC);
    cr_expect_eq(found.error, -EPERM);
    cr_expect_str_eq(found.text, "NETLINK_CRYPTO is blocked by a security policy (EPERM)");
}

// ---------------------------------------------------------------- drivers

Test(afalg, names_the_driver)
{
    for (enum algorithm_id algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        struct backend_probe found;

        if (!is_served(algorithm))
            continue;
        found = probe(backend, algorithm);
        cr_expect_eq(found.error, 0, "%s: %s", algorithm_get(algorithm)->name, found.text);
        cr_expect_neq(found.driver[0], '\0');
        cr_log_info("%s: %s%s", algorithm_get(algorithm)->name, found.driver,
                    found.hardware ? " (engine)" : "");
    }
}

Test(afalg, keeps_the_deny_list)
{
    struct backend_probe found = probe(backend, ALGORITHM_AES_128_CBC);
    char list[256];

    snprintf(list, sizeof(list), "other-driver %s another", found.driver);
    struct backend *by_driver = start(list), *by_name = start("ctr(aes)"),
                   *by_part = start("cbc aes cbc(aes");
    // Before the first operation: nothing that does one may be called.
    forbid(SCMP_SYS(setsockopt), EIO);
    forbid(SCMP_SYS(accept), EIO);
    found = probe(by_driver, ALGORITHM_AES_128_CBC);
    cr_expect(found.denied);
    cr_expect_eq(found.error, -EKEYREJECTED);
    cr_expect_str_eq(found.text, "on the list deny_drivers");
    cr_expect_neq(found.driver[0], '\0');
    cr_expect(probe(by_name, ALGORITHM_AES_256_CTR).denied);
    cr_expect_not(probe(by_name, ALGORITHM_AES_256_CBC).denied);
    cr_expect_not(probe(by_part, ALGORITHM_AES_256_CBC).denied);
    ops->fini(by_driver);
    ops->fini(by_name);
    ops->fini(by_part);
}

Test(afalg, makes_an_offer)
{
    struct message_role_config config = {.backends = CONFIG_BACKEND_AFALG | CONFIG_BACKEND_CPU};
    static struct offer offer;

    strcpy(config.deny_drivers, "cbc(des3_ede)");
    cr_assert_eq(offer_init(&offer, &config, 2), 0);
    offer_decide(&offer, CONFIG_OFFLOAD_ALWAYS, 1);
    cr_expect_eq(offer.afalg_error, 0);
    for (uint32_t a = 0; a <= ALGORITHM_AES_256_CTR; a++)
        cr_expect_eq(offer_find_request_row(&offer, a), &offer.rows[a][0]);
    cr_expect_eq(offer.rows[ALGORITHM_DES_EDE3_CBC][0].state, MESSAGE_STATE_DENIED);
    cr_expect_eq(offer_find_request_row(&offer, ALGORITHM_DES_EDE3_CBC),
                 &offer.rows[ALGORITHM_DES_EDE3_CBC][1]);
    // Measured, whatever comes out: both rates are in the row's text.
    offer_decide(&offer, CONFIG_OFFLOAD_AUTO, 1);
    cr_expect(offer.rows[0][0].measured);
    cr_expect_not_null(strstr(offer.rows[0][0].text, "MB/s"));
    cr_expect_eq(offer.rows[0][0].lanes != 0, measure_gains(&offer.rows[0][0].measure));
    offer_check_again(&offer);
    cr_expect_eq(offer.afalg_error, 0);
    offer_fini(&offer);
}

// ---------------------------------------------------------------- many at once

struct user {
    struct backend_key *key;
    uint64_t seed;
    bool right;
};

static void *use_key(void *arg)
{
    struct user *user = arg;
    static _Thread_local uint8_t plain[32768], data[32768];
    uint8_t iv[16];

    user->right = true;
    for (uint64_t i = 0; i < 50; i++) {
        const size_t n_bytes = 16 + (i * 656) % (sizeof(data) - 16) / 16 * 16;

        fill(plain, n_bytes, user->seed + i);
        fill(iv, sizeof(iv), user->seed * 3 + i);
        if (ops->crypt(user->key, true, iv, data, plain, n_bytes) != 0 ||
            ops->crypt(user->key, false, iv, data, data, n_bytes) != 0 ||
            memcmp(data, plain, n_bytes) != 0)
            user->right = false;
    }
    return NULL;
}

Test(afalg, serves_one_key_in_several_threads)
{
    const size_t n_before = count_descriptors();
    uint8_t bytes[ALGORITHM_KEY_MAX];
    struct backend_key *key = open_key(ALGORITHM_AES_128_CBC, bytes);
    struct user users[4];
    pthread_t threads[4];

    for (uint32_t i = 0; i < 4; i++) {
        users[i] = (struct user){.key = key, .seed = i * 1000};
        cr_assert_eq(pthread_create(&threads[i], NULL, use_key, &users[i]), 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        cr_expect(users[i].right);
    }
    // A transform, and three a thread at most.
    cr_expect_leq(count_descriptors(), n_before + 1 + 3 * 4);
    ops->close(key);
    cr_expect_eq(count_descriptors(), n_before);
}

Test(afalg, gives_the_descriptors_of_many_keys_back)
{
    const size_t n_before = count_descriptors();
    struct backend_key *keys[64];
    uint8_t bytes[ALGORITHM_KEY_MAX];

    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 64; i++) {
            keys[i] = open_key(ALGORITHM_AES_256_CBC, bytes);
            compare(keys[i], ALGORITHM_AES_256_CBC, bytes, true, 32, true);
        }
        for (size_t i = 0; i < 64; i++)
            ops->close(keys[i]);
        cr_expect_eq(count_descriptors(), n_before);
    }
}
