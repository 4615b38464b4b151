// SPDX-License-Identifier: MIT
// Holds a model of a policy in C (which rows fit a call's arguments) against what the kernel does
// with the filter.
#include "policy_check.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "call_number.h"
#include "confined.h"

#define N_ARGS           6
#define CALLS_MAX        500
#define SOCKETCALLS_LAST 20 // SYS_SENDMMSG

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

static bool row_is_of_sanitizer(enum sandbox_role role, size_t index)
{
    return index >= row_count(role) - policy_sanitizer.n_rules;
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
            if (row_is_of_sanitizer(role, i))
                continue; // may cover a row that is right only without it
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
        struct probe p = {.role = role, .call = call_number(row->call)};
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
    cr_assert(n >= 25, "only %zu rows tried", n);
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
    struct probe p = {.role = role, .call = call_number(row->call)};

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

static bool call_is_named(enum sandbox_role role, const char *call, bool with_errno)
{
    for (size_t i = 0; i < row_count(role); i++) {
        const struct policy_rule *row = row_get(role, i);

        if (strcmp(row->call, call) == 0 &&
            (row->verdict == POLICY_ALLOW || (with_errno && row->verdict == POLICY_ERRNO)))
            return true;
    }
    return false;
}

bool policy_check_lets(enum sandbox_role role, const char *call)
{
    return call_is_named(role, call, false);
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

struct sweep { // shared with the child
    bool tried[CALLS_MAX];
    int current;
};

// One child for all: in SANDBOX_TRAP a refused call is not carried out and raises SIGSYS, which the
// parent sees as the child's tracer and takes away, so that the child goes on to the next number.
static void sweep_run(enum sandbox_role role, struct sweep *sweep)
{
    alarm(60);
    if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
        _exit(121);
    confined_load(role, SANDBOX_TRAP);
    for (int call = 0; call < CALLS_MAX; call++) {
        if (!sweep->tried[call])
            continue;
        sweep->current = call;
        (void)syscall(call, -1L, -1L, -1L, -1L, -1L, -1L);
    }
    _exit(0);
}

static void sweep_plan(enum sandbox_role role, struct sweep *sweep, size_t *ret_n)
{
    size_t n = 0;

    for (int call = 0; call < CALLS_MAX; call++) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call);

        sweep->tried[call] = !call_is_exempt(call) && (!name || !call_is_named(role, name, true));
        n += sweep->tried[call];
        free(name);
    }
    *ret_n = n;
}

void policy_check_rest_refused(enum sandbox_role role)
{
    struct sweep *sweep =
        mmap(NULL, sizeof(*sweep), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    size_t n_planned, n_refused = 0;
    int status;
    pid_t pid;

    cr_assert(sweep != MAP_FAILED);
    sweep_plan(role, sweep, &n_planned);
    pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0)
        sweep_run(role, sweep);
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        cr_assert(WSTOPSIG(status) == SIGSYS, "stopped by signal %d at call %d", WSTOPSIG(status),
                  sweep->current);
        cr_assert(sweep->tried[sweep->current], "a call before call %d passed", sweep->current);
        sweep->tried[sweep->current] = false;
        n_refused++;
        cr_assert(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    }
    confined_assert_exit(status, 0, "the child that made the calls");
    for (int call = 0; call < CALLS_MAX; call++)
        cr_assert(!sweep->tried[call], "call %d is not refused", call);
    cr_assert(n_refused == n_planned && n_refused > 200, "%zu of %zu", n_refused, n_planned);
    munmap(sweep, sizeof(*sweep));
}

#ifdef SYS_socketcall
static int socketcall_run(const void *argument)
{
    const struct probe *p = argument;
    // Where conditions on registers would take this address for the arguments that a row asks for.
    static const unsigned long nothing[6] = {0};

    (void)signal(SIGSEGV, SIG_DFL); // as in probe_run()
    confined_load(p->role, SANDBOX_KILL);
    (void)syscall(SYS_socketcall, p->args[0], p->args[1] ? p->args[1] : (long)nothing, 0, 0, 0, 0);
    return 0;
}

static void socketcall_check(enum sandbox_role role, int what, long memory)
{
    struct probe p = {.role = role, .args = {what, memory}};
    char name[64];

    (void)snprintf(name, sizeof(name), "socketcall(%d, %#lx)", what, memory);
    confined_assert_killed(confined_run(socketcall_run, &p), name);
}

// The second: type and flags that an engine's socket may have are an address that can be mapped.
void policy_check_multiplexed(enum sandbox_role role)
{
    for (int what = 1; what <= SOCKETCALLS_LAST; what++) {
        socketcall_check(role, what, 0);
        socketcall_check(role, what, SOCK_SEQPACKET | SOCK_CLOEXEC);
    }
}
#else
void policy_check_multiplexed(enum sandbox_role role)
{
    (void)role;
    cr_skip_test("this architecture has no socketcall");
}
#endif

#if defined(__x86_64__) && !defined(__ILP32__)
static int call_32_run(const void *argument)
{
    long r = 20; // getpid for 32 bits

    (void)signal(SIGSEGV, SIG_DFL); // as in probe_run()
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
