#!/bin/busybox sh
# shellcheck shell=dash
# Pid 1 of the emulated machine, in its initramfs; every command here is busybox's, which finds itself through
# /proc. The machine outside is the share "rootfs", read-only; this puts an overlay in memory on top, so that nothing
# inside can write to it, makes the kernel's modules known there, runs the job and ends the emulation.
#
# The share "job" has `command` (a script) and `folder` (where it starts); if it has systemd-root.sh, process 1 becomes
# systemd. hvc0 and hvc1 are the job's standard output and error, hvc2 takes its exit status; the serial console is for
# the kernel, and says why if anything here fails.
set -eu
PATH=/bin
export PATH

root=/merged
options=trans=virtio,version=9p2000.L,msize=262144,access=any,cache=loose,ro

/bin/busybox mkdir -p /proc /sys /dev /low /job /up "$root"
/bin/busybox mount -t proc proc /proc
trap 'echo b >/proc/sysrq-trigger' EXIT
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
# There is no udev to do it. The engine comes before any other AES, so that whoever asks for cbc(aes) gets it.
for module in virtio_pci virtio_crypto virtio_console virtio_rng 9pnet_virtio 9p overlay; do
    modprobe "$module"
done

mount -t 9p -o "$options" rootfs /low
mount -t 9p -o "$options" job /job
mount -t tmpfs -o mode=755,size=90% lab /up
mkdir /up/files /up/work
mount -t overlay -o lowerdir=/low,upperdir=/up/files,workdir=/up/work overlay "$root"
mkdir -p "$root/lib/modules"
mount --bind /lib/modules "$root/lib/modules"

mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mount -t devtmpfs dev "$root/dev"
mount -t tmpfs -o mode=755 run "$root/run"
mkdir -p "$root/dev/pts" "$root/dev/shm" "$root/run/lab"
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
ln -sf pts/ptmx "$root/dev/ptmx"
ln -sfn /proc/self/fd "$root/dev/fd"
ip link set lo up

# A folder that one of these mounts has hidden (a checkout in /dev/shm, say) gets an overlay of its own.
folder=$(cat /job/folder)
if [ ! -d "$root$folder" ]; then
    mkdir -p /up/folder /up/folder-work "$root$folder"
    mount -t overlay -o "lowerdir=/low$folder,upperdir=/up/folder,workdir=/up/folder-work" overlay "$root$folder"
fi

# The kernel's first file system cannot be left by pivot_root.
if [ -e /job/systemd-root.sh ]; then
    # shellcheck source=tests/lab/systemd-root.sh
    . /job/systemd-root.sh
    systemd_prepare "$root" /job hvc b
    cd "$root"
    mount --move . /
    systemd_become
fi
cp /job/command /job/folder "$root/run/lab/"

# exec: the kernel's own threads take their root from pid 1. Only if pid 1 itself changes root do they find modprobe
# when an algorithm is asked for that is a module. The lines stay open because the last close resets their mode. The
# stty after the job waits until they have sent everything. The end is a reset, which qemu takes as the end: an orderly
# power-off would wait for ever if the engine hangs.
# shellcheck disable=SC2016
exec chroot "$root" /bin/sh -c '
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    export PATH
    exec 3<>/dev/hvc0 4<>/dev/hvc1 5<>/dev/hvc2
    for line in 3 4 5; do stty raw -echo <&$line; done
    cd "$(cat /run/lab/folder)"
    setsid /bin/bash /run/lab/command </dev/null >&3 2>&4 3>&- 4>&- 5>&- && status=0 || status=$?
    stty raw <&3
    stty raw <&4
    echo "$status" >&5
    stty raw <&5
    echo b >/proc/sysrq-trigger
    sleep 30'
