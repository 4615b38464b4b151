// SPDX-License-Identifier: MIT
// Cases from the field, each named with its number, where the kernel's side of a driver must be
// played: backend afalg over a libkcapi that behaves as those drivers did.
#include "backend.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kcapi_fake.h"
#include "reference.h"
#include "ring_rig.h"

#define N_MOST 65536u

static struct backend *backend;
static struct backend_key *key;
static uint8_t bytes[ALGORITHM_KEY_MAX], iv[ALGORITHM_IV_LEN_MAX];
static uint8_t *in, *out, *want;

static void setup(void)
{
    const struct backend_settings settings = {.workers = 2, .deny_drivers = ""};

    kcapi_fake = (struct kcapi_fake){.armed = true};
    ring_fill(bytes, sizeof(bytes), 1);
    ring_fill(iv, sizeof(iv), 2);
    in = malloc(N_MOST);
    out = malloc(N_MOST);
    want = malloc(N_MOST);
    cr_assert(in && out && want);
    cr_assert_eq(backend_afalg_ops.init(&settings, &backend), 0);
}

static void teardown(void)
{
    backend_afalg_ops.close(key);
    cr_expect_eq(kcapi_fake.n_handles, 0);
    backend_afalg_ops.fini(backend);
    free(in);
    free(out);
    free(want);
}

TestSuite(cases_afalg, .init = setup, .fini = teardown, .timeout = 60);

static void open_key(enum algorithm_id algorithm, uint32_t makes)
{
    struct backend_probe probe;

    backend_afalg_ops.probe(backend, algorithm, &probe);
    cr_assert_eq(probe.error, 0, "%s", probe.text);
    cr_assert_eq(probe.makes, makes);
    cr_assert_eq(backend_afalg_ops.open(backend, algorithm, bytes, &key), 0);
}

static int crypt(bool encrypt, bool in_place, size_t n_bytes)
{
    ring_fill(in, n_bytes, n_bytes);
    reference_crypt(ALGORITHM_AES_256_CBC, bytes, iv, encrypt, want, in, n_bytes);
    if (in_place)
        memcpy(out, in, n_bytes);
    return backend_afalg_ops.crypt(key, encrypt, iv, out, in_place ? out : in, n_bytes);
}

// 22 kB through a bounce buffer of 16 kB: the rest was never written, and that was no error.
Test(cases_afalg, case_06_short_output_without_an_error)
{
    kcapi_fake.n_short = 16384;
    open_key(ALGORITHM_AES_256_CBC, BACKEND_MAKES_REQUESTS);
    for (int way = 0; way < 4; way++) {
        cr_expect_eq(crypt(way & 1, way & 2, 22528), -EIO);
        cr_expect_eq(crypt(way & 1, way & 2, 16400), -EIO);
        cr_expect_eq(crypt(way & 1, way & 2, 16384), 0);
        cr_expect_eq(memcmp(out, want, 16384), 0);
    }
}

// EINVAL for one size: an error, and the requests after it are none the worse.
Test(cases_afalg, case_07_einval_at_exactly_one_size)
{
    kcapi_fake.n_refused = 65536;
    open_key(ALGORITHM_AES_256_CBC, BACKEND_MAKES_REQUESTS);
    for (int way = 0; way < 4; way++) {
        const uint32_t n_sockets = kcapi_fake.n_sockets;

        cr_expect_eq(crypt(way & 1, way & 2, 65536), -EINVAL);
        for (size_t n = 65520; n > 65456; n -= 16) {
            cr_expect_eq(crypt(way & 1, way & 2, n), 0);
            cr_expect_eq(memcmp(out, want, n), 0);
        }
        cr_expect_gt(kcapi_fake.n_sockets, n_sockets, "after an error the socket is thrown away");
    }
}

// Nothing that could be larger than a socket's buffer reaches the kernel.
Test(cases_afalg, case_08_requests_larger_than_the_send_buffer)
{
    open_key(ALGORITHM_AES_256_CBC, BACKEND_MAKES_REQUESTS);
    cr_expect_eq(crypt(true, true, 65536), 0);
    cr_expect_eq(backend_afalg_ops.crypt(key, true, iv, out, out, 65536 + 16), -EMSGSIZE);
    cr_expect_eq(backend_afalg_ops.crypt(key, true, iv, out, out, 262144), -EMSGSIZE);
    cr_expect_eq(backend_afalg_ops.crypt(key, true, iv, out, out, SIZE_MAX - 15), -EMSGSIZE);
    cr_expect_eq(kcapi_fake.n_largest, 65536);
}

static void expect_keystream(void)
{
    static const size_t sizes[] = {16, 4096, 65536};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(in, 0, sizes[i]);
        reference_crypt(ALGORITHM_AES_128_CTR, bytes, iv, true, want, in, sizes[i]);
        cr_expect_eq(backend_afalg_ops.keystream(key, iv, out, sizes[i]), 0);
        cr_expect_eq(memcmp(out, want, sizes[i]), 0);
    }
}

// An engine without CTR whose driver refuses ECB without an IV: keystream is made all the same, and
// after the first time without a vain try.
Test(cases_afalg, case_27_a_driver_that_wants_an_iv_for_ecb)
{
    for (int lists = 0; lists < 2; lists++) {
        kcapi_fake = (struct kcapi_fake){.armed = true, .wants_iv = true, .lists_iv = lists};
        open_key(ALGORITHM_AES_128_CTR, BACKEND_MAKES_KEYSTREAM);
        expect_keystream();
        cr_expect_eq(kcapi_fake.n_requests, lists ? 3 : 4);
        cr_expect_eq(kcapi_fake.n_with_iv, 3);
        backend_afalg_ops.close(key);
        key = NULL;
    }
}

Test(cases_afalg, case_27_a_driver_that_lists_an_iv_for_ecb_and_refuses_it)
{
    kcapi_fake.lists_iv = kcapi_fake.refuses_iv = true;
    open_key(ALGORITHM_AES_128_CTR, BACKEND_MAKES_KEYSTREAM);
    expect_keystream();
    cr_expect_eq(kcapi_fake.n_requests, 4);
    cr_expect_eq(kcapi_fake.n_with_iv, 1);
}

Test(cases_afalg, case_27_a_driver_that_wants_none)
{
    open_key(ALGORITHM_AES_128_CTR, BACKEND_MAKES_KEYSTREAM);
    expect_keystream();
    cr_expect_eq(kcapi_fake.n_requests, 3);
    cr_expect_eq(kcapi_fake.n_with_iv, 0);
}

// EINVAL for another reason stays an error.
Test(cases_afalg, case_27_a_driver_that_refuses_either)
{
    kcapi_fake.wants_iv = kcapi_fake.refuses_iv = true;
    open_key(ALGORITHM_AES_128_CTR, BACKEND_MAKES_KEYSTREAM);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(backend_afalg_ops.keystream(key, iv, out, 4096), -EINVAL);
}
