#!/bin/bash
# systemd-tests.sh STAGE: the service as a machine runs it. Inside the lab with systemd as process 1 (uml-run.sh -S):
# copies what `make install DESTDIR=STAGE` has made over the root, and goes through the life of the units. TAP lines.
# shellcheck disable=SC2317 # check() calls the functions
set -u
stage=$1
suite=systemd
# shellcheck source=tests/lab/systemd-rig.sh
. "$(dirname "${BASH_SOURCE[0]}")/systemd-rig.sh"

configuration='[lanes]
offload = always
request_min = 1
bulk_threshold = 0
deadline_ms = 5000'

# As systemd/cryptod.service has it: setgid, setuid, setpcap, sys_chroot.
privileges() {
    local monitor role pid
    monitor=$(property cryptod.service MainPID)
    [ "$(line "$monitor" CapEff)" = 00000000000401c0 ] || echo "monitor: CapEff $(line "$monitor" CapEff)"
    [ "$(line "$monitor" NoNewPrivs)" = 1 ] || echo "monitor: new privileges"
    for role in front engine; do
        pid=$(role_pid "$role")
        [ "$(line "$pid" CapEff)$(line "$pid" CapBnd)" = 00000000000000000000000000000000 ] || echo "$role: $(line "$pid" CapEff)"
        [ "$(line "$pid" Seccomp)" = 2 ] || echo "$role: no filter"
        [[ $(readlink "/proc/$pid/root") = /proc/[0-9]*/fdinfo ]] || echo "$role: root is $(readlink "/proc/$pid/root")"
        [ -z "$(ls -A "/proc/$pid/root/" 2>/dev/null)" ] || echo "$role: sees files"
    done
    [ "$(line "$(role_pid engine)" VmLck | tr -dc 0-9)" -gt 0 ] || echo "the engine's memory is not locked"
    cryptoctl status --json | jq -r '.sandbox.engine' | grep -q 'no capabilities, memory locked' ||
        cryptoctl status --json | jq .sandbox
    cryptoctl status --json | jq -r '.afalg_error' | grep -qx 0 || echo "no AF_ALG in the unit's network namespace"
}

restart() {
    local before
    before=$(property cryptod.service MainPID)
    systemctl restart cryptod.service || echo "restart fails"
    [ "$(property cryptod.service MainPID)" != "$before" ] || echo "the same process"
    serves || echo "does not serve"
}

reload() {
    local before
    before=$(property cryptod.service MainPID)
    sed -i '1i [daemon]\nlog_level = info' /etc/cryptod/cryptod.conf
    systemctl reload cryptod.service || echo "reload fails"
    until_so 20 sh -c 'journalctl -q -o cat -u cryptod | grep -q "configuration read again"'
    [ "$(property cryptod.service MainPID)" = "$before" ] || echo "another process"
    [ "$(property cryptod.service ActiveState)" = active ] || echo "not active"
}

# A monitor that stands still is replaced by systemd, and all of it with it.
watchdog() {
    local monitor engine
    mkdir -p /run/systemd/system/cryptod.service.d
    printf '[Service]\nWatchdogSec=4\nRestartSec=100ms\n' >/run/systemd/system/cryptod.service.d/watchdog.conf
    systemctl daemon-reload
    systemctl restart cryptod.service
    monitor=$(property cryptod.service MainPID) engine=$(role_pid engine)
    sleep 6
    [ "$(property cryptod.service MainPID)" = "$monitor" ] || echo "replaced although it was well"
    kill -STOP "$monitor"
    until_so 60 sh -c "[ \"\$(systemctl show --value -p NRestarts cryptod.service)\" = 1 ]"
    until_so 30 serves
    ! kill -0 "$engine" 2>/dev/null || echo "the old engine lives"
    rm -r /run/systemd/system/cryptod.service.d
    systemctl daemon-reload
}

activation() {
    systemctl stop cryptod.service 2>/dev/null # it says that the socket stays
    [ -S /run/cryptod/cryptod.sock ] || echo "the socket went with the service"
    [ "$(property cryptod.service ActiveState)" = inactive ] || echo "not stopped"
    cryptoctl status >/dev/null 2>&1 # a slow start may be longer than its patience
    until_so 60 systemctl is-active cryptod.service
    until_so 20 serves
}

transfer() {
    local before after cipher
    head -c 8M /dev/urandom >"$work/data"
    for cipher in aes256-ctr aes128-ctr; do
        before=$(cryptoctl status --json | jq '[.algorithms[].bytes] | add')
        ssh_here -c "$cipher" cat "$work/data" >"$work/copy" || echo "$cipher: ssh fails"
        cmp "$work/data" "$work/copy" || true
        after=$(cryptoctl status --json | jq '[.algorithms[].bytes] | add')
        [ "$after" -gt "$((before + 4000000))" ] || echo "$cipher: cryptod served $((after - before)) bytes"
    done
}

# shellcheck disable=SC2016 # perl.s variables
try_afalg='socket(my $s, 38, 5, 0) or do { print 0 + $!, "\n"; exit }; print "made\n"'

drop_ins() {
    [ "$(ssh_here perl -e "'$try_afalg'")" = made ] || echo "a session cannot reach AF_ALG before"
    cp -r /usr/share/cryptod/no-af-alg/. /etc/systemd/system/
    systemctl daemon-reload
    systemctl restart ssh.service
    systemctl reload cryptod.service
    [ "$(ssh_here perl -e "'$try_afalg'")" = 97 ] || echo "a session reaches AF_ALG" # EAFNOSUPPORT
    [ "$(ssh_here sed -n "'s/^NoNewPrivs:[[:space:]]*//p'" /proc/self/status)" = 0 ] || echo "sudo is broken in sessions"
    [ "$(ssh_here perl -e "'socket(my \$s, 2, 1, 0) and print 1'")" = 1 ] || echo "other sockets are refused"
    case $(property user@0.service RestrictAddressFamilies) in
    '~AF_ALG') ;;
    *) echo "user@: $(property user@0.service RestrictAddressFamilies)" ;;
    esac
    until_so 20 sh -c 'cryptoctl status --json | jq -r .sandbox.AF_ALG | grep -q "but those of: ssh.service, user@.service"'
    transfer
}

stop() {
    systemctl stop cryptod.service cryptod.socket || echo "stop fails"
    ! pgrep -f '^cryptod: ' >/dev/null || echo "processes are left"
    [ ! -e /run/cryptod/cryptod.sock ] || echo "the socket is left"
    [ "$(property cryptod.service Result)" = success ] || echo "result: $(property cryptod.service Result)"
    ssh_here true || echo "ssh fails without cryptod"
}

no_violations() {
    journalctl -q -o cat -u cryptod | grep -iE 'bad system call|SIGSYS|not in the policy|operation not permitted|permission denied'
    true
}

check "installs" install_it <<<"$configuration"
check "starts and tells" start
check "has no more privileges than it needs" privileges
check "restarts" restart
check "reloads" reload
check "is replaced by the watchdog" watchdog
check "is activated by its socket" activation
check "ssh finds the provider" ssh_start
check "ssh transfers through the daemon" transfer
check "AF_ALG can be kept from sessions" drop_ins
check "stops" stop
check "nothing was refused" no_violations
rm -rf "$work"
exit "$failed"
