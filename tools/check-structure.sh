#!/bin/bash
# check-structure.sh: what the structure promises, as TAP lines: dependencies point one way, sizes are bounded, each header
# compiles alone, man pages are well-formed, the libraries export what they should.
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
failed=0

# result NAME TEXT-OF-PROBLEMS
result() {
    if [ -z "$2" ]; then
        echo "ok - structure::$1"
    else
        echo "not ok - structure::$1"
        sed 's/^/    /' <<<"$2"
        failed=1
    fi
}

sources() {
    git ls-files '*.c' '*.h'
}

# Where a quoted header of ours lies, by name.
check_dependencies() {
    local allowed file header owner folder
    declare -A where=()
    for file in $(git ls-files '*.h'); do where[${file##*/}]=${file%/*}; done
    for file in $(git ls-files 'protocol/*.[ch]' 'client-lib/*.[ch]' 'provider/*.[ch]' 'cryptoctl/*.[ch]' 'sandbox/*.[ch]' \
        'daemon/**/*.[ch]'); do
        folder=${file%/*}
        case $folder in
        protocol) allowed='protocol' ;;
        client-lib) allowed='client-lib protocol' ;;
        provider) allowed='provider cryptod.h' ;;
        cryptoctl) allowed='cryptoctl cryptod.h' ;;
        sandbox) allowed='sandbox' ;;
        daemon/common) allowed='daemon/common protocol' ;;
        daemon | daemon/*) allowed="$folder daemon/common protocol sandbox" ;;
        esac
        while read -r header; do
            owner=${where[$header]:-}
            [ -n "$owner" ] || { echo "$file: \"$header\" is no header of ours" && continue; }
            case " $allowed " in
            *" $owner "* | *" $header "*) ;;
            *) echo "$file may not include $owner/$header" ;;
            esac
        done < <(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$file")
    done
}

check_headers() {
    local file folder
    for file in $(git ls-files '*.h'); do
        folder=${file%/*}
        echo "#include \"${file##*/}\"" |
            gcc -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -fsyntax-only -I"$folder" -Iprotocol -Iclient-lib -Isandbox \
                -Idaemon/common -Idaemon/front -Idaemon/engine -Idaemon/monitor -Itests -x c - 2>&1 | head -n 3
    done
}

check_libraries() {
    local build=${CRYPTOD_BUILD:-build/release} symbol
    nm -D --defined-only "$build/libcryptod.so.0" | awk '$2 ~ /[A-Z]/ { print $3 }' | grep -v '^cryptod_\|^LIBCRYPTOD_' || true
    nm -D --defined-only "$build/cryptod.so" | awk '$2 ~ /[A-Z]/ { print $3 }' | grep -v '^OSSL_provider_init' || true
    # A system call that only the daemon may make must not slip into the client library.
    for symbol in fork execve posix_spawn dlopen pthread_create syslog; do
        ! nm -D --undefined-only "$build/libcryptod.so.0" | grep -qw "$symbol" || echo "libcryptod calls $symbol"
    done
    readelf -d "$build/cryptod.so" "$build/cryptoctl" | grep -o 'Shared library: \[lib\(kcapi\|seccomp\|event\)[^]]*' || true
}

result "dependencies point one way" "$(check_dependencies)"
result "files have under 400 lines" "$(sources | xargs wc -l | awk '$2 != "total" && $1 >= 400')"
result "each header compiles alone" "$(check_headers)"
result "libraries export and need what they should" "$(check_libraries)"
result "man pages are well-formed" "$(mandoc -T lint -W error man/*.[1-9] 2>&1)"
exit "$failed"
