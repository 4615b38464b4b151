#!/bin/bash
# check-32.sh: builds for i386 and runs the tests of the library, the provider and the sandbox so: here, if this kernel
# runs 32-bit programs, else in the qemu lab, whose kernel does. TAP lines. 77: not on this machine, with the reason.
#
# The libraries are Debian's, fetched by apt and unpacked into build/lab/i386; nothing is installed, and this machine's
# own list of architectures stays as it is.
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
lab=$project/build/lab/i386
root=$lab/root
packages=(libssl-dev libseccomp-dev libkcapi-dev libevent-dev libsystemd-dev libinih-dev libcap-dev libsmartcols-dev
    libjson-c-dev libcriterion-dev libc6-dev libgcc-12-dev)

skip() {
    echo "check-32: $1" >&2
    exit 77
}

# apt_32 ARGUMENT...: an apt of its own, which knows i386 alone, and nothing of what is installed
apt_32() {
    APT_CONFIG=$lab/apt.conf timeout 600 apt-get -q "$@" >&2
}

fetch() {
    local file
    mkdir -p "$lab"/{state/lists/partial,cache/archives/partial,sources}
    : >"$lab/state/status"
    # Debian's own entries of this machine; others have no i386.
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
        ! grep -qs 'debian\(-security\)\?/\? *\(bookworm\|$\)' "$file" || cp "$file" "$lab/sources/"
    done
    cat >"$lab/apt.conf" <<END
APT::Architecture "i386";
APT::Architectures { "i386"; };
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Acquire::Languages "none";
Dir::State "$lab/state";
Dir::State::status "$lab/state/status";
Dir::Cache "$lab/cache";
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "$lab/sources";
END
    echo "check-32: fetching i386 libraries (30 MB, once)" >&2
    apt_32 update || true # an index that is missing shows below
    apt_32 -y --download-only -o Debug::NoLocking=1 install "${packages[@]}" || skip "the i386 libraries cannot be fetched"
    mkdir "$root"
    # What has no merged /usr yet unpacks into it all the same.
    mkdir -p "$root/usr/lib"
    ln -s usr/lib "$root/lib"
    for file in "$lab"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$file" | tar -x -C "$root" --keep-directory-symlink
    done
    rm -rf "$lab/cache" "$lab/state"
}

# build VARIANT OPTIONS TARGET...
build() {
    local variant=$1 options=$2
    shift 2
    # shellcheck disable=SC2016 # make's variable
    PKG_CONFIG_LIBDIR=$root/usr/lib/i386-linux-gnu/pkgconfig:$root/usr/share/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root \
        make -s -j"$(nproc)" WERROR=-Werror VARIANT="$variant" CC="$lab/cc" \
        "OPT.$variant=-O2 -D_FILE_OFFSET_BITS=64 $options -Wno-psabi \$(HARDEN)" "$@" >"$lab/log" 2>&1 || {
        tail -n 30 "$lab/log" >&2
        exit 1
    }
}

build_all() {
    cat >"$lab/cc" <<END
#!/bin/sh
exec gcc -m32 --sysroot=$root -B$root/usr/lib/gcc/i686-linux-gnu/12/ -L$root/usr/lib/gcc/i686-linux-gnu/12 "\$@"
END
    chmod 755 "$lab/cc"
    # As Debian builds: its libevent has times of 32 bits, and hands them to the daemon. The C library makes the calls
    # with times of 64 bits all the same (futex_time64 and others).
    build i386 '' all build/i386/test-{unit,integration,sandbox}
    # And the client library, which hands times to nobody, with times of 64 bits in it.
    build i386-time64 -D_TIME_BITS=64 build/i386-time64/test-sandbox
}

[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || skip "an amd64 machine with Debian is needed"
[ -d "$root" ] || fetch
build_all
run=(tests/lab/i386-tests.sh "$root")
if "$root/usr/lib/i386-linux-gnu/ld-linux.so.2" --help >/dev/null 2>&1 && [ -e /lib/ld-linux.so.2 ]; then
    "${run[@]}"
else
    # With all of a CPU's instructions: OpenSSL's AES without any costs three times as long.
    tests/lab/qemu-run.sh -V -c max -t "${CHECK_32_SECONDS:-900}" -- "${run[@]}"
fi
