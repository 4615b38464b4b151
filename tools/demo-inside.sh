#!/bin/bash
# demo-inside.sh [--size MIB] [--tap] [--disturb]: the part of the demo that runs on a kernel with AF_ALG, as root.
#
# cryptod serves Debian's unmodified sshd; files go up and down through sftp with each cipher and must arrive whole;
# then cryptod must have served every algorithm from a driver of the kernel.
#   --size MIB  size of the file (default 64)
#   --tap       prints TAP lines (for `make check`)
#   --disturb   instead: the daemon is killed, and stopped, in the middle of transfers and before logins
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=tools/sshd.sh
. tools/sshd.sh

size=64
tap=
disturb=
while [ $# -gt 0 ]; do
    case $1 in
    --size) size=$2 && shift ;;
    --tap) tap=1 ;;
    --disturb) disturb=1 ;;
    *) die "demo-inside.sh: unknown option $1" ;;
    esac
    shift
done
need_root "cryptod and sshd start as root"

build=$project/${CRYPTOD_BUILD:-build/release}
work=$(mktemp -d /run/cryptod-demo.XXXXXX) # not in /tmp: sshd wants folders that only root can write to
data=$(mktemp -d)
export CRYPTOD_SOCKET=$work/cryptod.sock
daemon=
sshd=
copy=
failed=0
made_run_sshd=

# shellcheck disable=SC2317 # called by the trap
clean_up() {
    trap '' INT TERM HUP
    exec 9>&- 9<&- || true
    [ -z "$copy" ] || kill "$copy" 2>/dev/null || true
    [ -z "$sshd" ] || kill "$sshd" 2>/dev/null || true
    if [ -n "$daemon" ]; then
        # shellcheck disable=SC2046 # several numbers
        kill -s CONT $(daemon_pids) 2>/dev/null || true
        kill "$daemon" 2>/dev/null || true
    fi
    wait
    [ -z "$made_run_sshd" ] || rmdir /run/sshd || true
    rm -rf "$work" "$data"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# check OK|FAIL TEXT: one line of the result
check() {
    case $1,$tap in
    OK,1) echo "ok - demo::$2" ;;
    OK,) echo "  $2" ;;
    *,1) echo "not ok - demo::$2" ;;
    *) echo "  FAILED: $2" ;;
    esac
    [ "$1" = OK ] || failed=1
}

# ------------------------------------------------------------------ cryptod

start_daemon() {
    cat >"$work/cryptod.conf" <<END
[daemon]
socket = $CRYPTOD_SOCKET
front_user = $(role_user cryptod-front 61990)
engine_user = $(role_user cryptod-engine 61991)
[lanes]
offload = always
[engine]
backends = afalg cpu
END
    "$build/cryptod" --config "$work/cryptod.conf" >>"$work/cryptod.log" 2>&1 &
    daemon=$!
    for _ in {1..100}; do
        "$build/cryptoctl" status >/dev/null 2>&1 && return
        kill -0 "$daemon" 2>/dev/null || break
        sleep 0.1
    done
    die "cryptod did not start: $(tail -n 5 "$work/cryptod.log")"
}

# The monitor and its two roles.
daemon_pids() {
    echo "$daemon"
    pgrep -P "$daemon" || true
}

# operations ALGORITHM: how many the daemon has done
operations() {
    "$build/cryptoctl" status --json |
        jq -r --arg a "$1" '[.algorithms[] | select(.algorithm == $a) | .operations] | add // 0'
}

# ------------------------------------------------------------------ sshd

start_sshd() {
    make_ssh_keys "$work"
    write_sshd_config "$work" sshd_config "$port"
    write_openssl_conf "$work/openssl-sshd.cnf" "$build/cryptod.so" "$CRYPTOD_SOCKET"
    chmod 755 "$work"
    if [ ! -d /run/sshd ]; then
        mkdir -m 755 /run/sshd
        made_run_sshd=1
    fi
    OPENSSL_CONF=$work/openssl-sshd.cnf /usr/sbin/sshd -D -f "$work/sshd_config" -E "$work/sshd.log" &
    sshd=$!
    await_sshd "$sshd" "$port" "$work/sshd.log"
}

