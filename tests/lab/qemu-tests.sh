#!/bin/bash
# qemu-tests.sh: the tests of the kernel's side and of the daemon on a kernel with an asynchronous crypto engine. Runs
# in the project's folder on the machine that qemu-run.sh emulates, as root. Prints TAP lines; CRYPTOD_BUILD is the
# folder of the built programs (default build/release).
# shellcheck disable=SC2317 # the tests are called by check()
set -eu

driver=virtio_crypto_aes_cbc
project=$PWD
build=$project/${CRYPTOD_BUILD:-build/release}
work=$(mktemp -d)
export CRYPTOD_SOCKET=$work/cryptod.sock
daemon=
session=
failed=0

clean_up() {
    trap '' INT TERM HUP
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    exec 8>&-
    wait
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 143' INT TERM HUP

# check NAME COMMAND...: one test
check() {
    local name=$1
    shift
    if "$@"; then
        echo "ok - engine::$name"
    else
        echo "not ok - engine::$name"
        failed=1
    fi
}

# Whom a bind() to cbc(aes) gets: of all drivers with that name the one of highest priority.
driver_behind_cbc() {
    awk '$1 == "name" { name = $3 } $1 == "driver" { driver = $3 }
        $1 == "priority" && name == "cbc(aes)" && $3 > best { best = $3; found = driver }
        END { print found }' /proc/crypto
}

is_behind_cbc() {
    local found
    found=$(driver_behind_cbc)
    [ "$found" = "$driver" ] || ! echo "# cbc(aes) is ${found:-not there}"
}

# The engine works in the time outside, where the processor may be busy with other things: with a deadline of three
# seconds (not of a quarter) it does what it can do. OpenSSL decrypts with one block held back: a little under 4 KiB.
start_daemon() {
    cat >"$work/cryptod.conf" <<CONF
[daemon]
socket = $CRYPTOD_SOCKET
state_directory = $work/state
front_user = 61990
engine_user = 61991
[lanes]
offload = always
request_min = 2K
deadline_ms = 3000
[engine]
backends = afalg cpu
CONF
    mkdir -p "$work/state"
    launch_daemon
    wait_for_offer
}

launch_daemon() {
    "$build/cryptod" --config "$work/cryptod.conf" >>"$work/cryptod.log" 2>&1 &
    daemon=$!
}

# The kernel's rows of the status, by algorithm. One process a look: processes are slow to start here.
declare -A state=() served_by=() operations=() bytes=()
read_status() {
    local rows algorithm columns
    rows=$("$build/cryptoctl" status --json 2>/dev/null | jq -r '.algorithms[] | select(.backend == "afalg") |
        "\(.algorithm) \(.state) \(.operations) \(.bytes) \(.driver)"' 2>/dev/null) && [ -n "$rows" ] || return 1
    while read -r algorithm columns; do
        read -r "state[$algorithm]" "operations[$algorithm]" "bytes[$algorithm]" "served_by[$algorithm]" <<<"$columns"
    done <<<"$rows"
}

# wait_for_offer [STATE]: the daemon answers, and AES-128-CBC is served, or whatever else it shall be.
wait_for_offer() {
    local tries
    for ((tries = 0; tries < 300; tries++)); do
        if read_status && [ "${state[aes-128-cbc]:-}" = "${1:-offered}" ]; then return 0; fi
        kill -0 "$daemon" 2>/dev/null || break
        sleep 0.1
    done
    sed 's/^/# /' "$work/cryptod.log"
    return 1
}

names_the_engine() {
    local bits
    for bits in 128 192 256; do
        [ "${state[aes-$bits-cbc]} ${served_by[aes-$bits-cbc]}" = "offered $driver" ] || return 1
    done
}

key_of() {
    printf '%0*d' $(($1 / 4)) 42
}

# crypt BITS IN OUT OPENSSL-ENC-OPTION...: through the provider, in pieces of 4 KiB as `openssl enc` does it
crypt() {
    local bits=$1 in=$2 out=$3
    shift 3
    OPENSSL_CONF=$work/openssl.cnf timeout 100 openssl enc "-aes-$bits-cbc" -K "$(key_of "$bits")" -iv "$(key_of 128)" \
        -in "$in" -out "$out" "$@"
}

# reference BITS IN OUT: by OpenSSL's default provider
reference() {
    OPENSSL_CONF=/dev/null openssl enc "-aes-$1-cbc" -K "$(key_of "$1")" -iv "$(key_of 128)" -in "$2" -out "$3"
}

# until_served FUNCTION [ARGUMENT...]: a function that returns 2 is tried again. The provider waits 100 milliseconds for
# the daemon, and rightly does all in software if the answer is late; that is no failure, but no test of the engine.
until_served() {
    local tries status
    for ((tries = 0; tries < 5; tries++)); do
        status=0
        "$@" || status=$?
        [ "$status" -eq 2 ] || return "$status"
    done
    echo "# the engine was never used"
    return 1
}

# transfer BITS -e|-d large|small: all but the first 128 KiB, and what is done while the key is on its way, goes through
# the engine.
transfer() {
    local bits=$1 direction=$2 in=$work/$3 want=$work/$3-$1 before=${bytes[aes-$1-cbc]} grown
    [ "$direction" = -e ] || in=$want want=$work/$3
    crypt "$bits" "$in" "$work/out" "$direction" && cmp "$work/out" "$want" || return 1
    read_status || return 1
    grown=$((bytes[aes-$bits-cbc] - before))
    [ "$grown" -gt $(($(stat -c %s "$in") * 3 / 4)) ] || return 2
    echo "# $grown of $(stat -c %s "$in") bytes by the engine"
}

transfers_at_once() {
    local bits pids=() pid bad=0
    for bits in 128 192 256; do
        crypt "$bits" "$work/small" "$work/cipher-$bits" &
        pids+=($!)
        crypt "$bits" "$work/small-$bits" "$work/back-$bits" -d &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || bad=1; done
    for bits in 128 192 256; do
        cmp "$work/cipher-$bits" "$work/small-$bits" && cmp "$work/back-$bits" "$work/small" || bad=1
    done
    return "$bad"
}

# A session that is in the middle of its data, and has been served by the engine so far.
open_session() {
    read_status || return 1
    local before=${operations[aes-128-cbc]}
    rm -f "$work/slow"
    mkfifo "$work/slow"
    crypt 128 "$work/slow" "$work/out" &
    session=$!
    exec 8>"$work/slow"
    head -c 512K "$work/small" >&8
    read_status && [ "${operations[aes-128-cbc]}" -le "$before" ] || return 0
    exec 8>&-
    wait "$session" || return 1
    return 2
}

end_session() {
    tail -c +$(((512 << 10) + 1)) "$work/small" >&8
    exec 8>&-
    wait "$session" && cmp "$work/out" "$work/small-128"
}

# The engine process dies with requests in the driver. The session goes on, and the next process works with the driver.
survives_a_kill() {
    until_served open_session || return 1
    pkill -KILL -P "$daemon" -x cryptod-engine
    end_session && wait_for_offer
}

# The driver hangs, and with it the engine process, which not even SIGKILL ends then. The session goes on; so does a new
# one; and the daemon ends when it is told to, without the process that cannot.
survives_a_hang() {
    until_served open_session && tests/lab/qemu-hang.pl || return 1
    end_session && crypt 128 "$work/small" "$work/out" && cmp "$work/out" "$work/small-128"
}

# What OpenSSL in the daemon has done of AES-128-CBC.
bytes_by_cpu() {
    "$build/cryptoctl" status --json | jq -r '.algorithms[] | select(.backend == "cpu" and .algorithm == "aes-128-cbc") | .bytes'
}

served_by_cpu() {
    local before
    before=$(bytes_by_cpu)
    crypt 128 "$work/small" "$work/out" && cmp "$work/out" "$work/small-128" || return 1
    [ "$(bytes_by_cpu)" -gt "$before" ] || return 2
}

engine_pid() {
    pgrep -P "$daemon" -x cryptod-engine
}

# A few deadlines later the same engine process does without the driver.
lives_on_without_the_driver() {
    local engine
    engine=$(engine_pid)
    wait_for_offer quarantined && until_served served_by_cpu && [ "$(engine_pid)" = "$engine" ]
}

# The process of the old one is still there, and cannot be ended. The new one knows better than to try the driver.
starts_beside_a_hung_engine() {
    local left
    left=$(pgrep -u 61991 | wc -l)
    [ "$left" -eq 1 ] || echo "# $left engine processes are left"
    launch_daemon
    wait_for_offer quarantined && until_served served_by_cpu
}

stops_with_a_hung_engine() {
    kill "$daemon"
    timeout 60 tail -f /dev/null --pid="$daemon" || return 1
    daemon=
}

check is_behind_cbc is_behind_cbc
if [ -x "$build/test-lab" ]; then
    timeout 400 tools/criterion-tap.sh "$build/test-lab" || failed=1
else
    echo "ok - engine::test-lab # SKIP not built"
fi

head -c 8M /dev/urandom >"$work/large"
head -c 1M "$work/large" >"$work/small"
reference 128 "$work/large" "$work/large-128"
for bits in 128 192 256; do
    reference "$bits" "$work/small" "$work/small-$bits"
done
sed "/^\[cryptod_provider_cryptod\]/a module = $build/cryptod.so\nsocket = $CRYPTOD_SOCKET" \
    systemd/openssl-sshd.cnf >"$work/openssl.cnf"

check daemon_serves start_daemon
check status_names_the_engine names_the_engine
check encrypts_128 until_served transfer 128 -e large
check decrypts_128 until_served transfer 128 -d small
check encrypts_256 until_served transfer 256 -e small
check decrypts_256 until_served transfer 256 -d small
check transfers_at_once transfers_at_once
check survives_a_kill_in_mid_transfer survives_a_kill
check encrypts_after_the_kill until_served transfer 128 -e small
check is_still_behind_cbc is_behind_cbc
# Last, because nothing can use the engine after it.
check survives_a_hang_in_mid_transfer survives_a_hang
check lives_on_without_the_driver lives_on_without_the_driver
check stops_with_a_hung_engine stops_with_a_hung_engine
check starts_beside_a_hung_engine starts_beside_a_hung_engine
check stops_again stops_with_a_hung_engine
[ "$failed" -eq 0 ] || sed 's/^/# /' "$work/cryptod.log"
exit "$failed"
