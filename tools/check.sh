#!/bin/bash
# check.sh: what `make check` runs, as root: installs what is missing, builds with and without sanitizers, runs every
# test here and on the lab's kernels, and leaves nothing running. Its last line is `N passed, N failed, N skipped`.
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_root "it starts the daemon and makes sandboxes"
tools/setup.sh

passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
begin=$(now_ms)

# count PASSED FAILED SKIPPED
count() {
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}

# say NAME TEXT
say() {
    printf '%-28s %s  (%d s)\n' "$1" "$2" $((($(now_ms) - begin) / 1000))
}

# build VARIANT: everything that can be built, with warnings as errors
build() {
    make -s -j"$(nproc)" VARIANT="$1" WERROR=-Werror all tests || die "check: the build ($1) failed"
}

# suite NAME SECONDS COMMAND...: a Criterion program; its own closing line is what counts. A program that ends
# without one is one failure. Shows the output only of what failed or was skipped.
suite() {
    local name=$1 limit=$2 status=0 line tested good bad crashed skips
    shift 2
    timeout -k 10 "$limit" "$@" >"$log" 2>&1 || status=$?
    line=$(grep -a 'Synthesis: Tested:' "$log" | tail -n 1 || true)
    if [ "$status" -eq 77 ] && [ -z "$line" ]; then
        count 0 0 1
        say "$name" "skipped: $(tail -n 1 "$log")"
        return
    fi
    if [ -z "$line" ]; then
        tail -n 40 "$log"
        count 0 1 0
        say "$name" "FAILED: ended with status $status and no result"
        return
    fi
    read -r tested good bad crashed < <(tr -cs '0-9\n' ' ' <<<"${line##*Synthesis}")
    skips=$(grep -ac '^\[SKIP\]' "$log" || true)
    grep -a -A 3 '^\[SKIP\]' "$log" | grep -av -e '^--$' || true
    bad=$((bad + crashed))
    [ "$bad" -gt 0 ] || [ "$status" -eq 0 ] || bad=1
    [ "$bad" -eq 0 ] || grep -av '^\[RUN \]\|^\[PASS\]' "$log" | tail -n 60
    count "$good" "$bad" "$skips"
    say "$name" "$tested tested, $good passed, $bad failed, $skips skipped"
}

# tap NAME SECONDS COMMAND...: a script that prints `ok - ..` and `not ok - ..`
tap() {
    local name=$1 limit=$2 status=0 good bad
    shift 2
    timeout -k 10 "$limit" "$@" >"$log" 2>&1 || status=$?
    if [ "$status" -eq 77 ]; then
        count 0 0 1
        say "$name" "skipped: $(tail -n 1 "$log")"
        return
    fi
    good=$(grep -ac '^ok - ' "$log" || true)
    bad=$(grep -ac '^not ok - ' "$log" || true)
    [ "$bad" -gt 0 ] || { [ "$status" -eq 0 ] && [ "$good" -gt 0 ]; } || bad=1
    [ "$bad" -eq 0 ] || cat "$log"
    count "$good" "$bad" 0
    say "$name" "$good passed, $bad failed"
}

native() {
    local variant=$1 name
    export CRYPTOD_BUILD=build/$variant
    for name in unit integration sandbox; do
        suite "$name ($variant)" 600 "$CRYPTOD_BUILD/test-$name"
    done
}

build release
tap "structure" 60 tools/check-structure.sh
native release

export CRYPTOD_BUILD=build/release
suite "lab, AF_ALG backend" 300 tests/lab/uml-run.sh -t 280 -e CRYPTOD_BUILD=build/release -- build/release/test-lab
tap "lab, sshd transfers" 300 tests/lab/uml-run.sh -m 1024 -t 280 -- tools/demo-inside.sh --tap --size 16
tap "lab, sshd and bad days" 300 tests/lab/uml-run.sh -m 1024 -t 280 -- tools/demo-inside.sh --tap --size 16 --disturb

build asan
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
native asan

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
