#!/bin/bash
# openvpn.sh: Debian's OpenVPN, unmodified, with the provider, between two network namespaces: it goes to the background
# (it forks with the library loaded), gives up root, connects, and carries a file with the right hash while cryptod is
# killed and stopped. TAP lines.
# shellcheck disable=SC2317,SC2016 # functions are called by check(); programs in perl
# shellcheck source=bench/lib/common.sh
. "$(dirname "$0")/../../bench/lib/common.sh"
# shellcheck source=bench/lib/daemon.sh
. bench/lib/daemon.sh

mib=8
sides=(server client)
name=cryptod-$$
declare -A vpn=() # by side: the process in the background

for path in /dev/net/tun /usr/sbin/openvpn; do
    [ -e "$path" ] || { echo "there is no $path" >&2; exit 77; }
done

# shellcheck disable=SC2317 # called by the trap
end_network() {
    local side
    for side in "${sides[@]}"; do
        [ -z "${vpn[$side]:-}" ] || kill "${vpn[$side]}" 2>/dev/null || true
    done
    # shellcheck disable=SC2046 # several numbers
    [ -z "$daemon" ] || kill -s CONT $(daemon_pids) 2>/dev/null || true
    bench_clean_up
    for side in "${sides[@]}"; do ip netns del "$name-$side" 2>/dev/null || true; done
}

check() {
    local text=$1
    shift
    if "$@"; then
        echo "ok - openvpn::$text"
    else
        echo "not ok - openvpn::$text"
        failed=1
    fi
}

# in_ns SIDE COMMAND...
in_ns() {
    ip netns exec "$name-$1" "${@:2}"
}

make_network() {
    local side n=1
    for side in "${sides[@]}"; do ip netns add "$name-$side"; done
    ip link add veth0 netns "$name-server" type veth peer name veth0 netns "$name-client"
    for side in "${sides[@]}"; do
        in_ns "$side" ip address add "192.0.2.$n/24" dev veth0
        in_ns "$side" ip link set veth0 up
        in_ns "$side" ip link set lo up
        n=$((n + 1))
    done
}

# A certificate for each side, each known to the other by its fingerprint.
make_certificates() {
    local side
    for side in "${sides[@]}"; do
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj "/CN=$side" \
            -keyout "$work/$side.key" -out "$work/$side.crt" 2>/dev/null
    done
}

fingerprint() {
    openssl x509 -in "$work/$1.crt" -noout -fingerprint -sha256 | cut -d= -f2
}

# start_vpn SIDE PEER OPTION...
start_vpn() {
    local side=$1 peer=$2 _
    shift 2
    in_ns "$side" env OPENSSL_CONF="$work/openssl.cnf" /usr/sbin/openvpn --daemon "openvpn-$side" --log "$work/$side.log" \
        --writepid "$work/$side.pid" --user nobody --group nogroup --persist-tun --persist-key --dev tun --topology subnet \
        --cert "$work/$side.crt" --key "$work/$side.key" --peer-fingerprint "$(fingerprint "$peer")" \
        --data-ciphers AES-256-CBC --auth SHA256 --keepalive 1 60 --verb 3 "$@"
    for _ in {1..300}; do
        grep -q 'Initialization Sequence Completed' "$work/$side.log" && break
        sleep 0.1
    done
    vpn[$side]=$(<"$work/$side.pid")
    grep -q 'Initialization Sequence Completed' "$work/$side.log" || { tail -n 20 "$work/$side.log" >&2; return 1; }
}

uses_cipher() {
    grep -q "Data Channel: cipher 'AES-256-CBC'" "$work/client.log" || { tail -n 20 "$work/client.log" >&2; return 1; }
}

# operations: what the daemon has done for AES-256-CBC
operations() {
    "$build/cryptoctl" status --json |
        jq '[.algorithms[] | select(.algorithm == "aes-256-cbc") | .operations] | add // 0'
}

# Those in the background have channels, and nobody else has.
has_channels() {
    local pids
    pids=$("$build/cryptoctl" status --json | jq -c '[.sessions[].pid] | unique')
    [ "$pids" = "$(printf '%s\n' "${vpn[@]}" | jq -sc unique)" ] || { echo "channels of $pids" >&2; return 1; }
}

# Through the tunnel, checked by hash. DURING is called in the middle.
file_arrives() {
    local during=${1:-true} receiver status=0
    in_ns server timeout 120 perl -MSocket -e '
        socket(my $l, AF_INET, SOCK_STREAM, 0) or die; setsockopt($l, SOL_SOCKET, SO_REUSEADDR, 1) or die;
        bind($l, sockaddr_in(7000, INADDR_ANY)) or die "bind: $!"; listen($l, 1) or die;
        accept(my $s, $l) or die; while (sysread($s, my $buffer, 65536)) { print $buffer }' >"$work/received" &
    receiver=$!
    started+=("$receiver")
    in_ns client timeout 120 perl -MSocket -e '
        my $s; for (1 .. 100) { socket($s, AF_INET, SOCK_STREAM, 0) or die;
            last if connect($s, sockaddr_in(7000, inet_aton("10.8.0.1"))); select(undef, undef, undef, 0.1); }
        my $n = 0; while (my $k = sysread(STDIN, my $buffer, 65536)) {
            for (my $at = 0; $at < $k;) { $at += syswrite($s, $buffer, $k - $at, $at) // die "write: $!" }
            $n += $k; if ($n == 1048576) { open(my $f, ">", shift) or die } }' "$work/middle" <"$work/file" &
    started+=("$!")
    until [ -e "$work/middle" ] || ! kill -0 "$receiver" 2>/dev/null; do sleep 0.01; done
    "$during"
    wait "$receiver" || status=$?
    rm -f "$work/middle"
    [ "$status" -eq 0 ] && cmp -s "$work/file" "$work/received"
}

engine_killed() {
    kill -KILL "$(pgrep -P "$daemon" -f '^cryptod: engine')"
}

all_stopped() {
    # shellcheck disable=SC2046 # several numbers
    kill -STOP $(daemon_pids)
}

all_continued() {
    # shellcheck disable=SC2046 # several numbers
    kill -CONT $(daemon_pids)
}

was_used_by() {
    local before
    before=$(operations)
    "$@" && [ "$(operations)" -gt "$before" ]
}

failed=0
bench_begin
trap end_network EXIT
make_network
make_certificates
head -c "${mib}M" /dev/urandom >"$work/file"
start_daemon '[lanes]' 'offload = always' 'bulk_threshold = 0' 'request_min = 1' '[engine]' 'backends = cpu'
write_openssl_conf "$work/openssl.cnf" "$build/cryptod.so" "$CRYPTOD_SOCKET"
chmod 755 "$work"

check "the server starts in the background" start_vpn server client --server 10.8.0.0 255.255.255.0 --tls-server --dh none
check "the client connects in the background" start_vpn client server --client --remote 192.0.2.1
check "by a cipher that the provider has" uses_cipher
check "both have their channel after the fork" has_channels
check "a file arrives whole, by the daemon" was_used_by file_arrives
check "a file arrives whole while the engine is killed" file_arrives engine_killed
check "a file arrives whole while cryptod is stopped" file_arrives all_stopped
check "and after it goes on" file_arrives all_continued
exit "$failed"
