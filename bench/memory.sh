#!/bin/bash
# memory.sh: what the daemon's three processes take of the machine's memory (their proportional set size, in MiB), with
# the shipped configuration and ten sessions that have a channel and do nothing. A page that several processes map is
# shared out among them; so what the daemon has for itself alone is printed too.
# shellcheck source=bench/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=bench/lib/daemon.sh
. bench/lib/daemon.sh

sessions=10
samples=${CRYPTOD_BENCH_PAIRS:-5}

# sum_of FIELD... : kB of these fields of all the daemon's processes
sum_of() {
    local pid pattern
    pattern=$(IFS='|' && echo "$*")
    daemon_pids | while read -r pid; do cat "/proc/$pid/smaps_rollup"; done |
        awk -v pattern="^($pattern):\$" '$1 ~ pattern { kb += $2 } END { print kb }'
}

bench_begin
bench_build all "$build/bench-idle"
start_daemon '' # the shipped defaults
wait_for_choice
start_sessions memory "$sessions"
n=$("$build/cryptoctl" status --json | jq .channels)
[ "$n" -eq "$sessions" ] || die "memory: the daemon has $n sessions, not $sessions"
daemon_pids | while read -r pid; do
    awk -v name="$(<"/proc/$pid/comm")" '/^Pss:/ { printf "%s: %.2f MiB\n", name, $2 / 1024 }' "/proc/$pid/smaps_rollup"
done
for ((sample = 1; sample <= samples; sample++)); do
    sleep 0.5
    kb=$(sum_of Pss)
    own=$(sum_of Private_Clean Private_Dirty)
    awk -v n="$sample" -v kb="$kb" -v own="$own" 'BEGIN {
        printf "memory sample %d: %.2f MiB, %.2f of them for the daemon alone\n", n, kb / 1024, own / 1024 }'
    awk -v kb="$kb" 'BEGIN { printf "%.4f\n", kb / 1024 }' >>"$work/samples"
done
close_figure memory "$work/samples"
