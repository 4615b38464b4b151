// SPDX-License-Identifier: MIT
// Guarantees: any text is read without harm; an entry counts only if it is whole. Must not know
// sockets.
//
//      name         : cbc(aes)
//      driver       : cbc-aes-aesni
//      priority     : 400
//      selftest     : passed
//      internal     : no
//      type         : skcipher
//      async        : yes
//      (an empty line ends the entry)
#include "proc_crypto.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROC_CRYPTO_MAX ((size_t)1024 * 1024) // bytes; a kernel with everything has some 200 KiB

struct entry {
    char name[64];
    char driver[64];
    char type[32];
    long priority;
    bool passed;
    bool internal;
    bool async;
};

int proc_crypto_read(char **ret_text)
{
    FILE *file = fopen("/proc/crypto", "re");
    char *text;
    size_t n;
    int r = 0;

    if (!file)
        return -errno;
    text = malloc(PROC_CRYPTO_MAX + 1);
    if (!text) {
        fclose(file);
        return -ENOMEM;
    }
    n = fread(text, 1, PROC_CRYPTO_MAX, file);
    text[n] = '\0';
    if (ferror(file))
        r = -EIO;
    fclose(file);
    if (r < 0)
        free(text);
    else
        *ret_text = text;
    return r;
}

static void copy_text(char *to, size_t n_to, const char *from, size_t n)
{
    if (n >= n_to)
        n = n_to - 1;
    memcpy(to, from, n);
    to[n] = '\0';
}

static bool is_text(const char *value, size_t n, const char *text)
{
    return n == strlen(text) && memcmp(value, text, n) == 0;
}

// "key   : value"; a line of another form says nothing.
static void read_line(struct entry *entry, const char *line, size_t n)
{
    const char *colon = memchr(line, ':', n);
    const char *value, *end = line + n;
    size_t n_key, n_value;

    if (!colon)
        return;
    n_key = (size_t)(colon - line);
    while (n_key > 0 && line[n_key - 1] == ' ')
        n_key--;
    value = colon + 1;
    while (value < end && *value == ' ')
        value++;
    n_value = (size_t)(end - value);
    if (is_text(line, n_key, "name"))
        copy_text(entry->name, sizeof(entry->name), value, n_value);
    else if (is_text(line, n_key, "driver"))
        copy_text(entry->driver, sizeof(entry->driver), value, n_value);
    else if (is_text(line, n_key, "type"))
        copy_text(entry->type, sizeof(entry->type), value, n_value);
    else if (is_text(line, n_key, "priority"))
        entry->priority = strtol(value, NULL, 10);
    else if (is_text(line, n_key, "selftest"))
        entry->passed = is_text(value, n_value, "passed");
    else if (is_text(line, n_key, "internal"))
        entry->internal = !is_text(value, n_value, "no");
    else if (is_text(line, n_key, "async"))
        entry->async = !is_text(value, n_value, "no");
}

// Types by which kernels have called symmetric ciphers: before 4.10 two kinds, from 6.7 a simple
// kind too.
static bool is_cipher_type(const char *type)
{
    static const char *const types[] = {"skcipher", "lskcipher", "ablkcipher", "blkcipher",
                                        "givcipher"};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

int proc_crypto_find(const char *text, const char *name, bool sync_only,
                     struct proc_crypto_driver *ret)
{
    struct proc_crypto_driver best = {.name = ""};
    long best_priority = 0;
    struct entry entry = {.name = ""};
    const char *line = text;

    while (*line != '\0') {
        size_t n = strcspn(line, "\n");
        bool last = line[n] == '\0' || line[n + 1] == '\0';

        read_line(&entry, line, n);
        if (n == 0 || last) {
            if (strcmp(entry.name, name) == 0 && is_cipher_type(entry.type) &&
                entry.driver[0] != '\0' && entry.passed && !entry.internal &&
                !(sync_only && entry.async) &&
                (best.name[0] == '\0' || entry.priority > best_priority)) {
                memcpy(best.name, entry.driver, sizeof(best.name));
                best.async = entry.async;
                best_priority = entry.priority;
            }
            entry = (struct entry){.name = ""};
        }
        line += last ? strlen(line) : n + 1;
    }
    if (best.name[0] == '\0')
        return -ENOENT;
    *ret = best;
    return 0;
}

bool proc_crypto_is_software(const char *driver)
{
    static const char *const parts[] = {
        "generic",  "-lib",    "cryptd(", "(aes-fixed-time",
        "simd", // portable C
        "aesni",    "-avx",    "-vaes",   "-ssse3",
        "-asm",     "-x86_64", "-i586", // x86
        "aes-ce",   "-neon",   "neonbs",  "-arm",
        "-sve", // ARM
        "p8_aes",   "-ppc",    "-s390",   "-sparc64",
        "-riscv64", "-zvk", // others
    };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr(driver, parts[i]))
            return true;
    return false;
}
