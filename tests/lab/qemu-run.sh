#!/bin/bash
# qemu-run.sh [-m MB] [-t SECONDS] [-e NAME=VALUE]... [-c CPU] [-s CPUS] [-V] [-S] -- COMMAND [ARGUMENT...]
#
# Boots Debian's kernel under qemu, emulated, with a crypto engine (virtio-crypto: an asynchronous cbc(aes)), on this
# machine's own root file system, runs COMMAND in the current folder in it, as root, and ends with COMMAND's exit
# status. Standard output and standard error come out live and apart. Nothing that COMMAND does reaches the machine:
# writes go to memory and are forgotten.
#
#   -m MB          memory of the emulated machine (default 1024)
#   -t SECONDS     at most this long (default 120), not counting the preparation that the first run may need
#   -e NAME=VALUE  environment of COMMAND; nothing else of the caller's environment is passed on
#   -c CPU         qemu's CPU model (default qemu64, which has no AES instructions)
#   -s CPUS        how many (default 1). The clock of one CPU counts its instructions, 10^9 a second, and so does not
#                  care how busy the machine outside is; the clock of several is the time outside.
#   -V             no engine
#   -S             as a service of this machine's systemd, which is process 1 there
#
# 77: no lab on this machine (the reason is printed); 124: out of time; 125: the emulated machine failed.
set -eu

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
memory=1024
limit=120
environment=()
cpu=qemu64
cpus=1
systemd=
engine=(-object "cryptodev-backend-builtin,id=cryptodev0" -device "virtio-crypto-pci,cryptodev=cryptodev0")

usage() {
    sed -n '2,/^set -eu/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2
    exit 2
}

while getopts m:t:e:c:s:VS option; do
    case $option in
    m) memory=$OPTARG ;;
    t) limit=$OPTARG ;;
    e) environment+=("$OPTARG") ;;
    c) cpu=$OPTARG ;;
    s) cpus=$OPTARG ;;
    V) engine=() ;;
    S) systemd=$here/systemd-root.sh ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || usage

[ -z "$systemd" ] || [ -x /lib/systemd/systemd ] || {
    echo "lab: systemd is missing (Debian package systemd)" >&2
    exit 77
}
prepared=$("$here/qemu-prepare.sh")

job=$(mktemp -d)
machine=
timer=
# shellcheck disable=SC2317 # called by the trap
clean_up() {
    trap '' INT TERM HUP
    exec 2>/dev/null # bash would report the processes ended here
    [ -z "$machine" ] || kill -KILL "$machine" 2>/dev/null || true
    [ -z "$timer" ] || kill -KILL "$timer" 2>/dev/null || true
    wait || true
    rm -rf "$job"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

mkdir "$job/share"
pwd >"$job/share/folder"
[ -z "$systemd" ] || cp "$systemd" "$job/share/"
{
    echo 'export HOME=/root LANG=C.UTF-8 LAB=qemu'
    for pair in "${environment[@]}"; do
        printf 'export %q\n' "$pair"
    done
    printf 'exec'
    printf ' %q' "$@"
    echo
} >"$job/share/command"
mkfifo "$job/out" "$job/err"

# Through cat: qemu makes its descriptors non-blocking, which a caller's terminal or pipe must not become.
cat "$job/out" &
out=$!
cat "$job/err" >&2 &
err=$!

share() { # TAG FOLDER
    echo "-fsdev local,id=$1,path=$2,security_model=none,multidevs=remap,readonly=on"
    echo "-device virtio-9p-pci,fsdev=$1,mount_tag=$1"
}
line() { # NAME: the next hvc
    echo "-chardev file,id=$1,path=$job/$1 -device virtconsole,chardev=$1"
}
# Words of our own making only: mktemp's path is the one thing that could have a space in it.
case $job in *[[:space:],]*) echo "lab: a space or comma in TMPDIR" >&2 && exit 77 ;; esac
# shellcheck disable=SC2046,SC2207
devices=($(share rootfs /) $(share job "$job/share") -device virtio-serial-pci $(line out) $(line err) $(line status)
    -object "rng-random,id=rng,filename=/dev/urandom" -device "virtio-rng-pci,rng=rng")

emulator=(-accel "tcg,thread=single" -icount "shift=0")
[ "$cpus" -eq 1 ] || emulator=(-accel "tcg,thread=multi")

# Without randomized addresses the translated code of one process serves the next, too.
setpriv --pdeathsig KILL qemu-system-x86_64 -nodefaults -no-user-config -nographic -no-reboot \
    -machine q35 "${emulator[@]}" -cpu "$cpu" -smp "$cpus" -m "$memory" \
    -kernel "$prepared/kernel" -initrd "$prepared/initrd" \
    -append 'console=ttyS0 quiet panic=-1 reboot=t tsc=reliable no_timer_check mitigations=off nokaslr norandmaps' \
    -serial "file:$job/console" "${devices[@]}" "${engine[@]}" </dev/null >"$job/qemu" 2>&1 &
machine=$!
setpriv --pdeathsig KILL sleep "$limit" &
timer=$!
status=0
wait -n "$machine" "$timer" || status=$?

if [ -s "$job/status" ]; then
    # The lines have been drained, the machine is off or about to be: what is in the pipes is all there is.
    wait "$machine" "$out" "$err" || true
    exit "$(tr -dc 0-9 <"$job/status")"
elif kill -0 "$machine" 2>/dev/null; then
    echo "lab: stopped after $limit seconds" >&2
    exit 124
fi
echo "lab: the emulated machine ended without an answer (status $status); what it and qemu said last:" >&2
tail -q -n 20 "$job/console" "$job/qemu" >&2
exit 125
