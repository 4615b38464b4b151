// SPDX-License-Identifier: MIT
// Guarantees: a line is one write(2) of at most 512 bytes, made on the stack, with everything that
// could confuse a terminal or a log reader escaped; errno survives. After log_init() only write(2)
// is called, so it is safe in the sandboxes and after fork. Must not know who logs, or why.
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_LINE_MAX 512u

static _Atomic uint32_t log_max_level = LOG_LEVEL_NOTICE;
static const char *_Atomic log_name = "cryptod";
static atomic_bool log_to_journal;

// JOURNAL_STREAM names the device and inode of the stream that systemd connected to the journal
// (systemd.exec(5)).
static bool log_find_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat st;

    // NOLINTNEXTLINE(cert-err34-c): a number too large is as wrong as any other
    return stream != NULL && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void log_init(const char *name, uint32_t max_level)
{
    static bool looked;

    // Only once: a role calls again after a reload, in its sandbox, where fstat() may be denied.
    if (!looked) {
        atomic_store(&log_to_journal, log_find_journal());
        looked = true;
    }
    atomic_store(&log_name, name);
    atomic_store(&log_max_level, max_level);
}

static const char *log_level_word(enum log_level level)
{
    switch (level) {
    case LOG_LEVEL_ERROR:
        return "error: ";
    case LOG_LEVEL_WARNING:
        return "warning: ";
    case LOG_LEVEL_DEBUG:
        return "debug: ";
    case LOG_LEVEL_NOTICE:
    case LOG_LEVEL_INFO:
        break;
    }
    return "";
}

// Copies text with all but printable ASCII as \xNN; "..." shows that it did not fit. Returns the
// new end.
static size_t log_append_escaped(char *line, size_t n, size_t end, const char *text)
{
    static const char digits[] = "0123456789abcdef";
    static const char more[] = "...";

    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = c >= 0x20 && c < 0x7f && c != '\\';
        if ((plain ? 1u : 4u) > end - n - (sizeof(more) - 1)) {
            memcpy(line + n, more, sizeof(more) - 1);
            return n + sizeof(more) - 1;
        }
        if (plain) {
            line[n++] = (char)c;
        } else {
            line[n++] = '\\';
            line[n++] = 'x';
            line[n++] = digits[c >> 4];
            line[n++] = digits[c & 15];
        }
    }
    return n;
}

static void log_put(const char *line, size_t n)
{
    while (write(STDERR_FILENO, line, n) < 0 && errno == EINTR)
        ;
}

void log_write(enum log_level level, const char *format, ...)
{
    char text[LOG_LINE_MAX], line[LOG_LINE_MAX];
    int saved_errno = errno;
    va_list args;
    int n;

    if ((uint32_t)level > atomic_load(&log_max_level))
        return;
    va_start(args, format);
    n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n < 0)
        return;
    if (atomic_load(&log_to_journal))
        n = snprintf(line, sizeof(line), "<%d>%.32s: ", (int)level, atomic_load(&log_name));
    else
        n = snprintf(line, sizeof(line), "cryptod %.32s: %s", atomic_load(&log_name),
                     log_level_word(level));
    size_t end = log_append_escaped(line, (size_t)n, sizeof(line) - 1, text);
    line[end++] = '\n';
    log_put(line, end);
    errno = saved_errno;
}
