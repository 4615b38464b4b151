#!/bin/bash
# i386-tests.sh ROOT: the tests of a build for i386 whose libraries are in ROOT. TAP lines. In the lab it makes these
# libraries the system's; elsewhere the system has some.
#
# What runs is what can differ on 32 bits: layouts and lengths (messages, rings, shared memory), counters of 64 bits,
# system calls of other names and numbers (every filter, and every path of the library under sshd's), times of 64 bits.
set -u
root=$1
export CRYPTOD_BUILD=build/i386
status=0
if [ -n "${LAB:-}" ]; then
    cp "$root/usr/lib/i386-linux-gnu/ld-linux.so.2" /lib/ld-linux.so.2
    ln -sfn "$root/usr/lib/i386-linux-gnu" /usr/lib/i386-linux-gnu
fi

# suite BUILD PROGRAM SUITES
suite() {
    echo "i386-tests: $1, $2: $3 (at $(cut -d. -f1 /proc/uptime) s)" >&2
    timeout 400 tools/criterion-tap.sh "build/$1/test-$2" -j1 --filter "@($3)/*" || status=1
}

suite i386 sandbox 'sshd_filter|client_in_sandbox|client_in_trouble|front_*|engine_*|seccomp|landlock*|cases_refused'
suite i386-time64 sandbox 'sshd_filter|client_in_sandbox'
suite i386 unit 'message*|packet*|ring*|shm*|session|stream|submit|slot|fork'
suite i386 integration 'client|key_memory'
suite i386 sandbox cases_provider

cat <<'END'
# left out on 32 bits:
# unit: other suites, which have no layout, length or system call in them that differs
# sandbox: cases_sandbox, cases_allocations (minutes of emulation, the calls are those of client_in_sandbox and
#   client_in_trouble); privileges (the calls are the C library's and libcap's)
# integration: other suites, which drive front, monitor and engine through the same messages and rings
# lab: AF_ALG itself; one request to the kernel is in engine_work
END
exit "$status"