# In the lab, whose changes are forgotten, an ordinary user logs in; elsewhere whoever runs the demo.
choose_user() {
    if [ "${LAB:-}" = uml ]; then
        user=demo
        useradd --create-home --shell /bin/sh demo
    else
        user=${SUDO_USER:-root}
    fi
    chmod 711 "$data"
    mkdir "$data/server"
    chown "$user" "$data/server"
}

hash_of() {
    sha256sum <"$1"
}

# transfer CIPHER: one sftp session takes the file up and down. Sets up_ms and down_ms, without the time of the login.
transfer() {
    local times
    rm -f "$data/back" "$data/server/file" "$data/times"
    cat >"$data/batch" <<END
!date +%s%3N >>$data/times
put $data/file $data/server/file
!date +%s%3N >>$data/times
get $data/server/file $data/back
!date +%s%3N >>$data/times
END
    SHELL=/bin/sh timeout 150 sftp "${options[@]}" -P "$port" -c "$1" -b "$data/batch" "$user@127.0.0.1" \
        >/dev/null || return 1
    mapfile -t times <"$data/times"
    up_ms=$((times[1] - times[0] + 1))
    down_ms=$((times[2] - times[1] + 1))
}

# The process that talks to a client before login: the listener's grandchild under the user sshd.
find_sandboxed() {
    local monitor
    for monitor in $(pgrep -P "$sshd"); do
        pgrep -P "$monitor" -u sshd && return
    done
    return 1
}

# A connection that stops after the version exchange leaves sshd's sandboxed process waiting.
check_sandbox() {
    local pid='' mode='' banner
    exec 9<>"/dev/tcp/127.0.0.1/$port"
    read -r -t 20 banner <&9 || true
    printf 'SSH-2.0-stalled\r\n' >&9
    for _ in {1..100}; do
        pid=$(find_sandboxed) && mode=$(sed -n 's/^Seccomp:\t//p' "/proc/$pid/status") && [ "$mode" = 2 ] && break
        sleep 0.1
    done
    exec 9>&-
    if [ "$mode" = 2 ]; then
        check OK "sandboxed sshd process before login: Seccomp: $mode (filter on), ${banner%$'\r'}"
    else
        check FAIL "sandboxed sshd process before login: Seccomp: ${mode:-process not found}"
    fi
}

# ------------------------------------------------------------------ the two shows

# report CIPHER DIRECTION MILLISECONDS FILE ORIGINAL-HASH
report() {
    local text hash
    hash=$(hash_of "$4")
    text=$(printf '%-10s %-4s %3d MiB %4d MB/s  sha256 %.16s..' "$1" "$2" "$size" $((size * 1048576 / 1000 / $3)) "$hash")
    if [ "$hash" = "$5" ]; then check OK "$text equal at both ends"; else check FAIL "$text differs"; fi
}

show_transfers() {
    local cipher original
    head -c "${size}M" /dev/urandom >"$data/file"
    original=$(hash_of "$data/file")
    check_sandbox
    for cipher in aes128-cbc aes256-cbc aes128-ctr aes256-ctr; do
        if transfer "$cipher"; then
            report "$cipher" up "$up_ms" "$data/server/file" "$original"
            report "$cipher" down "$down_ms" "$data/back" "$original"
        else
            check FAIL "$cipher: sftp failed"
        fi
    done
    check_status
}

