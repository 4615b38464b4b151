#!/bin/bash
# lint.sh: what `make lint` runs: formatting, clang-tidy, cppcheck, man pages, shell scripts, structure.
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
status=0
parts=(protocol client-lib provider cryptoctl sandbox daemon)

step() {
    echo "lint: $1"
}

step "clang-format"
find "${parts[@]}" tests bench -name '*.[ch]' -print0 | xargs -0 clang-format --dry-run -Werror || status=1

step "clang-tidy"
make -s compile_commands.json
find "${parts[@]}" -name '*.c' -print0 | xargs -0 -P "$(nproc)" -n 8 clang-tidy -p . --quiet 2>/dev/null || status=1

# Suppressed: getpwnam, getgrnam, readdir (called where there is one thread, and readdir's replacement is deprecated);
# an open() whose descriptor is the point of the call.
step "cppcheck"
cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr --enable=warning,performance,portability \
    --library=posix,bsd --suppress=missingIncludeSystem --suppress=getpwnamCalled --suppress=getgrnamCalled \
    --suppress=readdirCalled --suppress=leakReturnValNotUsed:sandbox/privileges.c -D_GNU_SOURCE -D__linux__ \
    -Iprotocol -Iclient-lib -Isandbox -Idaemon/common "${parts[@]}" || status=1

step "man pages"
mandoc -T lint -W warning man/*.[1-9] | grep -v 'STYLE\|referenced manual not found' && status=1

step "shell scripts"
{ find tools tests bench -name '*.sh' -print0 && printf '%s\0' .ci/run bench/run bench/all; } | xargs -0 shellcheck -x || status=1

step "structure"
make -s all
tools/check-structure.sh || status=1
[ "$status" -eq 0 ] && echo "lint: clean"
exit "$status"
