// SPDX-License-Identifier: MIT
// Case 29 from the field, through the OpenSSL provider as sshd reaches it: loaded before the
// sandbox; ciphers found, keyed, used, copied, misused and freed in it, each byte beside OpenSSL's
// own. The comparison is made in the sandboxed process, with the default provider.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <libgen.h>
#include <limits.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "confined.h"
#include "fixture.h"
#include "sshd_filter.h"

#define PROVIDER_UID 61983
#define N_MOST       ((size_t)256 * 1024)

// A provider waits 100 ms for the daemon when it is loaded, and a busy machine may be slower: then
// it offers nothing, and the test begins anew.
#define NOT_OFFERED  99 // exit status
#define OFFER_REPEAT 50

static struct fixture daemon_fixture;

static void daemon_end(void)
{
    fixture_stop(&daemon_fixture);
}

TestSuite(cases_provider, .fini = daemon_end, .timeout = 300);

struct world {
    enum sshd_filter_version version;
    const char *folder; // of the built provider
};

static uint8_t input[N_MOST], ours[N_MOST], theirs[N_MOST];

// The same operation by both; they must agree on the result, and on the bytes of a success.
static int both(EVP_CIPHER_CTX *a, EVP_CIPHER_CTX *b, size_t n)
{
    int r = EVP_Cipher(a, ours, input, (unsigned)n);
    int expected = EVP_Cipher(b, theirs, input, (unsigned)n);

    CONFINED_STEP((r < 0) == (expected < 0));
    CONFINED_STEP(r < 0 || memcmp(ours, theirs, n) == 0);
    return 0;
}

static int move_data(EVP_CIPHER_CTX *a, EVP_CIPHER_CTX *b)
{
    static const size_t sizes[] = {16, 48, 304, 32784, 65536, 65552, 131072, N_MOST};

    for (int round = 0; round < 12; round++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
            if (both(a, b, sizes[i]) != 0)
                return 1;
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL); // the daemon takes the key
    }
    return 0;
}

// What sshd asks for (cipher_get_keyiv), and the errors that OpenSSL answers misuse with.
static int misuse(EVP_CIPHER_CTX *a, EVP_CIPHER_CTX *b)
{
    uint8_t iv[16] = {0}, expected[16] = {0};
    size_t n_iv = (size_t)EVP_CIPHER_CTX_get_iv_length(a);

    CONFINED_STEP(EVP_CIPHER_CTX_get_updated_iv(a, iv, n_iv) == 1);
    CONFINED_STEP(EVP_CIPHER_CTX_get_updated_iv(b, expected, n_iv) == 1);
    CONFINED_STEP(memcmp(iv, expected, n_iv) == 0);
    CONFINED_STEP(EVP_CIPHER_CTX_set_key_length(a, 7) != 1);
    if (EVP_CIPHER_CTX_get_block_size(a) > 1)
        CONFINED_STEP(EVP_Cipher(a, ours, input, 7) <= 0);
    CONFINED_STEP(ERR_peek_last_error() != 0);
    ERR_clear_error();
    return 0;
}

static int try_cipher(const char *name)
{
    const uint8_t key[32] = "a key that no session ever had", iv[16] = "an IV, likewise";
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, name, "provider=cryptod");
    EVP_CIPHER *reference = EVP_CIPHER_fetch(NULL, name, "provider=default");
    EVP_CIPHER_CTX *a = EVP_CIPHER_CTX_new(), *b = EVP_CIPHER_CTX_new(), *copy;

    CONFINED_STEP(cipher && reference && a && b);
    for (int encrypt = 1; encrypt >= 0; encrypt--) { // the IV before the key, as sshd does
        CONFINED_STEP(EVP_CipherInit(a, cipher, NULL, iv, encrypt) == 1);
        CONFINED_STEP(EVP_Cipher(a, ours, input, 16) <= 0);
        CONFINED_STEP(EVP_CipherInit(b, reference, NULL, iv, encrypt) == 1);
        CONFINED_STEP(EVP_CipherInit(a, NULL, key, NULL, -1) == 1);
        CONFINED_STEP(EVP_CipherInit(b, NULL, key, NULL, -1) == 1);
        CONFINED_STEP(EVP_CIPHER_CTX_set_padding(a, 0) && EVP_CIPHER_CTX_set_padding(b, 0));
        if (move_data(a, b) != 0 || misuse(a, b) != 0)
            return 1;
        CONFINED_STEP(EVP_CIPHER_CTX_reset(a) == 1 && EVP_CIPHER_CTX_reset(b) == 1);
    }
    CONFINED_STEP(EVP_CipherInit(a, cipher, key, iv, 1) == 1);
    CONFINED_STEP(EVP_CipherInit(b, reference, key, iv, 1) == 1);
    copy = EVP_CIPHER_CTX_new();
    CONFINED_STEP(EVP_CIPHER_CTX_copy(copy, a) == 1);
    if (both(copy, b, 65536) != 0)
        return 1;
    EVP_CIPHER_CTX_free(copy);
    EVP_CIPHER_CTX_free(a);
    EVP_CIPHER_CTX_free(b);
    EVP_CIPHER_free(cipher);
    EVP_CIPHER_free(reference);
    return 0;
}

