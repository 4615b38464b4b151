#!/bin/bash
# criterion-tap.sh PROGRAM [OPTION...]: runs a Criterion program; its TAP report goes to standard output, everything
# else to standard error. (Criterion's own closing line counts neither skipped tests nor leaks in a test's process.)
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
"$@" --tap="$work/tap" 2>&1 | tee "$work/log" >&2 || status=$?
if [ -s "$work/tap" ]; then
    cat "$work/tap"
else # the plain runner (tests/plain_runner.c) knows no TAP
    sed -n -e 's/^\[PASS\] /ok - /p' -e 's/^\[FAIL\] /not ok - /p' \
        -e 's/^\[SKIP\] \([^ ]*\): \(.*\)/ok - \1 # SKIP \2/p' "$work/log"
fi
exit "$status"
