// SPDX-License-Identifier: MIT
// Loads and prints the policies of policy_*.c. Guarantees: a call that no row names ends the
// process, as does any call of a foreign ABI (32 bits, x32); a misspelt name in a table is an
// error, not a hole or a surprise later.
#include "sandbox.h"

#include <errno.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policy.h"
#include "trap.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>

static bool loaded;

// The leak check at exit attaches to the process with ptrace, which the sandbox is there to
// prevent.
__attribute__((visibility("default"))) int __lsan_is_turned_off(void)
{
    return loaded;
}
#endif

static struct scmp_arg_cmp arg_compare(const struct policy_arg *arg)
{
    switch (arg->test) {
    case POLICY_WITHIN:
        return SCMP_CMP64(arg->index, SCMP_CMP_MASKED_EQ, ~arg->value, 0);
    case POLICY_BARRING:
        return SCMP_CMP64(arg->index, SCMP_CMP_MASKED_EQ, ~arg->but, arg->value);
    case POLICY_OWN_PID:
        return SCMP_CMP64(arg->index, SCMP_CMP_EQ, (uint64_t)getpid());
    case POLICY_EQUAL:
    case POLICY_NO_TEST:
        break;
    }
    return SCMP_CMP64(arg->index, SCMP_CMP_EQ, arg->value);
}

// Numbers below zero stand for calls that exist on other architectures only; libseccomp skips them.
static int rule_add(scmp_filter_ctx filter, const struct policy_rule *rule)
{
    struct scmp_arg_cmp compare[POLICY_ARGS_MAX];
    unsigned n = 0;
    int call = seccomp_syscall_resolve_name(rule->call);

    if (call == __NR_SCMP_ERROR)
        return -EINVAL;
    if (rule->verdict == POLICY_NEVER)
        return 0;
    for (; n < POLICY_ARGS_MAX && rule->args[n].test != POLICY_NO_TEST; n++)
        compare[n] = arg_compare(&rule->args[n]);
    return seccomp_rule_add_array(
        filter,
        rule->verdict == POLICY_ALLOW ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO((uint16_t)rule->error),
        call, n, compare);
}

static int rules_add(scmp_filter_ctx filter, enum sandbox_role role)
{
    const struct policy_table *table;

    for (size_t i = 0; (table = policy_role_table(role, i)); i++) {
        for (size_t k = 0; k < table->n_rules; k++) {
            int r = rule_add(filter, &table->rules[k]);

            if (r < 0)
                return r;
        }
    }
    return 0;
}

// TSYNC: should a thread exist already, against this function's contract, it does not stay outside.
static int filter_set_up(scmp_filter_ctx filter, enum sandbox_role role)
{
    int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

    if (r == 0)
        r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 1);
    if (r == 0)
        r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    return r == 0 ? rules_add(filter, role) : r;
}

// Where socketcall exists, libseccomp adds to each row of a socket's call one that lets it through
// socketcall, with the row's conditions on what are not its arguments: those lie in memory. A
// second filter, of which the stricter word counts, takes that back. (direct_sockets.c makes the
// direct calls.)
static int multiplexer_refuse(uint32_t otherwise)
{
    scmp_filter_ctx filter;
    int r, call = seccomp_syscall_resolve_name("socketcall");

    if (call < 0) // not on this architecture
        return 0;
    filter = seccomp_init(SCMP_ACT_ALLOW);
    if (!filter)
        return -ENOMEM;
    r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (r == 0)
        r = seccomp_rule_add(filter, otherwise, call, 0);
    if (r == 0)
        r = seccomp_load(filter);
    seccomp_release(filter);
    return r;
}

enum sandbox_action sandbox_action_get(void)
{
    const char *value = getenv("CRYPTOD_SANDBOX_TRAP");

    return value && strcmp(value, "1") == 0 ? SANDBOX_TRAP : SANDBOX_KILL;
}

int sandbox_load(enum sandbox_role role, enum sandbox_action action)
{
    uint32_t otherwise = action == SANDBOX_TRAP ? SCMP_ACT_TRAP : SCMP_ACT_KILL_PROCESS;
    scmp_filter_ctx filter;
    int r = action == SANDBOX_TRAP ? trap_install() : 0;

    if (r < 0)
        return r;
    filter = seccomp_init(otherwise);
    if (!filter)
        return -ENOMEM;
    r = filter_set_up(filter, role);
    if (r == 0)
        r = multiplexer_refuse(otherwise); // first: the other one lets no filter follow
    if (r == 0)
        r = seccomp_load(filter);
    seccomp_release(filter);
#if defined(__SANITIZE_ADDRESS__)
    loaded = r == 0;
#endif
    return r;
}

static int rule_print(const struct policy_table *table, const struct policy_rule *rule, FILE *out)
{
    int r;

    r = fprintf(out, "%-9s  %-22s  ", table->name, rule->call);
    if (r >= 0) {
        r = rule->verdict == POLICY_ALLOW   ? fputs("allow", out)
            : rule->verdict == POLICY_ERRNO ? fprintf(out, "error %s", strerrorname_np(rule->error))
                                            : fputs("kill", out);
    }
    for (size_t i = 0; r >= 0 && i < POLICY_ARGS_MAX && rule->args[i].test != POLICY_NO_TEST; i++)
        r = fprintf(out, "%s%s", i == 0 ? " if " : ", ", rule->args[i].text);
    if (r >= 0)
        r = fprintf(out, "  # %s\n", rule->reason);
    return r < 0 ? -EIO : 0;
}

int sandbox_print(enum sandbox_role role, FILE *out)
{
    const struct policy_table *table;

    for (size_t i = 0; (table = policy_role_table(role, i)); i++) {
        for (size_t k = 0; k < table->n_rules; k++) {
            int r = rule_print(table, &table->rules[k], out);

            if (r < 0)
                return r;
        }
    }
    if (fputs("any other call: kill; any call of another ABI: kill\n", out) < 0 || fflush(out) != 0)
        return -EIO;
    return 0;
}