static int body(const void *argument)
{
    static const char *const names[] = {"AES-128-CBC", "AES-256-CBC", "AES-128-CTR", "AES-256-CTR",
                                        "DES-EDE3-CBC"};
    const struct world *world = argument;

    CONFINED_STEP(OSSL_PROVIDER_set_default_search_path(NULL, world->folder) == 1);
    CONFINED_STEP(OSSL_PROVIDER_load(NULL, "default") != NULL);
    CONFINED_STEP(OSSL_PROVIDER_load(NULL, "cryptod") != NULL);
    EVP_CIPHER *offered = EVP_CIPHER_fetch(NULL, names[0], "provider=cryptod");
    if (!offered)
        return NOT_OFFERED;
    EVP_CIPHER_free(offered);
    for (size_t i = 0; i < sizeof(input); i++)
        input[i] = (uint8_t)(i * 7 + i / 256);
    CONFINED_STEP(sshd_filter_demote(PROVIDER_UID, PROVIDER_UID) == 0);
    CONFINED_STEP(sshd_filter_apply(world->version) == 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (try_cipher(names[i]) != 0)
            return 1;
    return 0;
}

static void run_version(enum sshd_filter_version version)
{
    char path[PATH_MAX], heard[1024];
    struct world world = {.version = version};
    int status = NOT_OFFERED << 8;

    cr_assert_not_null(realpath(fixture_built("cryptod.so"), path));
    world.folder = dirname(path);
    for (int i = 0; status == NOT_OFFERED << 8 && i < OFFER_REPEAT; i++)
        status = confined_run_heard(body, &world, heard, sizeof(heard));
    cr_assert_eq(status, 0, "sshd %s: status %x: %s", sshd_filter_name(version), status, heard);
}

struct conf_case {
    char name[16];
    char conf[160];
};

ParameterizedTestParameters(cases_provider, case_29_every_path)
{
    static struct conf_case cases[] = {
        {"works", ""},
        {"requests fail", "engine.backends=fault\nengine.fault=error_every=3\n"},
        {"requests hang", "engine.backends=fault\nengine.fault=hang_after=9\nlanes.deadline_ms=50"},
        {"no keys", "engine.backends=fault\nengine.fault=open_error\n"},
        {"one stream", "limits.streams_per_channel=1\n"},
    };
    return cr_make_param_array(struct conf_case, cases, sizeof cases / sizeof *cases);
}

static void check_served(const struct conf_case *row)
{
    struct cryptod_status *status;
    uint64_t operations = 0;

    fixture_settle(&daemon_fixture);
    cr_assert_eq(cryptod_status_get(NULL, 10000, &status), 0);
    for (size_t i = 0; i < status->n_algorithms; i++)
        operations += status->algorithms[i].operations;
    cr_assert((operations > 0) == (strcmp(row->name, "no keys") != 0), "%s: %llu operations",
              row->name, (unsigned long long)operations);
    cryptod_status_free(status);
}

// Each version with a daemon of its own: one whose engine hung does not offer it any more.
ParameterizedTest(struct conf_case *row, cases_provider, case_29_every_path)
{
    for (int version = 0; version < SSHD_FILTER_COUNT; version++) {
        fixture_start(&daemon_fixture, row->conf);
        run_version((enum sshd_filter_version)version);
        check_served(row);
        fixture_stop(&daemon_fixture);
    }
}
