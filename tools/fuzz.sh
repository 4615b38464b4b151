#!/bin/bash
# fuzz.sh [--seconds N] [--tap] [--merge] [NAME...]: runs the fuzzers in build/fuzz (`make fuzz-build`), each for N
# seconds (default 60; 0: only the inputs of tests/fuzz/corpus), as many at a time as there are CPUs. What they find
# stays in build/fuzz. --tap: prints TAP lines, and begins with nothing else. --merge: instead, makes tests/fuzz/corpus the smallest set of inputs
# that covers what it and the inputs found so far cover.
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

limit=60 tap='' merge='' names=()
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) limit=$2 && shift ;;
    --tap) tap=1 ;;
    --merge) merge=1 ;;
    *) names+=("$1") ;;
    esac
    shift
done
[ ${#names[@]} -gt 0 ] || for entry in tests/fuzz/fuzz_*.c; do
    names+=("$(basename "${entry%.c}" | sed 's/^fuzz_//')")
done

# A hang: one input that takes 30 seconds, on however slow a machine.
options=(-timeout=30 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=1)
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:quarantine_size_mb=64 UBSAN_OPTIONS=print_stacktrace=1

# fuzz_one NAME: exit status 0 if nothing was found
fuzz_one() {
    local fuzzer=build/fuzz/fuzz_$1 seeds=tests/fuzz/corpus/$1 found=build/fuzz/found/$1
    [ -z "$tap" ] || rm -rf "$found"
    mkdir -p "$found"
    # Each seed must be fine by itself; only then is there something to begin with.
    "$fuzzer" "${options[@]}" -runs=0 -artifact_prefix="build/fuzz/$1-" "$seeds" >"$found.log" 2>&1 || return 1
    [ "$limit" -eq 0 ] || "$fuzzer" "${options[@]}" -max_total_time="$limit" -artifact_prefix="build/fuzz/$1-" \
        "$found" "$seeds" >"$found.log" 2>&1
}

# report NAME STATUS
report() {
    local log=build/fuzz/found/$1.log last
    last=$(grep -aE '^#[0-9]+.*cov: ' "$log" | tail -n 1 | sed 's/^#[0-9]*[[:space:]]*[A-Za-z]*[[:space:]]*//; s/ lim:.*//')
    [ -n "$tap" ] || printf '%-12s %s runs, %s\n' "$1" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$last"
    [ -z "$tap" ] || echo "$([ "$2" -eq 0 ] || echo 'not ')ok - fuzz::$1"
    [ "$2" -eq 0 ] || tail -n 60 "$log" >&2
}

merge_one() {
    local fuzzer=build/fuzz/fuzz_$1 seeds=tests/fuzz/corpus/$1 new
    mkdir -p "$seeds" "build/fuzz/found/$1"
    new=$(mktemp -d)
    "$fuzzer" -merge=1 -use_counters=0 -timeout=30 "$new" "$seeds" "build/fuzz/found/$1" >"build/fuzz/found/$1.log" 2>&1 ||
        { tail -n 20 "build/fuzz/found/$1.log" >&2 && die "fuzz: merging $1 failed"; }
    rm -rf "$seeds" && mkdir -p "$seeds" && cp "$new"/* "$seeds"
    rm -rf "$new"
    echo "$1: $(find "$seeds" -type f | wc -l) inputs, $(du -sb "$seeds" | cut -f 1) bytes"
}

if [ -n "$merge" ]; then
    for name in "${names[@]}"; do merge_one "$name"; done
    exit 0
fi

failed=0 pids=() running=()
# reap: waits for the oldest
reap() {
    local status=0
    wait "${pids[0]}" || status=$?
    report "${running[0]}" "$status"
    [ "$status" -eq 0 ] || failed=1
    pids=("${pids[@]:1}") running=("${running[@]:1}")
}
for name in "${names[@]}"; do
    [ ${#pids[@]} -lt "$(nproc)" ] || reap
    fuzz_one "$name" &
    pids+=($!) running+=("$name")
done
while [ ${#pids[@]} -gt 0 ]; do reap; done
[ "$failed" -eq 0 ] || exit 1
