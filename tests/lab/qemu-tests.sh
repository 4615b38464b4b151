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
failed=0

clean_up() {
    trap '' INT TERM HUP
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
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

# The engine works in the time outside, where the processor may be busy with other things: with a deadline of ten
# seconds (not of a quarter) it does what it can do. OpenSSL decrypts with one block held back: a little under 4 KiB.
start_daemon() {
    cat >"$work/cryptod.conf" <<CONF
[daemon]
socket = $CRYPTOD_SOCKET
front_user = 61990
engine_user = 61991
[lanes]
offload = always
request_min = 2K
deadline_ms = 10000
[engine]
backends = afalg
CONF
    "$build/cryptod" --config "$work/cryptod.conf" >"$work/cryptod.log" 2>&1 &
    daemon=$!
    wait_for_offer
}

# The daemon answers, and AES-128-CBC is served.
wait_for_offer() {
    local tries
    for ((tries = 0; tries < 300; tries++)); do
        [ "$(status_of aes-128-cbc .state)" != offered ] || return 0
        kill -0 "$daemon" 2>/dev/null || break
        sleep 0.1
    done
    sed 's/^/# /' "$work/cryptod.log"
    return 1
}

# status_of ALGORITHM JQ-EXPRESSION: of the kernel's row of an algorithm
status_of() {
    "$build/cryptoctl" status --json 2>/dev/null |
        jq -r --arg a "$1" "first(.algorithms[] | select(.algorithm == \$a and .backend == \"afalg\")) | $2" 2>/dev/null
}

names_the_engine() {
    "$build/cryptoctl" status --json | jq -e --arg driver "$driver" '
        [.algorithms[] | select(.backend == "afalg" and (.algorithm | test("^aes-(128|192|256)-cbc$")))]
        | length == 3 and all(.driver == $driver)' >/dev/null
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
    local bits=$1 direction=$2 in=$work/$3 want=$work/$3-$1 before grown
    [ "$direction" = -e ] || in=$want want=$work/$3
    before=$(status_of "aes-$bits-cbc" .bytes)
    crypt "$bits" "$in" "$work/out" "$direction" && cmp "$work/out" "$want" || return 1
    grown=$(($(status_of "aes-$bits-cbc" .bytes) - before))
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

# The engine process dies with requests in the driver. The session goes on, and the next process works with the driver.
survives_a_kill() {
    local session before during
    before=$(status_of aes-128-cbc .operations)
    rm -f "$work/slow"
    mkfifo "$work/slow"
    crypt 128 "$work/slow" "$work/out" &
    session=$!
    exec 8>"$work/slow"
    head -c 1M "$work/small" >&8
    during=$(status_of aes-128-cbc .operations)
    pkill -KILL -P "$daemon" -x cryptod-engine
    tail -c +$(((1 << 20) + 1)) "$work/small" >&8
    exec 8>&-
    wait "$session" && cmp "$work/out" "$work/small-128" && wait_for_offer || return 1
    echo "# $((during - before)) operations before the kill, $(status_of aes-128-cbc .operations) after it"
    [ "$during" -gt "$before" ] || return 2
}

check is_behind_cbc is_behind_cbc
if [ -x "$build/test-lab" ]; then
    timeout 400 "$build/test-lab" --tap || failed=1
fi

head -c 8M /dev/urandom >"$work/large"
head -c 2M "$work/large" >"$work/small"
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
check survives_a_kill_in_mid_transfer until_served survives_a_kill
check encrypts_after_the_kill until_served transfer 128 -e small
check is_still_behind_cbc is_behind_cbc
[ "$failed" -eq 0 ] || sed 's/^/# /' "$work/cryptod.log"
exit "$failed"
