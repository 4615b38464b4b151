// SPDX-License-Identifier: MIT
// Log lines: one write each, bounded, escaped, filtered by level, with the journal's prefixes only
// for the journal.
#include "log.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int saved_stderr = -1;
static int reader = -1;

// A packet socket keeps writes apart, so that two writes for one line show.
static void setup(void)
{
    int pair[2];

    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    cr_assert_geq(saved_stderr, 0);
    cr_assert_eq(dup2(pair[1], STDERR_FILENO), STDERR_FILENO);
    close(pair[1]);
    reader = pair[0];
    unsetenv("JOURNAL_STREAM");
}

static void teardown(void)
{
    dup2(saved_stderr, STDERR_FILENO);
}

TestSuite(log, .init = setup, .fini = teardown);

// The next line, "" if there is none.
static const char *next_line(void)
{
    static char line[4096];
    ssize_t n = recv(reader, line, sizeof(line) - 1, MSG_DONTWAIT);

    line[n > 0 ? n : 0] = '\0';
    return line;
}

Test(log, names_who_and_how_bad)
{
    log_init("front", LOG_LEVEL_DEBUG);
    log_error("a %d", 1);
    cr_expect_str_eq(next_line(), "cryptod front: error: a 1\n");
    log_warning("b");
    cr_expect_str_eq(next_line(), "cryptod front: warning: b\n");
    log_notice("c");
    cr_expect_str_eq(next_line(), "cryptod front: c\n");
    log_info("d");
    cr_expect_str_eq(next_line(), "cryptod front: d\n");
    log_debug("e");
    cr_expect_str_eq(next_line(), "cryptod front: debug: e\n");
}

Test(log, drops_what_is_above_the_level)
{
    log_init("engine", LOG_LEVEL_WARNING);
    log_notice("not this");
    log_debug("nor this");
    cr_expect_str_empty(next_line());
    log_warning("this");
    cr_expect_str_eq(next_line(), "cryptod engine: warning: this\n");
    log_init("engine", LOG_LEVEL_DEBUG);
    log_debug("now this too");
    cr_expect_str_eq(next_line(), "cryptod engine: debug: now this too\n");
}

Test(log, escapes_what_clients_may_have_made)
{
    log_init("front", LOG_LEVEL_NOTICE);
    log_notice("%s", "a\nb\x1b[2J\\\x7f\xc3\xa4\r<3>");
    cr_expect_str_eq(next_line(), "cryptod front: a\\x0ab\\x1b[2J\\x5c\\x7f\\xc3\\xa4\\x0d<3>\n");
    cr_expect_str_empty(next_line(), "one line is one write");
}

Test(log, bounds_a_line)
{
    char text[2000];

    log_init("front", LOG_LEVEL_NOTICE);
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_notice("%s", text);
    const char *line = next_line();
    cr_expect_leq(strlen(line), 512);
    cr_expect_geq(strlen(line), 500);
    cr_expect_str_eq(line + strlen(line) - 4, "...\n");

    memset(text, '\x01', sizeof(text) - 1);
    log_notice("%s", text);
    line = next_line();
    cr_expect_leq(strlen(line), 512);
    cr_expect_str_eq(line + strlen(line) - 8, "\\x01...\n", "an escape is not cut");

    for (size_t n = 460; n < 520; n++) {
        memset(text, 'y', n);
        text[n] = '\0';
        log_notice("%s", text);
        line = next_line();
        cr_expect_leq(strlen(line), 512);
        cr_expect_eq(line[strlen(line) - 1], '\n');
    }
}

Test(log, tells_the_journal_the_priority)
{
    struct stat st;
    char stream[64];

    cr_assert_eq(fstat(STDERR_FILENO, &st), 0);
    snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    log_init("monitor", LOG_LEVEL_NOTICE);
    log_error("a");
    cr_expect_str_eq(next_line(), "<3>monitor: a\n");
    log_notice("b");
    cr_expect_str_eq(next_line(), "<5>monitor: b\n");
}

Test(log, does_not_mistake_another_stream_for_the_journal)
{
    setenv("JOURNAL_STREAM", "1:1", 1);
    log_init("monitor", LOG_LEVEL_NOTICE);
    log_error("a");
    cr_expect_str_eq(next_line(), "cryptod monitor: error: a\n");
}

Test(log, keeps_errno)
{
    log_init("front", LOG_LEVEL_NOTICE);
    errno = EDOM;
    log_notice("%s", strerror(ENOENT));
    cr_expect_eq(errno, EDOM);
    int closed = dup(STDERR_FILENO);
    close(STDERR_FILENO);
    log_notice("nobody reads this");
    dup2(closed, STDERR_FILENO);
    cr_expect_eq(errno, EDOM, "after a failed write too");
}

#define THREADS 4
#define LINES   20

static void *log_lines(void *name)
{
    for (int i = 0; i < LINES; i++)
        log_notice("%s%s%s%s", (char *)name, (char *)name, (char *)name, (char *)name);
    return NULL;
}

Test(log, keeps_lines_of_threads_apart)
{
    static char names[THREADS][2] = {"a", "b", "c", "d"};
    unsigned seen[THREADS] = {0};
    pthread_t threads[THREADS];

    log_init("engine", LOG_LEVEL_NOTICE);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, log_lines, names[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (const char *line = next_line(); *line != '\0'; line = next_line()) {
        char expected[64];
        unsigned i = (unsigned)(line[strlen("cryptod engine: ")] - 'a');
        cr_assert_lt(i, THREADS, "%s", line);
        snprintf(expected, sizeof(expected), "cryptod engine: %1$s%1$s%1$s%1$s\n", names[i]);
        cr_expect_str_eq(line, expected);
        seen[i]++;
    }
    for (int i = 0; i < THREADS; i++)
        cr_expect_eq(seen[i], LINES);
}
