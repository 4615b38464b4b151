// SPDX-License-Identifier: MIT
// /proc/crypto as kernels write it, and as none does; and the kernel's release.
#include "proc_crypto.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

TestSuite(proc_crypto, .timeout = 60);
TestSuite(kernel, .timeout = 60);

#define ENTRY(name, driver, priority, selftest, internal, type, async)                             \
    "name         : " name "\ndriver       : " driver                                              \
    "\nmodule       : kernel\npriority     : " priority                                            \
    "\nrefcnt       : 1\nselftest     : " selftest "\ninternal     : " internal                    \
    "\ntype         : " type "\nasync        : " async "\nblocksize    : 16\n\n"

static const char proc_crypto_text[] =
    ENTRY("__cbc(aes)", "__cbc-aes-aesni", "400", "passed", "yes", "skcipher",
          "no") ENTRY("cbc(aes)", "cbc(aes-generic)", "100", "passed", "no", "skcipher", "no")
        ENTRY("cbc(aes)", "cbc-aes-broken", "900", "unknown", "no", "skcipher",
              "no") ENTRY("cbc(aes)", "cbc-aes-inside", "800", "passed", "yes", "skcipher", "no")
            ENTRY("cbc(aes)", "virtio_crypto_aes_cbc", "150", "passed", "no", "skcipher", "yes")
                ENTRY("cbc(aes)", "second-with-the-same", "150", "passed", "no", "skcipher", "yes")
                    ENTRY("cbc(aes)", "authenc-not-a-cipher", "950", "passed", "no", "aead", "no")
                        ENTRY("ctr(aes)", "mv-ctr-aes", "300", "passed", "no", "ablkcipher", "yes")
                            ENTRY("ecb(aes)", "ecb-aes-lskcipher", "5", "passed", "no", "lskcipher",
                                  "no");

static void expect_driver(const char *text, const char *name, bool sync_only, const char *driver,
                          bool async)
{
    struct proc_crypto_driver found = {.name = ""};

    cr_assert_eq(proc_crypto_find(text, name, sync_only, &found), 0, "%s", name);
    cr_expect_str_eq(found.name, driver);
    cr_expect_eq(found.async, async);
}

Test(proc_crypto, finds_the_driver_that_bind_would_take)
{
    struct proc_crypto_driver found = {.name = "untouched"};

    expect_driver(proc_crypto_text, "cbc(aes)", false, "virtio_crypto_aes_cbc", true);
    expect_driver(proc_crypto_text, "cbc(aes)", true, "cbc(aes-generic)", false);
    expect_driver(proc_crypto_text, "ctr(aes)", false, "mv-ctr-aes", true);
    expect_driver(proc_crypto_text, "ecb(aes)", true, "ecb-aes-lskcipher", false);
    cr_expect_eq(proc_crypto_find(proc_crypto_text, "ctr(aes)", true, &found), -ENOENT);
    cr_expect_eq(proc_crypto_find(proc_crypto_text, "xts(aes)", false, &found), -ENOENT);
    cr_expect_eq(proc_crypto_find(proc_crypto_text, "", false, &found), -ENOENT);
    cr_expect_eq(proc_crypto_find("", "cbc(aes)", false, &found), -ENOENT);
    cr_expect_str_eq(found.name, "untouched");
}

// Cut off anywhere, the text gives the right driver, another whole entry, or none.
Test(proc_crypto, reads_any_text_without_harm)
{
    for (size_t n = 0; n < sizeof(proc_crypto_text); n++) {
        char *cut = strndup(proc_crypto_text, n);
        struct proc_crypto_driver found = {.name = ""};

        cr_assert_not_null(cut);
        if (proc_crypto_find(cut, "cbc(aes)", false, &found) == 0)
            cr_expect(strcmp(found.name, "cbc(aes-generic)") == 0 ||
                          strncmp(found.name, "virtio", 6) == 0,
                      "%s", found.name);
        free(cut);
    }
}

Test(proc_crypto, cuts_long_names_off)
{
    char text[2048], name[300];
    struct proc_crypto_driver found;

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    snprintf(text, sizeof(text),
             "name : a\ndriver : %s\npriority : 1\nselftest : passed\ninternal : no\ntype : "
             "skcipher\nasync : no\n",
             name);
    cr_assert_eq(proc_crypto_find(text, "a", false, &found), 0);
    cr_expect_eq(strlen(found.name), sizeof(found.name) - 1);
}

Test(proc_crypto, reads_this_machines_file)
{
    char *text = NULL;

    if (proc_crypto_read(&text) < 0)
        cr_skip_test("this machine has no /proc/crypto");
    cr_expect_not_null(strstr(text, "driver"));
    free(text);
}

Test(proc_crypto, tells_engines_from_code_for_the_cpu)
{
    static const char *const software[] = {"cbc(aes-generic)",
                                           "cbc-aes-aesni",
                                           "ctr-aes-vaes-avx10_512",
                                           "cbc-aes-ce",
                                           "cbc-aes-neonbs",
                                           "ctr-aes-neon",
                                           "cbc(aes-arm)",
                                           "cryptd(__cbc-aes-aesni)",
                                           "cbc(aes-asm)",
                                           "cbc-des3_ede-asm",
                                           "p8_aes_cbc",
                                           "cbc-aes-s390",
                                           "cbc(des3_ede-generic)",
                                           "cbc(aes-lib)",
                                           "ctr(aes-generic)",
                                           "cbc(aes-fixed-time)"};
    static const char *const engines[] = {
        "virtio_crypto_aes_cbc", "mv-cbc-aes",    "cbc-aes-sun8i-ce",
        "cbc-aes-sun4i-ss",      "cbc-aes-rk",    "cbc(aes-eip93)",
        "safexcel-cbc-aes",      "cbc-aes-qce",   "cbc-aes-padlock",
        "cbc-aes-caam",          "atmel-cbc-aes", "cbc-aes-omap",
        "cbc(aes-talitos)",      "cbc-aes-ccp"};

    for (size_t i = 0; i < sizeof(software) / sizeof(software[0]); i++)
        cr_expect(proc_crypto_is_software(software[i]), "%s", software[i]);
    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
        cr_expect_not(proc_crypto_is_software(engines[i]), "%s", engines[i]);
}

Test(kernel, compares_releases)
{
    cr_expect(kernel_release_is_from("6.1.0-37-amd64", 6, 1));
    cr_expect(kernel_release_is_from("6.1", 5, 15));
    cr_expect(kernel_release_is_from("7.3-rc1", 7, 3));
    cr_expect(kernel_release_is_from("10.0.1", 7, 3));
    cr_expect_not(kernel_release_is_from("7.2.9", 7, 3));
    cr_expect_not(kernel_release_is_from("6.18.44", 7, 2));
    cr_expect_not(kernel_release_is_from("", 0, 0));
    cr_expect_not(kernel_release_is_from("linux", 0, 0));
    cr_expect(kernel_is_from(2, 6));
    cr_expect_not(kernel_is_from(900, 0));
}
