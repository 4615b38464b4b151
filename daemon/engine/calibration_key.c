// SPDX-License-Identifier: MIT
// Guarantees: texts of printable characters only, so that they can be kept in a file and compared.
// Must not know the file.
#include "calibration_key.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define LINE_MAX_BYTES 8192 // the line of features is the longest
#define HASH_START     UINT32_C(2166136261)
#define HASH_FACTOR    UINT32_C(16777619)

// What begins a comment in an INI file, or ends a line, becomes something else.
static void set_text(char *ret, size_t n_ret, const char *text)
{
    size_t n = 0;

    memset(ret, 0, n_ret);
    for (; *text != '\0' && n < n_ret - 1; text++)
        if (n > 0 || *text != ' ')
            ret[n++] = *text >= ' ' && *text <= '~' && *text != ';' ? *text : '.';
    while (n > 0 && ret[n - 1] == ' ')
        ret[--n] = '\0';
}

// FNV-1a.
static uint32_t hash(uint32_t h, const char *text)
{
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * HASH_FACTOR;
    return h;
}

static bool is_one_of(const char *name, const char *const names[])
{
    for (size_t i = 0; names[i]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

// "name\t: value\n" in two. NULL: it is no such line.
static char *split_line(char *line)
{
    char *colon = strchr(line, ':'), *value, *end;

    if (!colon)
        return NULL;
    value = colon + 1 + strspn(colon + 1, " \t");
    end = value + strcspn(value, "\n");
    *end = '\0';
    while (colon > line && (colon[-1] == ' ' || colon[-1] == '\t'))
        colon--;
    *colon = '\0';
    return value;
}

void calibration_key_read_cpu(FILE *in, char *ret, size_t n_ret)
{
    // The first that is there: x86, arm, MIPS, PowerPC, s390.
    static const char *const models[] = {"model name", "Processor", "cpu model", "cpu", NULL};
    // Where Arm names no model, these do; they differ between kinds of cores.
    static const char *const marks[] = {"flags",    "Features", "CPU implementer",  "CPU variant",
                                        "CPU part", "isa",      "ASEs implemented", "CPU revision",
                                        NULL};
    char line[LINE_MAX_BYTES], model[LINE_MAX_BYTES] = "unknown model", text[LINE_MAX_BYTES + 32];
    uint32_t h = HASH_START;
    bool named = false;

    while (fgets(line, sizeof(line), in)) {
        const char *value = split_line(line);

        if (!value)
            continue;
        if (!named && is_one_of(line, models)) {
            named = true;
            memcpy(model, value, strlen(value) + 1);
        } else if (is_one_of(line, marks)) {
            h = hash(h, value);
        }
    }
    (void)snprintf(text, sizeof(text), "%.100s, features %08x", model, h);
    set_text(ret, n_ret, text);
}

static void get_capabilities(char *ret, size_t n_ret)
{
    const char *x86 = getenv("OPENSSL_ia32cap"), *arm = getenv("OPENSSL_armcap");

    set_text(ret, n_ret, x86 ? x86 : arm ? arm : "");
}

void calibration_key_get(struct message_calibration_key *ret)
{
    const long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    struct utsname system;
    char kernel[sizeof(system.release) + sizeof(system.version) + 2] = "unknown";
    FILE *in = fopen("/proc/cpuinfo", "re");

    *ret = (struct message_calibration_key){.cpus = n_cpus > 0 ? (uint32_t)n_cpus : 1};
    if (uname(&system) == 0)
        (void)snprintf(kernel, sizeof(kernel), "%s %s", system.release, system.version);
    set_text(ret->kernel, sizeof(ret->kernel), kernel);
    set_text(ret->cpu, sizeof(ret->cpu), "unknown");
    if (in) {
        calibration_key_read_cpu(in, ret->cpu, sizeof(ret->cpu));
        fclose(in);
    }
    set_text(ret->openssl, sizeof(ret->openssl), OpenSSL_version(OPENSSL_VERSION));
    get_capabilities(ret->capabilities, sizeof(ret->capabilities));
}

bool calibration_key_is_same(const struct message_calibration_key *a,
                             const struct message_calibration_key *b)
{
    return a->cpus == b->cpus && strcmp(a->kernel, b->kernel) == 0 && strcmp(a->cpu, b->cpu) == 0 &&
           strcmp(a->openssl, b->openssl) == 0 && strcmp(a->capabilities, b->capabilities) == 0;
}
