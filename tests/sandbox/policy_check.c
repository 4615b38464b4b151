// SPDX-License-Identifier: MIT
// Holds a model of a policy in C (which rows fit a call's arguments) against what the kernel does
// with the filter.
#include "policy_check.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confined.h"

#define N_ARGS    6
#define CALLS_MAX 500

struct probe { // one system call to be made in a sandbox
    enum sandbox_role role;
    int call;
    long args[N_ARGS];
    int expected_errno; // 0: any outcome is right
};

static size_t row_count(enum sandbox_role role)
{
    const struct policy_table *table;
    size_t n = 0;

    for (size_t i = 0; (table = policy_role_table(role, i)); i++)
        n += table->n_rules;
    return n;
}

static const struct policy_rule *row_get(enum sandbox_role role, size_t index)
{
    const struct policy_table *table;

    for (size_t i = 0; (table = policy_role_table(role, i)); i++) {
        if (index < table->n_rules)
            return &table->rules[index];
        index -= table->n_rules;
    }
    return NULL;
}

static uint64_t arg_wanted(const struct policy_arg *arg)
{
    return arg->test == POLICY_OWN_PID ? (uint64_t)getpid() : arg->value;
}

static bool arg_fits(const struct policy_arg *arg, uint64_t value)
{
    switch (arg->test) {
    case POLICY_NO_TEST:
        return true;
    case POLICY_WITHIN:
        return (value & ~arg->value) == 0;
    case POLICY_BARRING:
        return (value & ~arg->but) == arg->value;
    case POLICY_EQUAL:
    case POLICY_OWN_PID:
        break;
    }
    return value == arg_wanted(arg);
}

static bool row_fits(const struct policy_rule *row, const char *call, const long args[N_ARGS])
{
    if (row->verdict == POLICY_NEVER || strcmp(row->call, call) != 0)
        return false;
    for (size_t i = 0; i < POLICY_ARGS_MAX; i++)
        if (!arg_fits(&row->args[i], (uint64_t)args[row->args[i].index]))
            return false;
    return true;
}

static bool model_lets(enum sandbox_role role, const char *call, const long args[N_ARGS])
{
    for (size_t i = 0; i < row_count(role); i++)
        if (row_fits(row_get(role, i), call, args))
            return true;
    return false;
}

// Arguments that fit the row; all others are -1, with which no call does anything but fail.
static void args_fill(const struct policy_rule *row, long ret[N_ARGS])
{
    for (size_t i = 0; i < N_ARGS; i++)
        ret[i] = -1;
    for (size_t i = 0; i < POLICY_ARGS_MAX && row->args[i].test != POLICY_NO_TEST; i++)
        ret[row->args[i].index] = (long)arg_wanted(&row->args[i]);
}

static int probe_run(const void *argument)
{
    struct probe p = *(const struct probe *)argument;
    long r;

    for (size_t i = 0; i < N_ARGS; i++) // the policy knows this process's number, not the parent's
        if (p.args[i] == (long)getppid())
            p.args[i] = (long)getpid();
    (void)signal(SIGSEGV,
                 SIG_DFL); // a sanitizer's handler would open files to report what is intended
    confined_load(p.role, SANDBOX_KILL);
    r = syscall(p.call, p.args[0], p.args[1], p.args[2], p.args[3], p.args[4], p.args[5]);
    if (p.expected_errno != 0 && (r != -1 || errno != p.expected_errno))
        _exit(1);
    _exit(0);
}

void policy_check_rows(enum sandbox_role role)
{
    for (size_t i = 0; i < row_count(role); i++) {
        const struct policy_rule *a = row_get(role, i);

        cr_assert(seccomp_syscall_resolve_name(a->call) != __NR_SCMP_ERROR, "%s", a->call);
        cr_assert(a->reason && strlen(a->reason) > 3, "%s has no reason", a->call);
        cr_assert((a->verdict == POLICY_ERRNO) == (a->error > 0), "%s", a->call);
        for (size_t k = 0; k < i; k++) {
            const struct policy_rule *b = row_get(role, k);

            if (strcmp(a->call, b->call) != 0)
                continue;
            cr_assert(a->verdict == POLICY_ALLOW && b->verdict == POLICY_ALLOW,
                      "%s: rows contradict each other", a->call);
            cr_assert(a->args[0].test != POLICY_NO_TEST && b->args[0].test != POLICY_NO_TEST,
                      "%s: one row covers another", a->call);
            cr_assert(memcmp(a->args, b->args, sizeof(a->args)) != 0, "%s: twice", a->call);
        }
    }
}

void policy_check_rows_survive(enum sandbox_role role)
{
    size_t n = 0;

    for (size_t i = 0; i < row_count(role); i++) {
        const struct policy_rule *row = row_get(role, i);
        struct probe p = {.role = role, .call = seccomp_syscall_resolve_name(row->call)};
        int status;

        if (row->verdict == POLICY_NEVER || p.call < 0)
            continue;
        args_fill(row, p.args);
        p.expected_errno = row->verdict == POLICY_ERRNO ? row->error : 0;
        status = confined_run(probe_run, &p);
        cr_assert(!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS, "%s (%s): killed", row->call,
                  row->reason);
        cr_assert(p.expected_errno == 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0),
                  "%s: not the errno that its row says", row->call);
        n++;
    }
    cr_assert(n > 30, "only %zu rows tried", n);
}

