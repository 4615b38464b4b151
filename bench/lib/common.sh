# shellcheck shell=bash
# What all figures share: the folder of this run and what it started, clocks and counters of /proc, and the closing line.
# Sourced by a figure's script; sets -eu and goes to the project's folder.
#
# CRYPTOD_BENCH_PAIRS: how many pairs of runs (each figure has its own number).
# CRYPTOD_BENCH_MIB: how much each run transfers (each figure has its own size), for quick looks.
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/common.sh"
# shellcheck source=tools/sshd.sh
. tools/sshd.sh

# shellcheck disable=SC2034 # used by those who source this
build=$project/${CRYPTOD_BUILD:-build/release}
work=
started=() # processes to end, in the order of their start

# shellcheck disable=SC2317 # called by the trap
bench_clean_up() {
    local pid
    trap '' INT TERM HUP
    for pid in "${started[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    [ -z "$work" ] || rm -rf "$work"
}

# bench_begin: makes `work`, a folder that only root can write to (sshd insists), and sees to the end.
bench_begin() {
    need_root "it starts the daemon, which starts as root"
    work=$(mktemp -d /run/cryptod-bench.XXXXXX)
    chmod 755 "$work"
    trap bench_clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

# bench_build TARGET...: with make, once, outside the laboratory.
bench_build() {
    [ -n "${CRYPTOD_BENCH_BUILT:-}" ] || make -s VARIANT="${build##*/}" "${@#"$project/"}" >&2
    export CRYPTOD_BENCH_BUILT=1
}

# cannot NAME REASON: ends with status 77, which says that this figure cannot be had here.
cannot() {
    echo "$1: cannot be measured here: $2" >&2
    exit 77
}

# now_us: microseconds of a clock
now_us() {
    echo "${EPOCHREALTIME/[.,]/}"
}

# cpu_ticks all|user PID...: clock ticks of CPU time that these processes have used, all threads
cpu_ticks() {
    local part=$1 pid line total=0 fields
    shift
    for pid in "$@"; do
        { line=$(<"/proc/$pid/stat"); } 2>/dev/null || continue
        read -r -a fields <<<"${line##*) }"
        total=$((total + fields[11]))
        [ "$part" = user ] || total=$((total + fields[12]))
    done
    echo "$total"
}
# shellcheck disable=SC2034
ticks_per_s=$(getconf CLK_TCK)

# machine_ticks: `idle all` of all CPUs since the start of the machine
machine_ticks() {
    awk '$1 == "cpu" { for (i = 2; i <= 9; i++) all += $i; print $5 + $6, all; exit }' /proc/stat
}

# close_figure NAME FILE: the closing line. FILE has a line for each pair: `RATIO`, or `RATIO CPU-RATIO`.
close_figure() {
    awk -v name="$1" '
        function median(values, n,    i, j, swap) {
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && values[j] < values[j - 1]; j--) {
                    swap = values[j]; values[j] = values[j - 1]; values[j - 1] = swap
                }
            return n % 2 ? values[(n + 1) / 2] : (values[n / 2] + values[n / 2 + 1]) / 2
        }
        { ratio[NR] = $1 + 0 }
        NF > 1 { cpu[++n_cpu] = $2 + 0 }
        END {
            if (NR == 0) exit 1
            middle = median(ratio, NR)
            printf "%s ratio=%.3f n=%d min=%.3f max=%.3f", name, middle, NR, ratio[1], ratio[NR]
            if (n_cpu > 0) printf " cpu=%.2f", median(cpu, n_cpu)
            print ""
        }' "$2"
}
