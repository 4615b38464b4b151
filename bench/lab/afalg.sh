#!/bin/bash
# afalg.sh request|small|bulk-ctr|ecb-ctr: lanes that are fed by the kernel's software through AF_ALG, over ways to the
# same without cryptod. For a kernel that has AF_ALG.
#
# The daemon offers all that works, and a stream is for it from its first byte. In the laboratory nothing wins against a
# CPU with AES instructions, so that by default nothing would be offered, and a stream that compared its lane with OpenSSL
# (which it does by its first bytes) would leave it: both would be right. What is measured is the lane, not the choice.
# shellcheck source=bench/lib/common.sh
. "$(dirname "$0")/../lib/common.sh"
# shellcheck source=bench/lib/daemon.sh
. bench/lib/daemon.sh

lanes=('[lanes]' 'offload = always' 'bulk_threshold = 0')
engine=('[engine]' 'backends = afalg')

# Every driver of ctr(aes) that this kernel has, once it has been asked for one.
drivers_of_ctr() {
    perl -MSocket -e 'socket(my $s, 38, 5, 0) or die "socket: $!\n";
        bind($s, pack("S a14 L L a64", 38, "skcipher", 0, 0, "ctr(aes)")) or die "bind: $!\n"'
    awk '$1 == "name" { name = $3 } $1 == "driver" && name == "ctr(aes)" { print $3 }' /proc/crypto
}

# check_driver MODE: the driver that makes the keystream must be what the figure is about; drivers of software have names
# like ctr(aes-generic).
check_driver() {
    local driver
    driver=$("$build/cryptoctl" status --json | jq -r '.algorithms[] | select(.algorithm == "aes-128-ctr") | .driver')
    echo "$name: keystream by $driver"
    [ "${driver%%(*}" = "$1" ] || die "$name: the keystream should come from $1"
}

name=$1
bench_begin
case $name in
request)
    start_daemon "${lanes[@]}" 'request_min = 1' "${engine[@]}"
    "$build/bench-request"
    exit
    ;;
ecb-ctr)
    mapfile -t denied < <(drivers_of_ctr)
    start_daemon "${lanes[@]}" "${engine[@]}" "deny_drivers = ${denied[*]}"
    check_driver ecb
    ;;
*)
    start_daemon "${lanes[@]}" "${engine[@]}"
    check_driver ctr
    ;;
esac
write_openssl_conf "$work/openssl.cnf" "$build/cryptod.so" "$CRYPTOD_SOCKET"
export OPENSSL_CONF=$work/openssl.cnf
if [ "$name" = small ]; then "$build/bench-small"; else "$build/bench-direct" "$name"; fi
