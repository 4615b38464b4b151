#!/bin/bash
# demo.sh [MIB]: installs what is missing, builds, and shows the main job once: an unmodified sshd, with its sandbox on,
# encrypts through the kernel's AF_ALG. Where the running kernel has no AF_ALG it boots the lab kernel.
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
size=${1:-64}

need_root "it installs packages and starts cryptod and sshd"
tools/setup.sh --demo
make -s all
if has_afalg; then
    exec tools/demo-inside.sh --size "$size"
fi
echo "This machine's kernel has no AF_ALG: booting the lab kernel (user-mode Linux) for the demo."
status=0
tests/lab/uml-run.sh -m 1024 -t 600 -- tools/demo-inside.sh --size "$size" || status=$?
case $status in
0) ;;
77) echo "Without it, 'make check' still runs every test that needs no AF_ALG." >&2 ;;
124) echo "The demo did not end in time. Is the machine very busy? Try 'tools/demo.sh 16' (MiB)." >&2 ;;
125) echo "The lab kernel did not come up. It needs ptrace(2) and some memory; TMPDIR chooses where." >&2 ;;
esac
exit "$status"
