#!/bin/bash
# check-hardening.sh: what the build and the units promise about safety, as TAP lines: how the binaries were linked and
# compiled, that two builds in different folders are the same bytes, that the service's exposure is low. Wants the
# programs built.
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
failed=0
build=${CRYPTOD_BUILD:-build/release}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# result NAME TEXT-OF-PROBLEMS
result() {
    if [ -z "$2" ]; then
        echo "ok - hardening::$1"
    else
        echo "not ok - hardening::$1"
        printf '    %s\n' "${2//$'\n'/$'\n    '}"
        failed=1
    fi
}

skip() {
    echo "ok - hardening::$1 # SKIP $2"
}

# The files as they are installed, which have no search path of their own.
install_files() {
    make -s WERROR=-Werror DESTDIR="$1" PREFIX=/usr LIBDIR=/usr/lib MODULESDIR=/usr/lib/ossl-modules install >"$work/log" 2>&1 ||
        { cat "$work/log"; return 1; }
}

binaries() {
    find "$1/usr" -type f \( -perm -u+x -o -name '*.so*' \) -exec sh -c 'head -c4 "$1" | grep -q ELF && echo "$1"' sh {} \;
}

# has FILE READELF-OPTION PATTERN COMPLAINT
has() {
    readelf -W "$2" "$1" 2>/dev/null | grep -qE "$3" || echo "${1##*/}: $4"
}
has_not() {
    ! readelf -W "$2" "$1" 2>/dev/null | grep -qE "$3" || echo "${1##*/}: $4"
}

check_file() {
    local file=$1
    has "$file" -h 'Type: +DYN' "not position independent"
    case $file in *bin/*) has "$file" -d 'FLAGS_1.* PIE' "not marked as a position independent program" ;; esac
    has "$file" -l 'GNU_RELRO' "no RELRO"
    has "$file" -d 'BIND_NOW|FLAGS.* NOW' "functions are not bound at start, so RELRO is not full"
    has "$file" -l 'GNU_STACK .* RW ' "no GNU_STACK, or an executable one"
    has_not "$file" -l 'LOAD .* RWE' "a segment is writable and executable"
    has_not "$file" -d '\(TEXTREL\)' "text relocations"
    has_not "$file" -d '\((RPATH|RUNPATH)\)' "a search path of its own"
    # The provider may have neither a buffer on its stack nor a call that could be checked.
    has "$file" --dyn-syms '__stack_chk_fail' "no stack protector"
    [[ $file = */ossl-modules/* ]] || has "$file" --dyn-syms '_chk(@|$| )' "no call is fortified"
}

# Of the objects: a linked file has the mark only if the C library's start files have it, too, and Debian 12's have not.
check_branches() {
    local object pattern
    case $(uname -m) in
    x86_64) pattern='x86 feature: IBT, SHSTK' ;;
    aarch64) pattern='AArch64 feature: BTI' ;;
    *) return 0 ;; # nothing to be marked
    esac
    for object in "$build"/obj/{protocol,client-lib,provider,cryptoctl,sandbox,daemon/*}/*.o; do
        has "$object" -n "$pattern" "not marked: $pattern"
    done
}

check_files() {
    local file n=0
    for file in $(binaries "$work/installed"); do
        check_file "$file"
        n=$((n + 1))
    done
    [ "$n" -eq 4 ] || echo "$n binaries are installed, not 4"
}

# A second build in another folder, with a longer name, which knows nothing of the first.
check_reproducible() {
    local folder=$work/another-folder-with-quite-a-long-name file
    mkdir "$folder"
    cp -r Makefile tools protocol client-lib provider cryptoctl sandbox daemon "$folder"
    mkdir "$folder/tests" "$folder/bench"
    make -s -C "$folder" -j"$(nproc)" all >"$work/log" 2>&1 || { tail -n 5 "$work/log"; return; }
    for file in cryptod cryptoctl libcryptod.so.0 cryptod.so; do
        cmp "$build/$file" "$folder/build/release/$file" 2>&1 || true
        ! grep -qF -e "$folder" -e "$project" "$build/$file" || echo "$file: a folder's name is in it"
    done
}

check_exposure() {
    systemd-analyze security --offline=true --threshold=16 --no-pager systemd/cryptod.service >"$work/log" 2>&1 ||
        tail -n 1 "$work/log"
}

# What the generator does for a kernel of this release: prints the drop-in.
generate() {
    mkdir -p "$work/bin" "$work/units-$1"
    printf '#!/bin/sh\necho %s\n' "$1" >"$work/bin/uname"
    chmod 755 "$work/bin/uname"
    PATH=$work/bin:$PATH systemd/cryptod-generator "$work/units-$1" "$work/units-$1" "$work/units-$1" || echo "failed"
    cat "$work/units-$1"/*/* 2>/dev/null || true
}

check_generator() {
    local release
    for release in 5.10.0 6.12.38+deb13-amd64 7.2.9 odd; do
        [ -z "$(generate "$release")" ] || echo "$release: CAP_NET_ADMIN, though this kernel does not ask for it"
    done
    for release in 7.3.0 7.10-rc1 8.0.1-arm64 10.2; do
        generate "$release" | grep -qx 'CapabilityBoundingSet=CAP_NET_ADMIN' || echo "$release: no CAP_NET_ADMIN"
    done
}

result "binaries are hardened" "$(install_files "$work/installed" && check_files)"
result "branches are guarded" "$(check_branches)"
result "two builds are the same" "$(check_reproducible)"
result "the generator adds CAP_NET_ADMIN where it is needed" "$(check_generator)"
if command -v systemd-analyze >/dev/null && systemd-analyze security --help 2>/dev/null | grep -q -- --threshold; then
    result "the service's exposure is at most 1.6" "$(check_exposure)"
else
    skip "the service's exposure is at most 1.6" "no systemd-analyze that knows --threshold"
fi
exit "$failed"
