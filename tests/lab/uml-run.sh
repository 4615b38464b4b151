#!/bin/bash
# uml-run.sh [-m MB] [-t SECONDS] [-e NAME=VALUE]... [-S] -- COMMAND [ARGUMENT...]
#
# Boots the lab kernel (Debian's user-mode Linux, which has AF_ALG) on this machine's own root file system, runs
# COMMAND in the current folder in it, as root, and ends with COMMAND's exit status. Standard output and standard error
# come out live and apart. Nothing that COMMAND does reaches the machine: writes go to memory and are forgotten.
#
#   -m MB          memory of the lab (default 768)
#   -t SECONDS     at most this long (default 120)
#   -e NAME=VALUE  environment of COMMAND; nothing else of the caller's environment is passed on
#   -S             as a service of this machine's systemd, which is process 1 there
#
# 77: no lab on this machine (the reason is printed); 124: out of time; 125: the lab kernel failed.
set -eu

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
memory=768
limit=120
environment=()
init=uml-init.sh

usage() {
    sed -n '2,/^set -eu/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2
    exit 2
}

while getopts m:t:e:S option; do
    case $option in
    m) memory=$OPTARG ;;
    t) limit=$OPTARG ;;
    e) environment+=("$OPTARG") ;;
    S) init=systemd-init.sh ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || usage

skip() {
    echo "lab: $1" >&2
    exit 77
}

case $(uname -m) in
x86_64 | i?86) ;;
*) skip "user-mode Linux exists for amd64 and i386 only, this machine is $(uname -m)" ;;
esac
[ "$init" = uml-init.sh ] || [ -x /lib/systemd/systemd ] || skip "systemd is missing (Debian package systemd)"
kernel=$(command -v linux.uml) || skip "linux.uml is missing (Debian package user-mode-linux)"

# The lab's memory is a file. In a container /dev/shm may be too small for it, or noexec.
choose_memory_folder() {
    local folder free flags
    for folder in "${TMPDIR:-}" /dev/shm /tmp /var/tmp; do
        if [ ! -d "$folder" ] || [ ! -w "$folder" ]; then continue; fi
        free=$(df -Pm "$folder" | awk 'NR == 2 { print $4 }')
        flags=$(findmnt -nro OPTIONS --target "$folder" 2>/dev/null || true)
        if [[ ,$flags, = *,noexec,* ]] || [ "$free" -lt "$memory" ]; then continue; fi
        echo "$folder"
        return
    done
    return 1
}
memory_folder=$(choose_memory_folder) || skip "no folder has $memory MB free for the lab's memory (set TMPDIR)"

job=$(mktemp -d)
group=
timer=
# shellcheck disable=SC2317 # called by the trap
clean_up() {
    trap '' INT TERM HUP
    exec 2>/dev/null # bash would report the processes ended here
    # setsid(1) made the lab a process group; its helper processes would outlive its first one.
    [ -z "$group" ] || kill -KILL -- "-$group" || true
    [ -z "$timer" ] || kill -KILL "$timer" || true
    wait || true
    rm -rf "$job"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

pwd >"$job/folder"
{
    echo 'export HOME=/root LANG=C.UTF-8 LAB=uml'
    # A page fault costs 300 us here. sshd's buffers grow step by step, and a malloc that gives every step back to the
    # kernel makes 50000 of them in one upload: 20 s.
    echo 'export GLIBC_TUNABLES=glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=268435456'
    for pair in "${environment[@]}"; do
        printf 'export %q\n' "$pair"
    done
    printf 'exec'
    printf ' %q' "$@"
    echo
} >"$job/command"
cp "$here/$init" "$job/init"
cp "$here/systemd-root.sh" "$job/"
chmod 755 "$job" "$job/init"
mkfifo "$job/out" "$job/err"

# Through cat: user-mode Linux makes its descriptors non-blocking, which a caller's terminal or pipe must not become.
cat "$job/out" &
out=$!
cat "$job/err" >&2 &
err=$!

# A system call in the lab is several switches between processes: on a busy machine it would crawl without a somewhat
# better priority (of its session too, where the scheduler groups by session).
# If this script is killed outright, the SIGTERM makes the lab kernel end itself and its helpers.
# shellcheck disable=SC2016
TMPDIR=$memory_folder setsid sh -c 'echo -5 >/proc/self/autogroup; exec nice -n -5 "$@"' sh \
    setpriv --pdeathsig TERM "$kernel" "mem=${memory}M" root=/dev/root rootfstype=hostfs hostfs=/ ro "init=$job/init" \
    "JOB=$job" "uml_dir=$job/" umid=lab con=null con0=null,fd:1 ssl0=null,fd:3 ssl1=null,fd:4 ssl2=null,fd:5 quiet \
    </dev/null >"$job/console" 2>&1 3>"$job/out" 4>"$job/err" 5>"$job/status" &
group=$!
setpriv --pdeathsig KILL sleep "$limit" &
timer=$!
status=0
wait -n "$group" "$timer" || status=$?

if [ -s "$job/status" ]; then
    # The lines have been drained, the lab is off or about to be: what is in the pipes is all there is.
    wait "$group" "$out" "$err" || true
    exit "$(tr -dc 0-9 <"$job/status")"
elif kill -0 "$group" 2>/dev/null; then
    echo "lab: stopped after $limit seconds" >&2
    exit 124
fi
echo "lab: the kernel ended without an answer (status $status); the end of its console:" >&2
tail -n 20 "$job/console" >&2
exit 125
