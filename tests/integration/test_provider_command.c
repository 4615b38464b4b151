// SPDX-License-Identifier: MIT
// The system's `openssl` command with the OpenSSL configuration that is installed for sshd.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"
#include "provider_command.h"
#include "provider_pair.h"

static struct fixture fixture;
static struct command_folder folder;

static void provider_command_setup(void)
{
    fixture_start(&fixture, NULL);
}

static void provider_command_teardown(void)
{
    fixture_stop(&fixture);
}

TestSuite(provider_command, .init = provider_command_setup, .fini = provider_command_teardown,
          .timeout = 300);

static void enc(bool ours, const char *direction, const char *cipher, const char *input,
                const char *output)
{
    int n_key = strstr(cipher, "128") != NULL ? 16 : strstr(cipher, "192") != NULL ? 24 : 32;
    int n_iv = 16;
    char arguments[512];

    if (strstr(cipher, "DES") != NULL) {
        n_key = 24;
        n_iv = 8;
    }
    snprintf(arguments, sizeof(arguments), "enc %s -%s -K %.*s -iv %.*s", direction, cipher,
             2 * n_key, "00112233445566778899aabbccddeeffffeeddccbbaa99887766554433221100",
             2 * n_iv, "0123456789abcdef0123456789abcdef");
    int status = command_run(&folder, ours, arguments, input, output);
    if (status != 0)
        command_show_log(&folder);
    cr_assert_eq(status, 0, "openssl %s ends with %d", arguments, status);
}

Test(provider_command, enc_round_trips_with_and_without_cryptod)
{
    static const size_t sizes[] = {0, 1, 8191, 1000000};

    command_folder_make(&folder, &fixture);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        command_write_random(&folder, "plain", sizes[i]);
        for (size_t k = 0; k < pair_n_names; k++) {
            enc(true, "-e", pair_names[k], "plain", "ours");
            enc(false, "-e", pair_names[k], "plain", "reference");
            cr_assert(command_same(&folder, "ours", "reference"), "%s, %zu bytes", pair_names[k],
                      sizes[i]);
            enc(true, "-d", pair_names[k], "ours", "back");
            cr_assert(command_same(&folder, "plain", "back"), "%s, %zu bytes", pair_names[k],
                      sizes[i]);
        }
    }
}

Test(provider_command, enc_uses_the_daemon)
{
    uint64_t operations, before, after;

    command_folder_make(&folder, &fixture);
    command_write_random(&folder, "plain", 1000000);
    pair_served("aes-256-cbc", &operations, &before);
    after = before;
    for (int i = 0; i < PAIR_REPEAT && after == before; i++) {
        enc(true, "-e", "AES-256-CBC", "plain", "ours");
        pair_served("aes-256-cbc", &operations, &after);
    }
    cr_assert_gt(after, before);
}

Test(provider_command, speed_runs)
{
    uint64_t operations, before, after;

    command_folder_make(&folder, &fixture);
    for (size_t k = 0; k < pair_n_names; k++) {
        char arguments[128];
        snprintf(arguments, sizeof(arguments), "speed -seconds 1 -bytes 16384 -evp %s",
                 pair_names[k]);
        pair_served(pair_names[k], &operations, &before);
        int status = command_run(&folder, true, arguments, NULL, NULL);
        cr_assert_eq(status, 0, "openssl %s ends with %d", arguments, status);
        pair_served(pair_names[k], &operations, &after);
        if (strcmp(pair_names[k], "ChaCha20") != 0)
            cr_assert_gt(after, before, "%s", pair_names[k]);
    }
}

// A configuration that outlives the package: what is left is OpenSSL as it is.
Test(provider_command, without_the_module_openssl_works)
{
    command_folder_make(&folder, &fixture);
    FILE *out = fopen(folder.config, "ae");
    cr_assert_not_null(out);
    fprintf(out, "module = /nonexistent/cryptod.so\n");
    fclose(out);
    command_write_random(&folder, "plain", 100000);
    enc(true, "-e", "AES-128-CBC", "plain", "ours");
    enc(false, "-d", "AES-128-CBC", "ours", "back");
    cr_assert(command_same(&folder, "plain", "back"));
    cr_assert_eq(command_run(&folder, true, "rand -hex 16", NULL, NULL), 0);
    cr_assert_eq(command_run(&folder, true, "genpkey -algorithm ed25519", NULL, NULL), 0);
}

// Random numbers are made by the default provider's AES-CTR, not through the daemon.
Test(provider_command, random_numbers_stay_with_openssl)
{
    uint64_t operations, before, after;

    command_folder_make(&folder, &fixture);
    pair_served("aes-256-ctr", &operations, &before);
    cr_assert_eq(command_run(&folder, true, "rand -out random 4000000", NULL, NULL), 0);
    pair_served("aes-256-ctr", &operations, &after);
    cr_assert_eq(before, after);
}
