#!/bin/bash
# ssh.sh weak-ctr|weak-ctr-put|weak-chacha|strong: transfers by stock sshd with the provider, over those without.
# shellcheck source=bench/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=bench/lib/daemon.sh
. bench/lib/daemon.sh
# shellcheck source=bench/lib/sshd.sh
. bench/lib/sshd.sh

name=$1 direction=get cipher=aes256-ctr algorithm=aes-256-ctr mib=1024 pairs=5 weak=1
case $name in
weak-ctr) ;;
weak-ctr-put) direction=put ;;
weak-chacha) cipher=chacha20-poly1305@openssh.com algorithm=chacha20 ;;
strong) weak='' mib=512 pairs=15 ;; # the lowest of ten medians: each must be sharp
esac
mib=${CRYPTOD_BENCH_MIB:-$mib}
pairs=${CRYPTOD_BENCH_PAIRS:-$pairs}

# Every cipher of the client that sshd takes, with the name of its algorithm here, if it has one.
algorithm_of() {
    case $1 in
    3des-cbc) echo des-ede3-cbc ;;
    aes*-cbc | aes*-ctr) echo "aes-${1#aes}" ;;
    chacha20-*) echo chacha20 ;;
    esac
}

measure_strong() {
    local lowest='' line algorithm size
    for cipher in $(ssh -Q cipher); do
        size=$mib
        [ "$cipher" != 3des-cbc ] || size=$((mib / 4)) # a tenth of the others' speed
        algorithm=$(algorithm_of "$cipher")
        echo "$cipher: offered: $([ -n "$algorithm" ] && offered_lanes "$algorithm" || echo "never")"
        paired_transfers "$cipher" get "$cipher" "$size" "$pairs" "$work/$cipher"
        line=$(close_figure "$cipher" "$work/$cipher")
        echo "$line"
        lowest=$(printf '%s\n' ${lowest:+"$lowest"} "$line" | sort -t= -k2,2n | head -n 1)
    done
    echo "the lowest of all ciphers: ${lowest%% *}"
    echo "strong ${lowest#* }"
}

bench_begin
trap end_sshd EXIT
bench_build all
# Both sides and the daemon are as they are on a CPU without AES instructions; the client is not.
capabilities=()
if [ -n "$weak" ]; then
    export OPENSSL_ia32cap=0:0
    capabilities=("OPENSSL_ia32cap=0:0")
fi
start_daemon '' # the shipped defaults
wait_for_choice
prepare_sshd
write_openssl_conf "$work/openssl.cnf" "$build/cryptod.so" "$CRYPTOD_SOCKET"
start_sshd provider "OPENSSL_CONF=$work/openssl.cnf" "${capabilities[@]}"
start_sshd stock "${capabilities[@]}"
echo "$name: MB/s of $direction, $mib MiB a run${weak:+, without AES instructions at the server}"
if [ "$name" = strong ]; then
    measure_strong
else
    echo "$name: offered: $(offered_lanes "$algorithm")"
    paired_transfers "$name" "$direction" "$cipher" "$mib" "$pairs" "$work/pairs"
    close_figure "$name" "$work/pairs"
fi
