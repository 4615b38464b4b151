// SPDX-License-Identifier: MIT
// libFuzzer entry for the small texts that the engine reads: what the fault backend shall do, lists
// of drivers, what is quarantined, /proc/crypto, /proc/cpuinfo. The first byte chooses.
#include "fuzz_input.h"

#include <stdio.h>

#include "calibration_key.h"
#include "deny_list.h"
#include "fault_spec.h"
#include "proc_crypto.h"
#include "quarantine.h"

#define TEXT_MAX 4096u

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return 0;
}

static void read_fault(const char *text)
{
    struct fault_spec spec = {.delay_ms = 12345};

    if (fault_spec_parse(text, &spec) == 0)
        fuzz_require(spec.delay_ms <= 60000 && (spec.algorithm == NULL || spec.algorithm->name));
    else
        fuzz_require(spec.delay_ms == 12345); // untouched
}

static void read_crypto(const char *text)
{
    struct proc_crypto_driver driver;

    for (int sync = 0; sync < 2; sync++)
        if (proc_crypto_find(text, "cbc(aes)", sync, &driver) == 0) {
            fuzz_require(memchr(driver.name, '\0', sizeof(driver.name)) != NULL);
            fuzz_require(!sync || !driver.async);
            (void)proc_crypto_is_software(driver.name);
        }
    (void)proc_crypto_is_software(text);
}

// The first line is a driver, the rest a list: what was added must be found, and fit.
static void read_quarantine(char *text)
{
    char name[QUARANTINE_NAME_MAX], list[64] = "";
    char *rest = strchr(text, '\n');

    if (rest != NULL)
        *rest++ = '\0';
    quarantine_make_name(text, name);
    fuzz_require(name[0] != '\0' && strpbrk(name, " \t\n") == NULL);
    (void)quarantine_has(rest != NULL ? rest : "", text, "aes-128-cbc");
    if (quarantine_add(list, sizeof(list), name, "aes-128-cbc") == 0)
        fuzz_require(quarantine_has(list, text, "aes-128-cbc"));
    if (rest != NULL)
        (void)quarantine_add(list, sizeof(list), rest, "aes-256-ctr");
    fuzz_require(memchr(list, '\0', sizeof(list)) != NULL);
    (void)deny_list_has(rest != NULL ? rest : list, text);
}

static void read_cpu(char *text, size_t n)
{
    char cpu[160];
    FILE *in = n > 0 ? fmemopen(text, n, "r") : NULL;

    if (in == NULL)
        return;
    calibration_key_read_cpu(in, cpu, sizeof(cpu));
    fuzz_require(memchr(cpu, '\0', sizeof(cpu)) != NULL);
    fclose(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, data + n};
    char text[TEXT_MAX];
    uint8_t what = fuzz_byte(&in);
    size_t n_text = fuzz_left(&in) < TEXT_MAX - 1 ? fuzz_left(&in) : TEXT_MAX - 1;

    memcpy(text, in.at, n_text);
    text[n_text] = '\0';
    switch (what & 3) {
    case 0:
        read_fault(text);
        break;
    case 1:
        read_crypto(text);
        break;
    case 2:
        read_quarantine(text);
        break;
    default:
        read_cpu(text, n_text);
    }
    return 0;
}
