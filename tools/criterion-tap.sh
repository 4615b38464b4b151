#!/bin/bash
# criterion-tap.sh PROGRAM [OPTION...]: runs a Criterion program; its TAP report goes to standard output, everything
# else to standard error. (Criterion's own closing line counts neither skipped tests nor leaks in a test's process.)
set -eu
report=$(mktemp)
trap 'rm -f "$report"' EXIT
status=0
"$@" --tap="$report" >&2 || status=$?
cat "$report"
exit "$status"
