#!/bin/bash
# systemd-test.sh: installs into a folder, and runs the units under a real systemd in the labs: their life in user-mode
# Linux (tests/lab/systemd-tests.sh), then with an engine process that hangs in a driver for good, in qemu
# (tests/lab/systemd-hang-tests.sh). TAP lines. 77: no lab at all on this machine.
#
# SYSTEMD_TEST_SECONDS: at most so long for each of the two (default 480).
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
stage=$project/build/lab/stage
limit=${SYSTEMD_TEST_SECONDS:-480}
ran=0 failed=0

# part SUITE COMMAND...
part() {
    local suite=$1 status=0 begin=$SECONDS
    shift
    "$@" || status=$?
    case $status in
    0) ran=1 ;;
    1) ran=1 failed=1 ;;
    77) echo "ok - $suite # SKIP no lab for it on this machine" ;;
    *)
        ran=1 failed=1
        echo "not ok - $suite::ends by itself"
        echo "    status $status"
        ;;
    esac
    echo "# $suite took $((SECONDS - begin)) s"
}

rm -rf "$stage"
mkdir -p "$stage"
make -s DESTDIR="$stage" install >&2
part systemd tests/lab/uml-run.sh -S -m 768 -t "$limit" -- tests/lab/systemd-tests.sh "$stage"
part systemd_hang tests/lab/qemu-run.sh -S -t "$limit" -- tests/lab/systemd-hang-tests.sh "$stage"
[ "$ran" -eq 1 ] || exit 77
exit "$failed"
