# shellcheck shell=bash
# A daemon of one's own, for a figure. Sourced after common.sh.
# shellcheck disable=SC2154 # work and build are common.sh's

daemon=
daemon_runner=() # a command that starts it, with its arguments
export CRYPTOD_SOCKET=

# start_daemon LINE...: cryptod with the shipped defaults, but for these lines of cryptod.conf(5), sections included;
# returns when it serves.
start_daemon() {
    CRYPTOD_SOCKET=$work/cryptod.sock
    cat >"$work/cryptod.conf" <<END
[daemon]
socket = $CRYPTOD_SOCKET
state_directory = $work/state
front_user = $(role_user cryptod-front 61990)
engine_user = $(role_user cryptod-engine 61991)
END
    printf '%s\n' "$@" >>"$work/cryptod.conf"
    "${daemon_runner[@]}" "$build/cryptod" --config "$work/cryptod.conf" >>"$work/cryptod.log" 2>&1 &
    daemon=$!
    started+=("$daemon")
    local _
    for _ in {1..200}; do
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

# What is offered, and why, without what changes with use.
daemon_choice() {
    "$build/cryptoctl" status --json | jq -c '[.mode, (.algorithms[] | [.algorithm, .backend, .driver, .state, .lanes, .text])]'
}

# The choice is made by measurement, at or after the start: it has been made when nothing is being measured any more and
# it has not changed for a second.
wait_for_choice() {
    local now before='' same=0 _
    for _ in {1..240}; do
        now=$(daemon_choice)
        if [ "$now" = "$before" ] && [[ $now != *"being measured"* ]]; then same=$((same + 1)); else same=0; fi
        [ "$same" -lt 2 ] || return 0
        before=$now
        sleep 0.5
    done
    die "cryptod has not made its choice: $("$build/cryptoctl" status)"
}

# offered_lanes ALGORITHM: the lanes that are offered for it, or "none", and why
offered_lanes() {
    "$build/cryptoctl" status --json | jq -r --arg a "$1" '[.algorithms[] | select(.algorithm == $a)] as $rows |
        ([$rows[] | select(.state == "offered")] + ($rows | reverse))[0] |
        (if .state == "offered" then (.lanes | join(", ")) + " by " + .driver else "none" end) + " (" + .text + ")"'
}

# daemon_bytes: what the daemon has served so far, all algorithms
daemon_bytes() {
    "$build/cryptoctl" status --json | jq '[.algorithms[].bytes] | add // 0'
}

# start_sessions NAME N: for the figure NAME, sessions that have a channel and do nothing, until the script ends
start_sessions() {
    local n _
    mkfifo "$work/end" "$work/ready"
    exec 7<>"$work/end" 6<>"$work/ready"
    for ((n = 0; n < $2; n++)); do
        "$build/bench-idle" <&7 >&6 &
        started+=("$!")
    done
    for ((n = 0; n < $2; n++)); do
        read -r -t 20 _ <&6 || die "$1: a session did not come about"
    done
}
