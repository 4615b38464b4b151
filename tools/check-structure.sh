#!/bin/bash
# check-structure.sh: what the structure promises, as TAP lines: dependencies point one way, sizes are bounded, each header
# compiles alone, man pages are well-formed, the libraries export what they should. Wants the programs built.
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
failed=0

# result NAME TEXT-OF-PROBLEMS
result() {
    if [ -z "$2" ]; then
        echo "ok - structure::$1"
    else
        echo "not ok - structure::$1"
        printf '    %s\n' "${2//$'\n'/$'\n    '}"
        failed=1
    fi
}

parts=(protocol client-lib provider cryptoctl sandbox daemon)
build=${CRYPTOD_BUILD:-build/release}

sources() {
    find "${parts[@]}" tests bench -name '*.[ch]' | sort
}

# Which folders a folder may use: itself and these. daemon/main.c alone joins the roles.
allowed_for() {
    case $1 in
    protocol | sandbox) echo "$1" ;;
    client-lib) echo "client-lib protocol" ;;
    provider | cryptoctl) echo "$1 cryptod.h" ;;
    daemon/common) echo "daemon/common protocol" ;;
    daemon) echo "daemon daemon/common protocol sandbox" ;;
    daemon/*) echo "$1 daemon/common protocol sandbox" ;;
    esac
}

# By the #include lines.
check_includes() {
    local file header owner allowed
    declare -A where=()
    while read -r file; do where[${file##*/}]=${file%/*}; done < <(find "${parts[@]}" -name '*.h')
    while read -r file; do
        allowed=$(allowed_for "${file%/*}")
        while read -r header; do
            owner=${where[${header##*/}]:-}
            if [ -z "$owner" ]; then
                echo "$file: \"$header\" is no header of ours"
            elif [[ " $allowed " != *" $owner "* && " $allowed " != *" $header "* ]] &&
                [[ $file != daemon/main.c || $owner != daemon/* ]]; then
                echo "$file may not include $owner/$header"
            fi
        done < <(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$file")
    done < <(find "${parts[@]}" -name '*.[ch]')
}

# list_symbols FOLDER NM-OPTION: "object: .. symbol" of the objects of a folder's sources
list_symbols() {
    local source objects=()
    for source in "$1"/*.c; do
        [ ! -e "$source" ] || objects+=("$build/obj/${source%.c}.o")
    done
    [ ${#objects[@]} -eq 0 ] || nm --quiet -A -g "$2" "${objects[@]}"
}

# By what the objects call: a declaration written by hand would get past the headers.
check_calls() {
    local folder folders
    mapfile -t folders < <(find "${parts[@]}" -type d)
    for folder in "${folders[@]}"; do
        list_symbols "$folder" --defined-only | awk -v folder="$folder" '{ print $NF, folder }'
    done >"$symbols"
    for folder in "${folders[@]}"; do
        [ "$folder" != daemon ] || continue # main.c
        list_symbols "$folder" --undefined-only |
            awk -v allowed=" $(allowed_for "$folder") " 'NR == FNR { owner[$1] = $2; next }
                $NF in owner && index(allowed, " " owner[$NF] " ") == 0 && $NF !~ /^cryptod_/ {
                    print $1 " may not call " $NF " of " owner[$NF] }' "$symbols" -
    done
}

# Libraries that only one place may know.
check_foreign_headers() {
    grep -rl '<kcapi.h>' "${parts[@]}" | grep -v '^daemon/engine/kcapi_adapter\.c$' | sed 's/$/ may not include kcapi.h/' || true
    grep -rl '<seccomp.h>' "${parts[@]}" | grep -v '^sandbox/' | sed 's/$/ may not include seccomp.h/' || true
    grep -rl '<event2/' "${parts[@]}" | grep -v '^daemon/' | sed 's/$/ may not include libevent/' || true
}

check_headers() {
    local file folder
    for file in $(sources | grep '\.h$'); do
        folder=${file%/*}
        echo "#include \"${file##*/}\"" |
            gcc -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -fsyntax-only -I"$folder" -Iprotocol -Iclient-lib -Isandbox \
                -Idaemon/common -Idaemon/front -Idaemon/engine -Idaemon/monitor -Itests -x c - 2>&1 | head -n 3
    done
}

check_libraries() {
    local symbol
    nm -D --defined-only "$build/libcryptod.so.0" | awk '$2 ~ /[A-Z]/ { print $3 }' | grep -v '^cryptod_\|^LIBCRYPTOD_' || true
    nm -D --defined-only "$build/cryptod.so" | awk '$2 ~ /[A-Z]/ { print $3 }' | grep -v '^OSSL_provider_init' || true
    # A system call that only the daemon may make must not slip into the client library.
    # Nor one that the kernel restarts through restart_syscall after a stop: sshd's sandbox kills for that.
    for symbol in fork execve posix_spawn dlopen pthread_create syslog poll select nanosleep usleep sleep clock_nanosleep; do
        ! nm -D --undefined-only "$build/libcryptod.so.0" | grep -qw "$symbol" || echo "libcryptod calls $symbol"
    done
    readelf -d "$build/cryptod.so" "$build/cryptoctl" | grep -o 'Shared library: \[lib\(kcapi\|seccomp\|event\)[^]]*' || true
}

# Keystream is used up with vectors, in the code as it was built.
check_vectors() {
    local pattern
    case $(uname -m) in
    x86_64 | i?86) pattern='v?p?xor[a-z]* .*%[xyz]mm' ;;
    aarch64 | arm*) pattern='v?eor(\.[a-z0-9]+)?\s+[vq][0-9]' ;;
    *) return ;; # an architecture whose names are not known here
    esac
    objdump -d --no-show-raw-insn "$build/obj/client-lib/keystream_xor.o" | grep -qE "$pattern" ||
        echo "keystream_xor() has no vector instruction"
}

symbols=$(mktemp)
trap 'rm -f "$symbols"' EXIT
result "includes point one way" "$(check_includes)"
result "calls point one way" "$(check_calls)"
result "foreign libraries stay in their place" "$(check_foreign_headers)"
result "files have under 400 lines" "$(sources | xargs wc -l | awk '$2 != "total" && $1 >= 400')"
result "each header compiles alone" "$(check_headers)"
result "libraries export and need what they should" "$(check_libraries)"
result "keystream is used up with vectors" "$(check_vectors)"
result "man pages are well-formed" "$(mandoc -T lint -W error man/*.[1-9] 2>&1)"
exit "$failed"
