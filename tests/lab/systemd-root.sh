# shellcheck shell=sh
# Makes systemd process 1 of a lab. Sourced by the labs' own process 1 once the lab's root file system is mounted
# (with proc, sys, dev and run in it); the commands are those that busybox has, too. Of the machine's units only those
# are started that any system needs; lab.service runs the job.

# systemd_prepare ROOT JOB LINE END: the job is the files `command` and `folder` in JOB; LINE0 to LINE2 (in /dev) are its
# standard output and error and take its exit status; END is the letter of sysrq that ends the lab.
systemd_prepare() {
    root=$1 job=$2 line=$3 end=$4
    cp "$job/command" "$job/folder" "$root/run/lab/"

    # Nothing of what this machine does when it starts: no file systems, network, devices, clocks, users' jobs.
    rm -rf "$root"/etc/systemd/system/*.wants "$root"/etc/systemd/system/*.requires "$root/etc/systemd/system-generators"
    rm -f "$root/etc/fstab" "$root/etc/crypttab"
    mkdir -p "$root/etc/systemd/system" "$root/etc/systemd/journald.conf.d" "$root/etc/tmpfiles.d"
    for unit in systemd-udevd.service systemd-udev-trigger.service systemd-udevd-control.socket systemd-udevd-kernel.socket \
        systemd-timesyncd.service systemd-networkd.service systemd-resolved.service systemd-random-seed.service \
        systemd-modules-load.service systemd-sysctl.service systemd-binfmt.service systemd-hwdb-update.service \
        systemd-update-utmp.service systemd-firstboot.service apparmor.service networking.service \
        keyboard-setup.service console-setup.service ldconfig.service dev-hugepages.mount dev-mqueue.mount \
        sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount; do
        ln -sf /dev/null "$root/etc/systemd/system/$unit"
    done
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
ExecStart=/bin/sh /run/lab/run $line $end
StandardInput=null
END
    # The lines stay open because the last close may reset their mode. The stty after the job waits until they have sent
    # everything.
    cat >"$root/run/lab/run" <<'END'
exec 3<>"/dev/${1}0" 4<>"/dev/${1}1" 5<>"/dev/${1}2"
for line in 3 4 5; do stty raw -echo <&$line; done
cd "$(cat /run/lab/folder)"
/bin/bash /run/lab/command </dev/null >&3 2>&4 3>&- 4>&- 5>&- && status=0 || status=$?
stty raw <&3
stty raw <&4
echo "$status" >&5
stty raw <&5
echo "$2" >/proc/sysrq-trigger
sleep 30
END
}

# systemd_become: in the new root
systemd_become() {
    exec chroot . /lib/systemd/systemd --unit=lab.target --log-level=warning --show-status=0 \
        --default-standard-output=journal </dev/console >/dev/console 2>&1
}
