// SPDX-License-Identifier: MIT
// Runs the same Criterion tests where Criterion's own runner cannot: it puts an arena above 2^45,
// and the processes of 64-bit user-mode Linux end at 2^39; nor does it run under ThreadSanitizer,
// whose own memory it maps over. On 32 bits, which are emulated as a rule, it could run, but starts
// the program anew for each test. There each test runs in a plain fork, one after the other.
// Anywhere else everything is handed on to Criterion. Guarantees: a test that
// crashes, fails, or takes longer than its timeout is a failure; set-up and clean-up run as in
// Criterion. Must not know what is tested.
#include <criterion/criterion.h>
#include <criterion/event.h>
#include <criterion/logging.h>
#include <criterion/parameterized.h>
#include <dlfcn.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARENA_START (UINT64_C(1) << 45)
#define STATUS_SKIP 77
#define TIMEOUT_MAX 300 // seconds, for tests that name none

extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak)),
    *__stop_cr_sts[] __attribute__((weak));

// Of the child that runs a test.
static struct {
    bool on; // this runner runs
    const struct criterion_suite *suite;
    const struct criterion_test *test;
    void *parameter;
    bool failed;
    bool in_body;
    jmp_buf end_of_body;
} plain;

struct tally {
    unsigned n_passed, n_failed, n_skipped;
};

// ---------------------------------------------------------------- what tests call

#pragma GCC visibility push(default) // Criterion itself calls some of these

// Criterion's own function of that name.
static void *next(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);

    if (!function) {
        fprintf(stderr, "plain runner: this Criterion has no %s\n", name);
        abort();
    }
    return function;
}

static void end_body(void)
{
    if (plain.in_body)
        longjmp(plain.end_of_body, 1);
    fflush(NULL);
    _exit(plain.failed ? 1 : STATUS_SKIP);
}

static void run_if(void (*function)(void))
{
    if (function)
        function();
}

void criterion_internal_test_setup(void)
{
    if (!plain.on) {
        ((void (*)(void))next(__func__))();
        return;
    }
    if (plain.suite)
        run_if(plain.suite->data->init);
    run_if(plain.test->data->init);
}

void criterion_internal_test_main(void (*body)(void))
{
    if (!plain.on) {
        ((void (*)(void (*)(void)))next(__func__))(body);
        return;
    }
    plain.in_body = true;
    if (setjmp(plain.end_of_body) == 0) {
        if (plain.parameter)
            ((void (*)(void *))body)(plain.parameter);
        else
            body();
    }
    plain.in_body = false;
}

void criterion_internal_test_teardown(void)
{
    if (!plain.on) {
        ((void (*)(void))next(__func__))();
        return;
    }
    run_if(plain.test->data->fini);
    if (plain.suite)
        run_if(plain.suite->data->fini);
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
    if (!plain.on) {
        ((void (*)(struct criterion_assert_stats *))next(__func__))(stats);
        return;
    }
    if (stats->passed)
        return;
    plain.failed = true;
    printf("[----] %s:%u: Assertion Failed\n[----]   %s\n", stats->file, stats->line,
           stats->message);
}

void criterion_abort_test(void)
{
    if (!plain.on)
        ((void (*)(void))next(__func__))();
    plain.failed = true;
    end_body();
    abort();
}

void criterion_skip_test(const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (!plain.on)
        ((void (*)(const char *, ...))next(__func__))("%s", text);
    printf("[SKIP] %s::%s: %s\n", plain.test->category, plain.test->name, text);
    fflush(NULL);
    _exit(STATUS_SKIP);
}

void cr_log(enum criterion_severity severity, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (!plain.on)
        ((void (*)(enum criterion_severity, const char *, ...))next(__func__))(severity, "%s",
                                                                               text);
    else
        printf("[----] %s\n", text);
}

#pragma GCC visibility pop

// ---------------------------------------------------------------- the runner

