// SPDX-License-Identifier: MIT
// What holds for the policy of any role, checked against the loaded filter row by row.
#ifndef CRYPTOD_TESTS_POLICY_CHECK_H
#define CRYPTOD_TESTS_POLICY_CHECK_H

#include <stdbool.h>

#include "policy.h"

// Every row: a known call, a reason, no second row that is the same, no contradiction to another
// row.
void policy_check_rows(enum sandbox_role role);

// Every row that allows: a call that fits it survives. Every row with an errno: the call fails with
// it.
void policy_check_rows_survive(enum sandbox_role role);

// Every condition: a call that breaks it, and it alone, is killed; in the upper half of the
// argument too.
void policy_check_conditions_bite(enum sandbox_role role);

// Every call number of this architecture that no row names is death.
void policy_check_rest_refused(enum sandbox_role role);

// Calls through the 32-bit and the x32 entry of an x86-64 kernel do not pass; elsewhere there is
// nothing to check.
void policy_check_other_abis(enum sandbox_role role);

// Nothing passes through socketcall, which has its arguments in memory. Skips where there is none.
void policy_check_multiplexed(enum sandbox_role role);

// Whether some row lets the call through, whatever its arguments.
bool policy_check_lets(enum sandbox_role role, const char *call);

#endif
