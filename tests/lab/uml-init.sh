#!/bin/sh
# Pid 1 of the lab kernel. Its root is the machine's root file system, read-only; this puts an overlay in memory on
# top, so that nothing inside can write to the machine, makes modprobe work, runs the job and powers off.
#
# JOB (kernel parameter): the folder on the machine with `command` (a script) and `folder` (where it starts).
# ttyS0 and ttyS1 are the job's standard output and error, ttyS2 takes its exit status; the console is for the kernel.
set -eu
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

release=$(uname -r)
modules=/usr/lib/uml/modules/$release
root=/mnt/root
folder=$(cat "$JOB/folder")

mount -t proc proc /proc
insmod "$modules/kernel/fs/overlayfs/overlay.ko"
mount -t tmpfs -o size=90% lab /mnt
mkdir /mnt/up /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/up,workdir=/mnt/work "$root"
mkdir -p "$root/usr/lib/modules"
ln -sfn "$modules" "$root/usr/lib/modules/$release"

mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mount -t devtmpfs dev "$root/dev"
mount -t tmpfs -o mode=755 run "$root/run"
mkdir -p "$root/dev/pts" "$root/dev/shm" "$root/run/lab"
mount -t devpts -o ptmxmode=666 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"
ln -s fd/1 "$root/dev/stdout"
ln -s fd/2 "$root/dev/stderr"
ip link set lo up

# A folder that one of these mounts has hidden (a checkout in /dev/shm, say) gets an overlay of its own.
if [ ! -d "$root$folder" ]; then
    mkdir -p /mnt/up-folder /mnt/work-folder "$root$folder"
    mount -t overlay overlay -o "lowerdir=$folder,upperdir=/mnt/up-folder,workdir=/mnt/work-folder" "$root$folder"
fi
cp "$JOB/command" "$JOB/folder" "$root/run/lab/"
for line in 0 1 2; do
    stty -F "$root/dev/ttyS$line" raw -echo
done

# exec: the kernel's own threads take their root from pid 1. Only if pid 1 itself changes root do they find modprobe
# when an algorithm is asked for that is a module. The last stty waits until the lines have sent everything.
# shellcheck disable=SC2016
exec chroot "$root" /bin/sh -c '
    cd "$(cat /run/lab/folder)"
    setsid /bin/bash /run/lab/command </dev/null >/dev/ttyS0 2>/dev/ttyS1 && status=0 || status=$?
    for line in 0 1; do stty -F /dev/ttyS$line raw; done
    echo "$status" >/dev/ttyS2
    stty -F /dev/ttyS2 raw
    echo o >/proc/sysrq-trigger
    sleep 30'
