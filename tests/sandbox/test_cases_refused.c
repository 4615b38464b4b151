// SPDX-License-Identifier: MIT
// Case 5: emulators, containers and old kernels in which a system call that opening a channel needs
// does not exist or is refused. Opening says so, quietly and at once; everything goes on in
// software, with the right bytes; and the provider loads.
#include <criterion/criterion.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libgen.h>
#include <limits.h>
#include <unistd.h>

#include "call_number.h"
#include "confined.h"
#include "cryptod.h"
#include "fixture.h"

static struct fixture daemon_fixture;

static void daemon_end(void)
{
    fixture_stop(&daemon_fixture);
}

TestSuite(cases_refused, .fini = daemon_end, .timeout = 300);

struct refusal {
    const char *call;
    int error;
};

static const struct refusal refusals[] = {
    {"socket", ENOSYS},      {"socket", EAFNOSUPPORT},
    {"socket", EACCES},      {"socket", EPERM},
    {"socket", EMFILE},      {"connect", ENOPROTOOPT},
    {"connect", EPROTOTYPE}, {"memfd_create", ENOSYS},
    {"memfd_create", EPERM}, {"fallocate", EOPNOTSUPP},
    {"ftruncate", ENOSYS},   {"socketpair", ENOSYS},
    {"socketpair", EMFILE},  {"setsockopt", ENOPROTOOPT},
    {"setsockopt", ENOSYS},  {"getsockopt", ENOPROTOOPT},
    {"sendmsg", ENOSYS},     {"sendmsg", ETOOMANYREFS},
    {"recvmsg", ENOSYS},     {"mlock", ENOSYS},
    {"madvise", ENOSYS},     {"poll", ENOSYS},
    {"ppoll", ENOSYS},
};

static int refuse(const struct refusal *refusal)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int call = call_number(refusal->call);
    int r = filter ? 0 : -ENOMEM;

    if (r == 0 && call >= 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ERRNO((uint16_t)refusal->error), call, 0);
    if (r == 0)
        r = seccomp_load(filter);
    seccomp_release(filter);
    return r;
}

static const uint8_t key[32] = {1, 2, 3}, iv[16] = {4, 5, 6};
#define N_DATA 100000

static bool bytes_are_right(const uint8_t *out)
{
    static uint8_t in[N_DATA], expected[N_DATA + 32];
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, "AES-256-CTR", "provider=default");
    int n = 0;
    bool right = context && cipher && EVP_EncryptInit_ex2(context, cipher, key, iv, NULL) == 1 &&
                 EVP_EncryptUpdate(context, expected, &n, in, N_DATA) == 1 &&
                 memcmp(out, expected, N_DATA) == 0;

    EVP_CIPHER_free(cipher);
    EVP_CIPHER_CTX_free(context);
    return right;
}

static int library_run(const void *argument)
{
    static uint8_t out[N_DATA];
    cryptod_stream *stream = NULL;

    CONFINED_STEP(refuse(argument) == 0);
    (void)cryptod_open(NULL, 2000); // whether it can do without is its own affair
    CONFINED_STEP(cryptod_stream_new(CRYPTOD_AES_256_CTR, &stream) == 0);
    CONFINED_STEP(cryptod_stream_init(stream, key, iv, true) == 0);
    CONFINED_STEP(cryptod_stream_crypt(stream, out, out, N_DATA) == 0);
    CONFINED_STEP(bytes_are_right(out));
    cryptod_stream_free(stream);
    cryptod_close();
    return 0;
}

static int provider_run(const void *argument)
{
    static uint8_t out[N_DATA];
    char path[PATH_MAX];
    int n = 0;

    CONFINED_STEP(realpath(fixture_built("cryptod.so"), path));
    CONFINED_STEP(OSSL_PROVIDER_load(NULL, "default"));
    CONFINED_STEP(refuse(argument) == 0);
    CONFINED_STEP(OSSL_PROVIDER_set_default_search_path(NULL, dirname(path)) == 1);
    CONFINED_STEP(OSSL_PROVIDER_load(NULL, "cryptod"));
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, "AES-256-CTR", "?provider=cryptod");
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    CONFINED_STEP(cipher && EVP_EncryptInit_ex2(context, cipher, key, iv, NULL) == 1);
    CONFINED_STEP(EVP_EncryptUpdate(context, out, &n, out, N_DATA) == 1 && n == N_DATA);
    CONFINED_STEP(bytes_are_right(out));
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(cipher);
    return 0;
}

static void expect_quiet_software(confined_body body)
{
    fixture_start(&daemon_fixture, "lanes.deadline_ms=5000\n");
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        char heard[512], what[64];

        snprintf(what, sizeof(what), "%s: %s", refusals[i].call,
                 strerrorname_np(refusals[i].error));
        int status = confined_run_heard(body, &refusals[i], heard, sizeof(heard));
        cr_expect_str_eq(heard, "", "%s: it says: %s", what, heard);
        confined_assert_exit(status, 0, what);
    }
}

Test(cases_refused, case_05_library_goes_on_in_software)
{
    expect_quiet_software(library_run);
}

Test(cases_refused, case_05_provider_goes_on_in_software)
{
    expect_quiet_software(provider_run);
}

// And it is not called success: a program can tell.
static int told_run(const void *argument)
{
    const struct refusal *refusal = argument;

    CONFINED_STEP(refuse(refusal) == 0);
    CONFINED_STEP(cryptod_open(NULL, 2000) == -refusal->error);
    CONFINED_STEP(!cryptod_offers(CRYPTOD_AES_256_CTR));
    return 0;
}

Test(cases_refused, case_05_library_tells_why)
{
    static const struct refusal told[] = {{"socket", ENOSYS},
                                          {"socket", EAFNOSUPPORT},
                                          {"memfd_create", ENOSYS},
                                          {"socketpair", EMFILE}};

    fixture_start(&daemon_fixture, NULL);
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
        confined_assert_exit(confined_run(told_run, &told[i]), 0, told[i].call);
}
