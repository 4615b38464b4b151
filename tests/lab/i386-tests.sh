#!/bin/bash
# i386-tests.sh ROOT: the tests of a build for i386 whose libraries are in ROOT. TAP lines. In the lab it makes these
# libraries the system's; elsewhere the system has some.
set -u
root=$1
export CRYPTOD_BUILD=build/i386
status=0
if [ -n "${LAB:-}" ]; then
    cp "$root/usr/lib/i386-linux-gnu/ld-linux.so.2" /lib/ld-linux.so.2
    ln -sfn "$root/usr/lib/i386-linux-gnu" /usr/lib/i386-linux-gnu
fi

# suite PROGRAM SUITES [TESTS]: those alone that need no 64-bit program, and none that makes each call there is
suite() {
    timeout 400 tools/criterion-tap.sh "build/i386/test-$1" -j1 --filter "@($2)/${3:-*}" || status=1
}

suite sandbox 'client_in_sandbox|client_in_trouble|sshd_filter|front_work|engine_work|seccomp|landlock*|cases_refused'
suite sandbox 'front_policy|engine_policy' 'rows_*'
suite unit 'stream|session|ring*|keystream*|slot|submit|fork|software|shm*|packet*|message*|secret|lane_cost'
suite integration 'client|keystream|key_memory|cases_bytes'
exit "$status"