check_status() {
    local algorithm row driver count
    [ -n "$tap" ] || {
        echo
        "$build/cryptoctl" status
        echo
    }
    "$build/cryptoctl" status --json >"$data/status"
    for algorithm in aes-128-cbc aes-256-cbc aes-128-ctr aes-256-ctr; do
        row=$(jq -r --arg a "$algorithm" '.algorithms[] | select(.algorithm == $a and .backend == "afalg") |
            "\(.operations) \(.driver)"' "$data/status")
        count=${row%% *}
        driver=${row#* }
        if [ "${count:-0}" -gt 0 ] && grep -qxF "driver       : $driver" /proc/crypto; then
            check OK "$algorithm: $count operations by the kernel's driver $driver"
        else
            check FAIL "$algorithm: not served by the kernel (operations: ${count:-0}, driver: ${driver:-none})"
        fi
    done
    [ -n "$tap" ] || echo "  (A session that finds its own CPU faster goes on there: CPUs with AES instructions are.)"
}

# disturb SIGNAL DIRECTION: a file is on its way, 1 MiB has arrived and the sender waits for the gate; the gate opens and
# the daemon gets SIGNAL. (Not later: a session may have found its own CPU to be faster by then.)
disturb() {
    local signal=$1 direction=$2 part=1048576 target before served pids
    local send="head -c $part %q; while [ ! -e %q ]; do sleep 0.1; done; tail -c +$((part + 1)) %q"
    before=$(operations aes-128-cbc)
    mapfile -t pids < <(daemon_pids)
    if [ "$direction" = up ]; then
        target=$data/server/file
        # shellcheck disable=SC2059
        sh -c "$(printf "$send" "$data/file" "$data/gate" "$data/file")" | session "cat >$target" &
    else
        target=$data/back
        cp "$data/file" "$data/server/source"
        # shellcheck disable=SC2059
        session "$(printf "$send" "$data/server/source" "$data/gate" "$data/server/source")" >"$target" &
    fi
    copy=$!
    while kill -0 "$copy" 2>/dev/null && [ "$(stat -c %s "$target" 2>/dev/null || echo 0)" -lt "$part" ]; do
        sleep 0.1
    done
    served=$(($(operations aes-128-cbc) - before))
    : >"$data/gate"
    kill -s "$signal" "${pids[@]}" 2>/dev/null || true # the roles may have followed the monitor already
    if wait "$copy" && [ "$(hash_of "$target")" = "$(hash_of "$data/file")" ] && [ "$served" -gt 0 ]; then
        check OK "daemon gets SIG$signal in the middle of $size MiB $direction: the file is right"
    else
        check FAIL "daemon gets SIG$signal in the middle of $size MiB $direction ($served operations before)"
    fi
    copy=
    rm -f "$target" "$data/server/source" "$data/gate"
}

# session COMMAND: run by a shell at the other end
session() {
    timeout 150 ssh "${options[@]}" -p "$port" -c aes128-cbc "$user@127.0.0.1" "$1"
}

# login WHEN: a session must come about whatever the daemon does
login() {
    if [ "$(session "echo in" </dev/null)" = in ]; then
        check OK "login while the daemon is $1"
    else
        check FAIL "login while the daemon is $1"
    fi
}

show_disturbances() {
    local direction pids
    head -c "${size}M" /dev/urandom >"$data/file"
    for direction in up down; do
        disturb STOP "$direction"
        login stopped
        mapfile -t pids < <(daemon_pids)
        kill -s CONT "${pids[@]}"
        disturb KILL "$direction"
        wait "$daemon" 2>/dev/null || true
        login killed
        start_daemon
    done
}

port=$(free_port)
choose_user
start_daemon
start_sshd
mapfile -t options < <(ssh_options "$work")
if [ -n "$disturb" ]; then show_disturbances; else show_transfers; fi

if [ "$failed" -ne 0 ]; then
    {
        echo
        echo "Something went wrong. The last lines of the logs:"
        tail -n 15 "$work/cryptod.log" "$work/sshd.log"
        echo "What to do: read the lines above; 'cryptoctl status' names the cause if the kernel's crypto is not usable;"
        echo "'make check' runs the tests of each part."
    } >&2
    exit 1
fi
