#!/bin/bash
# package.sh: builds the Debian packages into build/package from what git tracks here, in a folder of its own, and looks
# at them as TAP lines: lintian, and that programs run from what is in them.
# shellcheck disable=SC2317 # functions are called by result()
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
folder=$project/build/package
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# result NAME COMMAND...: its output is shown if it fails
result() {
    local name=$1 text
    shift
    if text=$("$@" 2>&1); then
        echo "ok - package::$name"
    else
        echo "not ok - package::$name"
        printf '    %s\n' "${text//$'\n'/$'\n    '}"
        failed=1
    fi
}

build_packages() {
    mkdir "$work/cryptod"
    git ls-files -z | xargs -0 cp -a --parents -t "$work/cryptod"
    (cd "$work/cryptod" && DEB_BUILD_OPTIONS="nocheck noautodbgsym parallel=$(nproc)" dpkg-buildpackage -us -uc -b)
    rm -rf "$folder"
    mkdir -p "$folder"
    mv "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo "$folder"
}

look_with_lintian() {
    lintian --allow-root --fail-on error,warning "$folder"/*.changes
}

# What an installed system would do, with the packages unpacked in one folder.
unpack() {
    local package
    for package in "$folder"/*.deb; do dpkg -x "$package" "$work/root"; done
}

# The package's users exist on an installed system only.
daemon_runs() {
    sed 's/^\[daemon\]$/&\nfront_user = 61990\nengine_user = 61991/' "$work/root/etc/cryptod/cryptod.conf" >"$work/cryptod.conf"
    "$work/root/usr/sbin/cryptod" --config "$work/cryptod.conf" --check-config
}

command_runs() {
    local text
    text=$(LD_LIBRARY_PATH=$(dirname "$work"/root/usr/lib/*/libcryptod.so.0) \
        "$work/root/usr/bin/cryptoctl" status --socket "$work/none" 2>&1) || true
    echo "$text"
    [[ $text = "cryptod is not running"* ]]
}

provider_loads() {
    LD_LIBRARY_PATH=$(dirname "$work"/root/usr/lib/*/libcryptod.so.0) \
        OPENSSL_MODULES=$(echo "$work"/root/usr/lib/*/ossl-modules) openssl list -providers -provider cryptod | grep cryptod
}

# A C program as a user of libcryptod-dev builds it.
development_files_work() {
    local flags
    printf '#include <cryptod.h>\nint main(void) { return cryptod_open("/nonexistent", 1) == 0; }\n' >"$work/use.c"
    read -ra flags < <(PKG_CONFIG_SYSROOT_DIR=$work/root PKG_CONFIG_PATH=$(echo "$work"/root/usr/lib/*/pkgconfig) \
        pkg-config --cflags --libs cryptod)
    gcc -I"$work/root/usr/include" -o "$work/use" "$work/use.c" -L"$(dirname "$work"/root/usr/lib/*/libcryptod.so)" "${flags[@]}"
    LD_LIBRARY_PATH=$(dirname "$work"/root/usr/lib/*/libcryptod.so.0) "$work/use"
}

result "builds" build_packages
[ "$failed" -eq 0 ] || exit 1
result "lintian has no complaint" look_with_lintian
result "unpacks" unpack
result "the shipped configuration is accepted" daemon_runs
result "cryptoctl finds its library" command_runs
result "OpenSSL finds the provider" provider_loads
result "a program builds with the development files" development_files_work
exit "$failed"
