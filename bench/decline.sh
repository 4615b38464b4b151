#!/bin/bash
# decline.sh: `openssl speed` with the provider configured and the daemon at work, over the same without provider, on a
# CPU that no lane can help: nothing is offered, so nothing may be lost. AES-256 as CTR and as CBC; the two together give
# the ratio of a size, the lower one of both sizes is the figure.
# shellcheck source=bench/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=bench/lib/daemon.sh
. bench/lib/daemon.sh

pairs=${CRYPTOD_BENCH_PAIRS:-11}

grep -qw aes /proc/cpuinfo || cannot decline "this CPU has no AES instructions"

# speed CONF CIPHER BYTES: bytes a second
speed() {
    OPENSSL_CONF=$1 openssl speed -elapsed -seconds 1 -bytes "$3" -mr -evp "$2" 2>/dev/null |
        awk -F: '$1 == "+F" { value = $NF } END { if (value == "") exit 1; print value }'
}

check_declined() {
    local cipher listed
    for cipher in aes-256-ctr aes-256-cbc; do
        echo "decline: $cipher: offered: $(offered_lanes "$cipher")"
        [[ $(offered_lanes "$cipher") = none* ]] || die "decline: the daemon has not declined $cipher"
    done
    listed=$(OPENSSL_CONF=$work/openssl.cnf openssl list -cipher-algorithms | grep -c 'AES-256.*@ cryptod' || true)
    [ "$listed" -eq 0 ] || die "decline: the provider lists AES-256"
    OPENSSL_CONF=$work/openssl.cnf openssl list -providers | grep -x '  cryptod' >/dev/null ||
        die "decline: the provider is not loaded"
}

# measure_pair N CIPHER BYTES: with and without, or without and with
measure_pair() {
    local with without
    if [ $(($1 % 2)) -eq 1 ]; then
        with=$(speed "$work/openssl.cnf" "$2" "$3")
        without=$(speed /etc/ssl/openssl.cnf "$2" "$3")
    else
        without=$(speed /etc/ssl/openssl.cnf "$2" "$3")
        with=$(speed "$work/openssl.cnf" "$2" "$3")
    fi
    awk -v a="$with" -v b="$without" -v name="decline pair $1 $2 $3 bytes" -v pairs="$work/$3" 'BEGIN {
        printf "%s: %.1f / %.1f MB/s = %.4f\n", name, a / 1e6, b / 1e6, a / b
        printf "%.4f\n", a / b >>pairs }'
}

bench_begin
bench_build all
start_daemon '' # the shipped defaults
wait_for_choice
write_openssl_conf "$work/openssl.cnf" "$build/cryptod.so" "$CRYPTOD_SOCKET"
check_declined
for ((n = 1; n <= pairs; n++)); do
    for cipher in aes-256-ctr aes-256-cbc; do
        for n_bytes in 16 16384; do measure_pair "$n" "$cipher" "$n_bytes"; done
    done
done
check_declined
for n_bytes in 16 16384; do close_figure "decline-$n_bytes" "$work/$n_bytes"; done | tee "$work/lines"
echo "decline $(sort -t= -k2,2n "$work/lines" | head -n 1 | cut -d' ' -f2-)"
