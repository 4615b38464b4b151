#!/bin/sh
# Pid 1 of the lab kernel when systemd shall be: as uml-init.sh it puts an overlay in memory on the machine's root file
# system, and then becomes the machine's own systemd, with this overlay as its root. Of the machine's units only those
# are started that any system needs; lab.service runs the job.
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
cp "$JOB/command" "$JOB/folder" "$root/run/lab/"

# A folder that one of these mounts has hidden (a checkout in /dev/shm, say) gets an overlay of its own.
if [ ! -d "$root$folder" ]; then
    mkdir -p /mnt/up-folder /mnt/work-folder "$root$folder"
    mount -t overlay overlay -o "lowerdir=$folder,upperdir=/mnt/up-folder,workdir=/mnt/work-folder" "$root$folder"
fi

# Nothing of what this machine does when it starts: no file systems, network, devices, clocks, users' jobs.
rm -rf "$root"/etc/systemd/system/*.wants "$root"/etc/systemd/system/*.requires "$root/etc/systemd/system-generators"
rm -f "$root/etc/fstab" "$root/etc/crypttab"
mkdir -p "$root/etc/systemd/system" "$root/etc/systemd/journald.conf.d"
for unit in systemd-udevd.service systemd-udev-trigger.service systemd-udevd-control.socket systemd-udevd-kernel.socket \
    systemd-timesyncd.service systemd-networkd.service systemd-resolved.service systemd-random-seed.service \
    systemd-modules-load.service systemd-sysctl.service systemd-binfmt.service systemd-hwdb-update.service \
    systemd-update-utmp.service systemd-firstboot.service apparmor.service networking.service \
    keyboard-setup.service console-setup.service ldconfig.service dev-hugepages.mount dev-mqueue.mount \
    sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
mkdir -p "$root/etc/tmpfiles.d"
ln -sf /dev/null "$root/etc/tmpfiles.d/tmp.conf" # the checkout may be in /tmp
printf '[Journal]\nStorage=volatile\n' >"$root/etc/systemd/journald.conf.d/lab.conf"
[ -s "$root/etc/machine-id" ] || echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"

cat >"$root/etc/systemd/system/lab.target" <<END
[Unit]
Requires=basic.target lab.service
After=basic.target
AllowIsolate=yes
END
cat >"$root/etc/systemd/system/lab.service" <<END
[Unit]
After=basic.target
[Service]
Type=exec
ExecStart=/bin/sh /run/lab/run
StandardInput=null
END
cat >"$root/run/lab/run" <<'END'
for line in 0 1 2; do stty -F /dev/ttyS$line raw -echo; done
cd "$(cat /run/lab/folder)"
/bin/bash /run/lab/command </dev/null >/dev/ttyS0 2>/dev/ttyS1 && status=0 || status=$?
for line in 0 1; do stty -F /dev/ttyS$line raw; done
echo "$status" >/dev/ttyS2
stty -F /dev/ttyS2 raw
echo o >/proc/sysrq-trigger
END

cd "$root"
pivot_root . mnt/old
exec chroot . /lib/systemd/systemd --unit=lab.target --log-level=warning --show-status=0 \
    --default-standard-output=journal </dev/console >/dev/console 2>&1