static void condition_break(const struct probe *fitting, const struct policy_rule *row,
                            unsigned index, long value)
{
    struct probe p = *fitting;

    p.args[index] = value;
    if (!model_lets(p.role, row->call, p.args))
        confined_assert_killed(confined_run(probe_run, &p), row->call);
}

static void conditions_break(enum sandbox_role role, const struct policy_rule *row)
{
    struct probe p = {.role = role, .call = seccomp_syscall_resolve_name(row->call)};

    if (p.call < 0)
        return;
    args_fill(row, p.args);
    for (size_t i = 0; i < POLICY_ARGS_MAX && row->args[i].test != POLICY_NO_TEST; i++) {
        uint64_t right = arg_wanted(&row->args[i]);
        uint64_t unset =
            ~right &
            (right + 1); // lowest bit that is not set: of PROT_READ | PROT_WRITE it is PROT_EXEC
        uint64_t set = right & (~right + 1); // lowest bit that is set

        condition_break(&p, row, row->args[i].index, (long)(right | unset));
        condition_break(&p, row, row->args[i].index, (long)(right ^ set));
        condition_break(&p, row, row->args[i].index, (long)(right | 0x10000000)); // CLONE_NEWUSER
        condition_break(&p, row, row->args[i].index, -1);
        if (sizeof(long) == 8)
            condition_break(&p, row, row->args[i].index, (long)(right | (uint64_t)1 << 40));
    }
}

void policy_check_conditions_bite(enum sandbox_role role)
{
    for (size_t i = 0; i < row_count(role); i++)
        if (row_get(role, i)->verdict != POLICY_NEVER)
            conditions_break(role, row_get(role, i));
}

bool policy_check_lets(enum sandbox_role role, const char *call)
{
    for (size_t i = 0; i < row_count(role); i++)
        if (row_get(role, i)->verdict != POLICY_NEVER && strcmp(row_get(role, i)->call, call) == 0)
            return true;
    return false;
}

static volatile sig_atomic_t trapped;

static void trap_note(int signal_number)
{
    (void)signal_number;
    trapped = 1;
}

// x86-64's uretprobe and uprobe: the kernel lets them past every filter (6.14, kernel/seccomp.c)
// and ends a process that makes them by itself (SIGILL).
static bool call_is_exempt(int call)
{
#if defined(__x86_64__)
    return call == 335 || call == 336;
#else
    (void)call;
    return false;
#endif
}

// One child for all: a refused call is not carried out, only the signal tells of it. 0, or 100 if a
// number passed (its name is then written to standard error).
static int rest_run(const void *argument)
{
    enum sandbox_role role = *(const enum sandbox_role *)argument;
    struct sigaction note = {.sa_handler = trap_note};
    static bool tried[CALLS_MAX];
    static char names[CALLS_MAX][40];
    int bad = 0;

    for (int call = 0; call < CALLS_MAX; call++) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call);

        tried[call] = !call_is_exempt(call) && (!name || !policy_check_lets(role, name));
        (void)snprintf(names[call], sizeof(names[call]), "%s", name ? name : "(no name)");
        free(name);
    }
    confined_load(role, SANDBOX_TRAP);
    if (sigaction(SIGSYS, &note, NULL) < 0)
        return 101;
    for (int call = 0; call < CALLS_MAX; call++) {
        if (!tried[call])
            continue;
        trapped = 0;
        (void)syscall(call, -1L, -1L, -1L, -1L, -1L, -1L);
        if (!trapped) {
            (void)!write(STDERR_FILENO, names[call], strlen(names[call]));
            bad = 100;
        }
    }
    return bad;
}

void policy_check_rest_refused(enum sandbox_role role)
{
    char heard[1024];
    int status = confined_run_heard(rest_run, &role, heard, sizeof(heard));

    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x: %s", (unsigned)status,
              heard);
}

#if defined(__x86_64__) && !defined(__ILP32__)
static int call_32_run(const void *argument)
{
    long r = 20; // getpid for 32 bits

    confined_load(*(const enum sandbox_role *)argument, SANDBOX_KILL);
    __asm__ volatile("int $0x80" : "+a"(r) : : "memory");
    return 0;
}

static int call_x32_run(const void *argument)
{
    confined_load(*(const enum sandbox_role *)argument, SANDBOX_KILL);
    (void)syscall(0x40000000L + 39); // getpid
    return 0;
}

// SIGSEGV: a kernel without the 32-bit entry.
void policy_check_other_abis(enum sandbox_role role)
{
    int status = confined_run(call_32_run, &role);

    cr_assert(WIFSIGNALED(status));
    cr_assert(WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV, "%d", WTERMSIG(status));
    confined_assert_killed(confined_run(call_x32_run, &role), "x32 call");
}
#else
void policy_check_other_abis(enum sandbox_role role)
{
    (void)role;
    cr_skip_test("this architecture has one system call entry only");
}
#endif
