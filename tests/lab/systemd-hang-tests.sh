#!/bin/bash
# systemd-hang-tests.sh STAGE: the service when its engine process hangs in a driver for good, where not even SIGKILL
# ends it. Inside the lab with a crypto engine and with systemd as process 1 (qemu-run.sh -S), in the project's folder;
# STAGE: what `make install DESTDIR=STAGE` has made. TAP lines.
# shellcheck disable=SC2317 # check() calls the functions
set -u
stage=$1
suite=systemd_hang
# shellcheck source=tests/lab/systemd-rig.sh
. "$(dirname "${BASH_SOURCE[0]}")/systemd-rig.sh"

driver=virtio_crypto_aes_cbc
engine=  # the process that hangs
session= # ssh, in the middle of its data
fed=0    # what the session has been given, bytes

# The engine works in the time outside, where the processor may be busy with other things.
configuration='[lanes]
offload = always
request_min = 2K
bulk_threshold = 0
deadline_ms = 3000
[engine]
backends = afalg cpu'

# row BACKEND FIELD: of AES-128-CBC
row() {
    cryptoctl status --json | jq -r --arg backend "$1" --arg field "$2" \
        '.algorithms[] | select(.backend == $backend and .algorithm == "aes-128-cbc") | .[$field]'
}

driver_is() {
    [ "$(row afalg state) $(row afalg driver)" = "$1 $driver" ]
}

start_with_the_driver() {
    start
    until_so 60 driver_is offered
}

# Stock sshd offers CBC only if told to.
ssh_start_with_cbc() {
    echo 'Ciphers +aes128-cbc' >/etc/ssh/sshd_config.d/lab.conf
    ssh_start
}

has_come_back() {
    [ "$(stat -c %s "$work/copy")" -eq "$fed" ]
}

# feed TO: gives the session the data as far as that, and waits until it is back
feed() {
    head -c "$1" "$work/data" | tail -c $(($1 - fed)) >&8
    fed=$1
    until_so 100 has_come_back
}

end_session() {
    feed "$(stat -c %s "$work/data")"
    exec 8>&-
    wait "$session" || echo "ssh fails"
    cmp "$work/data" "$work/copy"
}

open_session() {
    local before
    before=$(row afalg bytes) fed=0
    rm -f "$work/slow"
    mkfifo "$work/slow"
    : >"$work/copy"
    ssh_here -c aes128-cbc cat <"$work/slow" >"$work/copy" 8>&- &
    session=$!
    exec 8>"$work/slow"
    feed $((512 << 10))
    [ "$(row afalg bytes)" -gt "$before" ]
}

# The provider rightly does all in software if the daemon's first answer is late; that is no failure, but no test.
open_served_session() {
    local tries
    for ((tries = 0; tries < 5; tries++)); do
        ! open_session || return 0
        end_session
    done
    echo "the driver was never used"
}

# hangs PID: a thread of the process is inside the kernel
hangs() {
    cat "/proc/$1"/task/*/status 2>/dev/null | grep -q '^State:.D'
}

driver_hangs() {
    engine=$(role_pid engine)
    tests/lab/qemu-hang.pl || return 1
    feed $((1 << 20))
    until_so 60 driver_is quarantined
    hangs "$engine" || echo "the engine process does not hang"
    [ "$(property cryptod.service ActiveState)" = active ] || echo "not active"
}

# Once the limit is for the monitor, and once for systemd to give up what SIGKILL does not end. (The clock here counts
# instructions: how busy the machine outside is does not matter.)
stop_although_it_hangs() {
    local begin=${EPOCHREALTIME/[.,]/} limit took state
    systemctl stop cryptod.socket cryptod.service || echo "stop fails"
    took=$(((${EPOCHREALTIME/[.,]/} - begin) / 1000))
    limit=$(property cryptod.service TimeoutStopUSec)
    state="$(property cryptod.service ActiveState) ($(property cryptod.service Result))"
    echo "# stopped after $took ms, TimeoutStopSec is $limit; $state" >&3
    [ "$took" -lt $((2 * ${limit%s} * 1000)) ] || echo "it took $took ms"
    case $state in inactive* | failed*) ;; *) echo "$state" ;; esac
    [ "$(property cryptod.service MainPID)" = 0 ] || echo "the monitor is left"
    ! pgrep -f '^cryptod: ' >/dev/null || pgrep -af '^cryptod: '
    [ ! -e /run/cryptod/cryptod.sock ] || echo "the socket is left"
    hangs "$engine" || echo "the engine process has ended, so this was no test"
}

works_without() {
    ssh_here -c aes128-cbc cat "$work/data" >"$work/other" || echo "a new login fails"
    cmp "$work/data" "$work/other"
    feed $((fed + (512 << 10)))
}

start_beside_it() {
    start
    hangs "$engine" || echo "the engine process has ended, so this was no test"
    driver_is quarantined || echo "the driver is $(row afalg state)"
    cryptoctl status | grep -q "^aes-128-cbc .*$driver.*quarantined" || cryptoctl status | grep '^aes-128-cbc'
    [ "$(row cpu state)" = offered ] || echo "OpenSSL in the daemon is $(row cpu state)"
}

cpu_serves_a_login() {
    local before
    before=$(row cpu bytes)
    works_without
    [ "$(row cpu bytes)" -gt "$before" ]
}

serves_logins() {
    local tries
    for ((tries = 0; tries < 5; tries++)); do
        ! cpu_serves_a_login || return 0
    done
    echo "no login was ever served"
}

restart_beside_it() {
    local before
    before=$(property cryptod.service MainPID)
    systemctl restart cryptod.service || echo "restart fails"
    [ "$(property cryptod.service MainPID)" != "$before" ] || echo "the same process"
    start_beside_it
}

# The monitor dies, and only systemd is left to do anything.
comes_back_beside_it() {
    local before
    before=$(property cryptod.service NRestarts)
    kill -KILL "$(property cryptod.service MainPID)"
    until_so 60 restarted_since "$before"
    until_so 30 serves
    start_beside_it
}

restarted_since() {
    [ "$(property cryptod.service NRestarts)" -gt "$1" ]
}

exec 3>&1 # for what is no complaint
head -c 6M /dev/urandom >"$work/data"
check "installs" install_it <<<"$configuration"
check "starts with the driver" start_with_the_driver
check "ssh finds the provider" ssh_start_with_cbc
check "a session is served by the driver" open_served_session
check "the driver hangs, and the session goes on" driver_hangs
check "stops although a process cannot end" stop_although_it_hangs
check "ssh goes on, and logs in, without the service" works_without
check "starts beside the process that cannot end" start_beside_it
check "serves what goes on and what is new" serves_logins
check "restarts beside it" restart_beside_it
check "is started again by systemd beside it" comes_back_beside_it
check "the session ends well" end_session
check "stops again" stop_although_it_hangs
journalctl -q -o cat -u cryptod | grep -iE 'left-over|still around|left behind|final' | sed 's/^/# /'
exit "$failed"
