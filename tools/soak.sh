#!/bin/bash
# soak.sh [--tap]: the fault campaign. Debian's unmodified sshd with its sandbox on encrypts through cryptod, transfers are
# compared by SHA-256, and a script does to the daemon, and to the sessions, what a bad day does (tools/soak/Faults.pm).
# Prints what failed, and as its last line
#     soak logins=.. faults=.. failed=.. corrupt=.. stalls=.. kills=.. leaks=..
# with status 0 if the last five are 0. --tap prints TAP lines too (for `make check`).
#
# SOAK_SEED (default: a new one), SOAK_LOGINS and SOAK_FAULTS (1000 each), SOAK_PARALLEL (6): how much, and which choices.
# SOAK_FAULT_KINDS: names of Faults.pm, to look for one kind's mistake. SOAK_AFALG= (nothing): without the kernel's crypto,
# where it is there.
# The same seed makes the same choices in the same order; which byte they meet is a matter of time.
# Logs stay in build/soak/SEED. Everything else is in namespaces of its own and vanishes with them.
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=tools/sshd.sh
. tools/sshd.sh
# shellcheck source=tools/place.sh
. tools/place.sh

build=$project/${CRYPTOD_BUILD:-build/release}

# ------------------------------------------------------------------ outside

cgroup=

# The memory cgroup of the campaign, with one for the daemon in it: version 2, else 1. Not there: cgroup stays empty.
make_cgroup() {
    local base
    for base in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/memory; do
        [ -d "$base" ] || continue
        if [ -e "$base/cgroup.controllers" ]; then
            grep -qw memory "$base/cgroup.subtree_control" 2>/dev/null || continue
        else
            [ -e "$base/memory.limit_in_bytes" ] || continue
        fi
        mkdir "$base/cryptod-soak.$$" 2>/dev/null || continue
        cgroup=$base/cryptod-soak.$$
        [ ! -e "$cgroup/cgroup.subtree_control" ] || echo +memory >"$cgroup/cgroup.subtree_control"
        mkdir "$cgroup/rest" "$cgroup/daemon"
        return
    done
    echo "soak: no memory cgroup can be made here; memory is taken away by limits of the address space instead"
}

# shellcheck disable=SC2317 # called by the trap
clean_up() {
    trap '' INT TERM HUP
    local folder _
    [ -z "$inside" ] || kill -KILL "$inside" 2>/dev/null || true
    wait 2>/dev/null || true
    [ -n "$cgroup" ] || return 0
    for folder in "$cgroup/rest" "$cgroup/daemon" "$cgroup"; do
        for _ in {1..50}; do
            [ -d "$folder" ] || break
            rmdir "$folder" 2>/dev/null || sleep 0.1
        done
    done
}

outside() {
    local status=0
    tools/setup.sh --demo
    make -s all
    has_places || exit 77
    [ -n "${SOAK_AFALG+set}" ] || ! has_afalg || export SOAK_AFALG=1
    export SOAK_SEED=${SOAK_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
    export SOAK_LOGS=$project/build/soak/$SOAK_SEED SOAK_CGROUP
    rm -rf "$SOAK_LOGS"
    mkdir -p "$SOAK_LOGS"
    inside=
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    make_cgroup
    SOAK_CGROUP=$cgroup
    enter_place "${BASH_SOURCE[0]}" --inside "$@"
    wait "$inside" || status=$?
    inside=
    return "$status"
}

# ------------------------------------------------------------------ inside

inside() {
    [ -z "$SOAK_CGROUP" ] || echo 0 >"$SOAK_CGROUP/rest/cgroup.procs"
    make_place "$build"
    cp tools/soak/*.pl tools/soak/login.sh "$work/tools" # where every user can read them
    start_place_sshd "$SOAK_LOGS/sshd.log"
    export SOAK_SSHD=$sshd SOAK_WORK=$work SOAK_PORT=$place_port
    SOAK_FRONT_USER=$(role_user cryptod-front 61990)
    SOAK_ENGINE_USER=$(role_user cryptod-engine 61991)
    export SOAK_FRONT_USER SOAK_ENGINE_USER
    exec perl -Itools/soak tools/soak/campaign.pl "$@"
}

case ${1:-} in
--inside)
    shift
    inside "$@"
    ;;
'' | --tap)
    need_root "it makes namespaces and starts cryptod and sshd"
    outside "$@"
    exit # and not what has become of this file meanwhile
    ;;
*) die "soak.sh: unknown option $1" ;;
esac
