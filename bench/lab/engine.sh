#!/bin/bash
# engine.sh engine|engine-many|engine-ssh: through provider and daemon to an asynchronous crypto engine, over direct
# requests to it, and over OpenSSL. For the emulated machine with virtio-crypto.
#
# Lanes have the shipped defaults but for two. `offload = always`: the lane is measured, not whether the daemon chooses it
# on an emulated CPU that is busy with other things. `deadline_ms`: the emulated engine works in the time outside, where
# it may be kept waiting for longer than a real one ever is; that is no failure of the engine.
# shellcheck source=bench/lib/common.sh
. "$(dirname "$0")/../lib/common.sh"
# shellcheck source=bench/lib/daemon.sh
. bench/lib/daemon.sh
# shellcheck source=bench/lib/sshd.sh
. bench/lib/sshd.sh

driver=virtio_crypto_aes_cbc
name=$1

wait_for_engine() {
    local _
    for _ in {1..300}; do
        [[ $(offered_lanes aes-128-cbc) != *" by $driver "* ]] || return 0
        sleep 0.2
    done
    die "the daemon does not offer aes-128-cbc by $driver: $(offered_lanes aes-128-cbc)"
}

measure_ssh() {
    prepare_sshd
    start_sshd provider "OPENSSL_CONF=$work/openssl.cnf"
    start_sshd stock
    paired_transfers engine-ssh get aes128-cbc "${CRYPTOD_BENCH_MIB:-64}" "${CRYPTOD_BENCH_PAIRS:-5}" "$work/pairs"
    close_figure engine-ssh "$work/pairs"
}

bench_begin
trap end_sshd EXIT
grep -qx "driver       : $driver" /proc/crypto || cannot "$name" "this machine has no virtio-crypto engine"
start_daemon '[lanes]' 'offload = always' 'deadline_ms = 3000' '[engine]' 'backends = afalg'
wait_for_engine
write_openssl_conf "$work/openssl.cnf" "$build/cryptod.so" "$CRYPTOD_SOCKET"
case $name in
engine-ssh) measure_ssh ;;
engine) OPENSSL_CONF=$work/openssl.cnf "$build/bench-direct" engine "$driver" ;;
engine-many) OPENSSL_CONF=$work/openssl.cnf "$build/bench-engine-many" "$driver" ;;
esac
