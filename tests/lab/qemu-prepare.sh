#!/bin/bash
# qemu-prepare.sh
#
# Makes what qemu-run.sh boots: the folder build/lab/qemu with `kernel` and `initrd`, and prints its path. It takes
# half a minute once, then nothing as long as its inputs stay the same. The kernel is Debian's own; its package is
# fetched and unpacked, not installed, so the machine that runs this keeps its boot files as they are.
#
# 77: cannot be done on this machine (the reason is printed).
set -eu

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(cd "$here/../.." && pwd)/build/lab
out=$cache/qemu
needed=(qemu-system-x86 busybox-static cpio kmod xz-utils zstd)

# What the guest may load: all of the kernel's cryptography, the engine, and what its devices and file systems need.
# aesni-intel stays out: with a CPU model that has AES instructions its cbc(aes) would win over the engine's.
wanted=(crypto lib arch/x86/crypto drivers/crypto/virtio drivers/virtio drivers/char/virtio_console.ko
    drivers/char/hw_random fs/9p fs/netfs fs/fscache fs/overlayfs net/9p/9pnet.ko net/9p/9pnet_virtio.ko)
unwanted=aesni-intel.ko

skip() {
    echo "lab: $1" >&2
    exit 77
}

check_packages() {
    local package installed missing=()
    command -v dpkg-query >/dev/null || skip "the qemu lab is made of Debian packages, and this is not Debian"
    [ "$(dpkg --print-architecture)" = amd64 ] ||
        skip "the qemu lab emulates amd64 on amd64 only, this machine is $(dpkg --print-architecture)"
    installed=" $(dpkg-query -W -f '${Package}:${db:Status-Status} ' "${needed[@]}" 2>/dev/null || true) "
    for package in "${needed[@]}"; do
        [[ $installed = *" $package:installed "* ]] || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] || skip "missing Debian packages: ${missing[*]}"
}

# find_package: the newest kernel package that is here already
find_package() {
    find "$cache" -maxdepth 1 -name 'linux-image-*_amd64.deb' 2>/dev/null | sort -V | tail -n 1
}

# download_package FOLDER: the package that linux-image-amd64 stands for today
download_package() {
    local name
    name=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p')
    [ -n "$name" ] || return 1
    (cd "$1" && timeout 300 apt-get -q -o APT::Sandbox::User=root download "${name%%$'\n'*}" >&2)
}

fetch_package() {
    local folder status=0
    folder=$(mktemp -d -p "$cache" download.XXXXXX)
    echo "lab: fetching Debian's kernel package (70 MB, once)" >&2
    download_package "$folder" || {
        [ "$(id -u)" -ne 0 ] || timeout 300 apt-get -q update >&2 || true
        download_package "$folder" || status=$?
    }
    [ "$status" -ne 0 ] || mv "$folder"/linux-image-*_amd64.deb "$cache"
    rm -rf "$folder"
    [ "$status" -eq 0 ] || skip "Debian's kernel package (linux-image-amd64) cannot be fetched"
}

# number FILE OFFSET BYTES: a little-endian number in a file
number() {
    od -An --endian=little -t "u$3" -j "$2" -N "$3" "$1" | tr -d ' '
}

# unpack_kernel BZIMAGE OUT: the ELF kernel within, which qemu can start as it is; unpacking it in the guest would take
# seconds of emulated time. The boot protocol's header tells where it is; its last four bytes are its unpacked size.
# Where that fails the image itself will do.
unpack_kernel() {
    local sectors offset length tool
    sectors=$(number "$1" $((0x1f1)) 1)
    offset=$(((sectors + 1) * 512 + $(number "$1" $((0x248)) 4)))
    length=$(number "$1" $((0x24c)) 4)
    case $(number "$1" "$offset" 4) in
    $((0x587a37fd))) tool=xz ;;
    $((0xfd2fb528))) tool=zstd ;;
    *) tool=false ;;
    esac
    tail -c "+$((offset + 1))" "$1" | head -c "$((length - 4))" | "$tool" -dc >"$2" || cp "$1" "$2"
}

# make_initrd TREE OUT: busybox, the modules and qemu-init.sh as pid 1
make_initrd() {
    local root=$1/initrd release path
    release=$(basename "$1"/lib/modules/*)
    mkdir -p "$root/bin"
    for path in "${wanted[@]}"; do
        path=lib/modules/$release/kernel/$path
        [ -e "$1/$path" ] || continue
        mkdir -p "$root/$(dirname "$path")"
        cp -r "$1/$path" "$root/$path"
    done
    find "$root" -name "$unwanted*" -delete
    find "$root" -name '*.ko.xz' -exec xz -d {} +
    cp "$1/lib/modules/$release"/modules.{builtin*,order} "$root/lib/modules/$release/"
    depmod -b "$root" "$release"
    cp "$(command -v busybox)" "$root/bin/busybox"
    cp "$here/qemu-init.sh" "$root/init"
    chmod 755 "$root/init"
    (cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) >"$2"
}

check_packages
mkdir -p "$cache"
exec 9>"$cache/qemu.lock"
flock -w 600 9 || skip "another process has been preparing the qemu lab for ten minutes"

package=$(find_package)
[ -n "$package" ] || {
    fetch_package
    package=$(find_package)
}
inputs=$({
    basename "$package"
    dpkg-query -W busybox-static
    cat "$here/qemu-prepare.sh" "$here/qemu-init.sh"
} | sha256sum)
if [ "$(cat "$out/inputs" 2>/dev/null)" != "$inputs" ]; then
    echo "lab: preparing Debian's kernel for qemu (once)" >&2
    rm -rf "$out"
    tree=$out/tree
    mkdir -p "$tree"
    dpkg-deb --fsys-tarfile "$package" |
        tar -x -C "$tree" --exclude="*/kernel/drivers/[!cv]*" ./boot ./lib/modules
    unpack_kernel "$(echo "$tree"/boot/vmlinuz-*)" "$out/kernel"
    make_initrd "$tree" "$out/initrd"
    rm -rf "$tree"
    echo "$inputs" >"$out/inputs"
fi
echo "$out"