static double timeout_of(const struct criterion_suite *suite, const struct criterion_test *test)
{
    if (test->data->timeout > 0)
        return test->data->timeout;
    return suite && suite->data->timeout > 0 ? suite->data->timeout : TIMEOUT_MAX;
}

static void run_child(const struct criterion_suite *suite, const struct criterion_test *test,
                      void *parameter)
{
    plain.suite = suite;
    plain.test = test;
    plain.parameter = parameter;
    setpgid(0, 0);
    alarm((unsigned)timeout_of(suite, test) + 1);
    test->test();
    fflush(NULL);
    _exit(plain.failed);
}

static void run_once(const struct criterion_suite *suite, const struct criterion_test *test,
                     void *parameter, struct tally *tally)
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0)
        run_child(suite, test, parameter);
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        perror("plain runner");
        exit(1);
    }
    kill(-pid, SIGKILL); // what the test has left running
    const int expected_signal = test->data->signal, expected_exit = test->data->exit_code;
    if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_SKIP && expected_exit != STATUS_SKIP) {
        tally->n_skipped++;
    } else if (expected_signal != 0 ? WIFSIGNALED(status) && WTERMSIG(status) == expected_signal
                                    : WIFEXITED(status) && WEXITSTATUS(status) == expected_exit) {
        tally->n_passed++;
        printf("[PASS] %s::%s\n", test->category, test->name);
    } else {
        tally->n_failed++;
        printf("[FAIL] %s::%s (%s %d)\n", test->category, test->name,
               WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
}

static void run_test(const struct criterion_test *test, struct tally *tally)
{
    const struct criterion_suite *suite = NULL;

    for (struct criterion_suite **s = __start_cr_sts; s && s < __stop_cr_sts; s++)
        if (*s && strcmp((*s)->name, test->category) == 0)
            suite = *s;
    if (test->data->disabled || (suite && suite->data->disabled)) {
        tally->n_skipped++;
        return;
    }
    if (test->data->kind_ == CR_TEST_PARAMETERIZED) {
        struct criterion_test_params all = test->data->param_();

        for (size_t i = 0; i < all.length; i++)
            run_once(suite, test, (char *)all.params + i * all.size, tally);
    } else {
        run_once(suite, test, NULL, tally);
    }
}

// Of Criterion's options only --filter means something here.
static const char *find_filter(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc)
            return argv[i + 1];
        if (strncmp(argv[i], "--filter=", 9) == 0)
            return argv[i] + 9;
    }
    return "*";
}

static int run_plain(int argc, char **argv)
{
    const char *filter = find_filter(argc, argv);
    struct tally tally = {0};
    char name[256];

    plain.on = true;
    for (struct criterion_test **t = __start_cr_tst; t < __stop_cr_tst; t++) {
        if (!*t)
            continue;
        snprintf(name, sizeof(name), "%s/%s", (*t)->category, (*t)->name);
        if (fnmatch(filter, name, FNM_EXTMATCH) == 0)
            run_test(*t, &tally);
    }
    printf("[====] Synthesis: Tested: %u | Passing: %u | Failing: %u | Skipped: %u\n",
           tally.n_passed + tally.n_failed, tally.n_passed, tally.n_failed, tally.n_skipped);
    return tally.n_failed > 0;
}

static bool criterion_can_run(void)
{
#if defined(__SANITIZE_THREAD__) || __SIZEOF_POINTER__ < 8
    return false;
#else
    // The stack is near the end of what a process has.
    return (uint64_t)(uintptr_t)__builtin_frame_address(0) >= ARENA_START;
#endif
}

// Visible, because Criterion starts its workers by patching the main that it finds.
__attribute__((visibility("default"))) int main(int argc, char **argv)
{
    struct criterion_test_set *tests;
    int result = 0;

    if (!criterion_can_run())
        return run_plain(argc, argv);
    tests = criterion_initialize();
    if (criterion_handle_args(argc, argv, true))
        result = !criterion_run_all_tests(tests);
    criterion_finalize(tests);
    return result;
}
