#!/bin/bash
# lint.sh: what `make lint` runs: formatting, clang-tidy, cppcheck, man pages, shell scripts, structure.
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
status=0

step() {
    echo "lint: $1"
}

step "clang-format"
git ls-files '*.c' '*.h' | xargs clang-format --dry-run -Werror || status=1

step "clang-tidy"
make -s compile_commands.json
git ls-files '*.c' | grep -v '^tests/\|^bench/' | xargs -P "$(nproc)" -n 8 clang-tidy -p . --quiet 2>/dev/null || status=1

step "cppcheck"
cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr --enable=warning,performance,portability --library=posix,bsd,gnu \
    --suppress=missingIncludeSystem -D_GNU_SOURCE -D__linux__ -Iprotocol -Iclient-lib -Isandbox -Idaemon/common \
    protocol client-lib provider cryptoctl sandbox daemon || status=1

step "man pages"
mandoc -T lint -W warning man/*.[1-9] | grep -v 'STYLE\|referenced manual not found' && status=1

step "shell scripts"
git ls-files '*.sh' .ci/run bench/run | xargs shellcheck -x || status=1

step "structure"
make -s all
tools/check-structure.sh || status=1
[ "$status" -eq 0 ] && echo "lint: clean"
exit "$status"
