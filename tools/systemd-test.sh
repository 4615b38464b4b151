#!/bin/bash
# systemd-test.sh: installs into a folder, and runs the units under a real systemd in the lab (tests/lab/systemd-tests.sh).
# TAP lines. 77: no lab on this machine.
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
stage=$project/build/lab/stage
rm -rf "$stage"
mkdir -p "$stage"
make -s DESTDIR="$stage" install >&2
tests/lab/uml-run.sh -S -m 768 -t "${SYSTEMD_TEST_SECONDS:-300}" -- tests/lab/systemd-tests.sh "$stage"
