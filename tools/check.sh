#!/bin/bash
# check.sh: what `make check` runs, as root: installs what is missing, builds with and without sanitizers, runs every
# test here and on the lab's kernels, and leaves nothing running. Its last line is `N passed, N failed, N skipped`.
#
# CHECK_SECONDS: what has not begun by then counts as failed (default 4800).
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_root "it starts the daemon and makes sandboxes"
tools/setup.sh

passed=0 failed=0 skipped=0
group=
results=$(mktemp -d)
# shellcheck disable=SC2317 # called by the trap
clean_up() {
    trap '' INT TERM HUP
    [ -z "$group" ] || kill -TERM "$group" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$results"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
deadline=$(($(now_ms) + 1000 * ${CHECK_SECONDS:-4800}))

# build VARIANT: everything that can be built, with warnings as errors
build() {
    echo "building ($1)"
    make -s -j"$(nproc)" VARIANT="$1" WERROR=-Werror all tests >"$results/log" 2>&1 || {
        grep -v '^  CC  ' "$results/log"
        die "check: the build ($1) failed"
    }
}

count_lines() {
    grep -acE "$1" "$2" || true
}

# Threads of client library and engine under ThreadSanitizer: the suites that have several at once. (It wants the address
# space as it was before addresses were random.)
threads() {
    local fixed=()
    ! setarch -R true 2>/dev/null || fixed=(setarch -R)
    export CRYPTOD_BUILD=build/tsan TSAN_OPTIONS="halt_on_error=0 exitcode=66"
    run "unit (tsan)" 300 tools/criterion-tap.sh "${fixed[@]}" build/tsan/test-unit \
        --filter '@(worker|worker_hang|keys|ring|fair_queue|calibration|keystream*|session|fork|verify)/*'
    run "integration (tsan)" 300 tools/criterion-tap.sh "${fixed[@]}" build/tsan/test-integration \
        --filter '@(@(engine|engine_life|few_keys|cases_wakeups)/*|hang/in_the_*)'
}

# Reports of sanitizers. A leak counts only if our own code is among the callers: Criterion's runner has some.
count_reports() {
    awk '/ERROR: AddressSanitizer|WARNING: ThreadSanitizer|: runtime error: / { n++ }
        /ERROR: LeakSanitizer/ { inside = 1; ours = 0 }
        inside && / in .* [.\/a-z_-]+\/[a-z_]+\.c:[0-9]+/ && !/libsanitizer/ { ours = 1 }
        inside && /^SUMMARY/ { n += ours; inside = 0 }
        END { print n + 0 }' "$1"
}

# run NAME SECONDS COMMAND...: COMMAND prints TAP lines on standard output and the rest on standard error. Shows what
# failed and why something was skipped. A command that ends badly without a failed test is a failure; so is each report
# of a sanitizer, which may come from a process whose test has passed already.
run() {
    local name=$1 limit=$2 left status=0 begin good bad skips reports
    shift 2
    begin=$(now_ms)
    left=$(((deadline - begin) / 1000))
    [ "$limit" -lt "$left" ] || limit=$((left > 1 ? left : 1))
    # timeout(1) leads a process group: what is left of it afterwards is ended.
    timeout -k 10 "$limit" "$@" >"$results/tap" 2>"$results/log" </dev/null &
    group=$!
    wait "$group" || status=$?
    kill -KILL -- "-$group" 2>/dev/null || true
    group=

    good=$(count_lines '^ok ' "$results/tap")
    bad=$(count_lines '^not ok ' "$results/tap")
    skips=$(count_lines '^ok .*# SKIP' "$results/tap")
    reports=$(count_reports "$results/log")
    good=$((good - skips))
    if [ "$status" -eq 77 ] && [ $((good + bad)) -eq 0 ]; then
        skips=1
        echo "ok - $name # SKIP $(tail -n 1 "$results/log")" >"$results/tap"
    else
        # Leaks of Criterion's own runner change its exit status, and nothing else.
        [ "$reports" -gt 0 ] || ! grep -q 'ERROR: LeakSanitizer' "$results/log" || status=0
        [ "$bad" -ge "$reports" ] || bad=$reports
        [ "$bad" -gt 0 ] || { [ "$status" -eq 0 ] && [ "$good" -gt 0 ]; } || bad=1
    fi
    passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + skips))

    printf '%-26s %4d passed, %d failed, %d skipped  (%d s)\n' "$name" "$good" "$bad" "$skips" \
        $((($(now_ms) - begin) / 1000))
    sed -n 's/^ok - \(.*\)# SKIP /    skipped: \1: /p' "$results/tap"
    [ "$bad" -gt 0 ] || return 0
    echo "    ended with status $status$([ "$status" -ne 124 ] || echo " (out of time)"); what it said:"
    { grep -av '^ok \|^#\|^TAP\|^1\.\.' "$results/tap" || true; tail -n 60 "$results/log"; } | sed 's/^/    | /'
}

native() {
    local name
    export CRYPTOD_BUILD=build/$1
    for name in unit integration sandbox; do
        run "$name ($1)" 900 tools/criterion-tap.sh "$CRYPTOD_BUILD/test-$name"
    done
}

# on_afalg NAME SECONDS COMMAND...: here if this kernel has AF_ALG, else in the lab
on_afalg() {
    local name=$1 limit=$2
    shift 2
    if has_afalg; then
        run "$name" "$limit" "$@"
    else
        run "$name (lab)" $((limit + 20)) tests/lab/uml-run.sh -m 1024 -t "$limit" -e CRYPTOD_BUILD="$CRYPTOD_BUILD" -- "$@"
    fi
}

build release
build asan
build tsan
run "structure" 60 tools/check-structure.sh
run "packages" 600 tools/package.sh
run "hardening" 240 tools/check-hardening.sh
# Here a role that makes a call which its policy lacks says which one it is; below, it is killed.
export CRYPTOD_SANDBOX_TRAP=1
native release
unset CRYPTOD_SANDBOX_TRAP

export CRYPTOD_BUILD=build/release
on_afalg "AF_ALG" 600 tools/criterion-tap.sh build/release/test-lab
on_afalg "engine's sandbox" 600 tools/criterion-tap.sh build/release/test-sandbox --filter 'engine_work/*'
on_afalg "sshd, transfers" 900 tools/demo-inside.sh --tap --size 16
on_afalg "sshd, bad days" 900 tools/demo-inside.sh --tap --size 16 --disturb

run "OpenVPN" 400 tests/programs/openvpn.sh
run "sshd, stages" 900 tools/login-stages.sh
run "sshd, soak" 600 env SOAK_SEED=7 SOAK_LOGINS=40 SOAK_FAULTS=40 tools/soak.sh --tap

# A kernel with an asynchronous engine; outside the time for the command it may have to fetch that kernel first.
run "crypto engine (lab)" 700 tests/lab/qemu-run.sh -t 500 -e CRYPTOD_BUILD="$CRYPTOD_BUILD" -- tests/lab/qemu-tests.sh
run "systemd (lab)" 1000 tools/systemd-test.sh

export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
native asan
threads

echo "building (fuzz)"
make -s -j"$(nproc)" fuzz-build >"$results/log" 2>&1 || {
    grep -v '^  CC  ' "$results/log"
    die "check: the build (fuzz) failed"
}
run "fuzzers" 300 tools/fuzz.sh --tap --seconds 5

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
