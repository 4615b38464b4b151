// SPDX-License-Identifier: MIT
// What a calibration holds for: the same machine is the same, and each change is one.
#include "calibration_key.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void read_cpu(const char *text, char ret[160])
{
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

    cr_assert_not_null(in);
    calibration_key_read_cpu(in, ret, 160);
    fclose(in);
}

#define X86(model, flags)                                                                          \
    "processor\t: 0\nmodel name\t: " model "\ncpu MHz\t\t: 2000.1\nflags\t\t: " flags              \
    "\nbogomips\t: 1\n\nprocessor\t: 1\nmodel name\t: other\nflags\t\t: " flags "\n"

Test(calibration_key, names_the_cpu)
{
    char first[160], second[160];

    read_cpu(X86("Some CPU @ 2 GHz", "fpu aes"), first);
    cr_expect_eq(strncmp(first, "Some CPU @ 2 GHz, features ", 27), 0, "%s", first);
    read_cpu(X86("Some CPU @ 2 GHz", "fpu"), second);
    cr_expect_str_neq(first, second, "AES instructions make another CPU of it");
    read_cpu("CPU implementer\t: 0x41\nCPU part\t: 0xd03\n", first);
    cr_expect_eq(strncmp(first, "unknown model, features ", 24), 0, "%s", first);
    read_cpu("CPU implementer\t: 0x41\nCPU part\t: 0xd08\n", second);
    cr_expect_str_neq(first, second);
    read_cpu("model name : evil; # \x01\xff name\n", first);
    cr_expect_eq(strncmp(first, "evil. # .. name, ", 17), 0, "%s", first);
    read_cpu("no colon\n:\n", first);
    cr_expect_eq(strncmp(first, "unknown model, ", 15), 0, "%s", first);
}

Test(calibration_key, differs_in_each_part)
{
    struct message_calibration_key key, again, other;

    unsetenv("OPENSSL_ia32cap");
    unsetenv("OPENSSL_armcap");
    calibration_key_get(&key);
    calibration_key_get(&again);
    cr_expect(calibration_key_is_same(&key, &again));
    cr_expect_eq(memcmp(&key, &again, sizeof(key)), 0);
    cr_expect_neq(key.kernel[0], '\0');
    cr_expect_neq(key.cpu[0], '\0');
    cr_expect_eq(strncmp(key.openssl, "OpenSSL ", 8), 0);
    cr_expect_str_empty(key.capabilities);
    cr_expect_gt(key.cpus, 0);
    setenv("OPENSSL_ia32cap", "0:0", 1);
    calibration_key_get(&other);
    cr_expect_str_eq(other.capabilities, "0:0");
    cr_expect_not(calibration_key_is_same(&key, &other));
    char *const texts[] = {other.kernel, other.cpu, other.openssl};
    for (size_t i = 0; i < 3; i++) {
        other = key;
        texts[i][strlen(texts[i]) - 1] ^= 1;
        cr_expect_not(calibration_key_is_same(&key, &other));
    }
    other = key;
    other.cpus++;
    cr_expect_not(calibration_key_is_same(&key, &other));
}
