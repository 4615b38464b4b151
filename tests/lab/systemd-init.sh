#!/bin/sh
# Pid 1 of the lab kernel when systemd shall be: as uml-init.sh it puts an overlay in memory on the machine's root file
# system, and then becomes the machine's own systemd, with this overlay as its root (systemd-root.sh).
#
# JOB and the lines ttyS0 to ttyS2: see uml-init.sh.
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
mkdir -p "$root/usr/lib/modules" "$root/mnt/old"
ln -sfn "$modules" "$root/usr/lib/modules/$release"
mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mount -t devtmpfs dev "$root/dev"
mount -t tmpfs -o mode=755 run "$root/run"
mkdir -p "$root/run/lab"

# A folder that one of these mounts has hidden (a checkout in /dev/shm, say) gets an overlay of its own.
if [ ! -d "$root$folder" ]; then
    mkdir -p /mnt/up-folder /mnt/work-folder "$root$folder"
    mount -t overlay overlay -o "lowerdir=$folder,upperdir=/mnt/up-folder,workdir=/mnt/work-folder" "$root$folder"
fi

# shellcheck source=tests/lab/systemd-root.sh
. "$JOB/systemd-root.sh"
systemd_prepare "$root" "$JOB" ttyS o
cd "$root"
pivot_root . mnt/old
systemd_become
