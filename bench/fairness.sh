#!/bin/bash
# fairness.sh: one user's single stream beside another's 50 busy ones. A delay of 2 ms for each request is what limits
# them all, so that the figure is the queue's and not this machine's.
# shellcheck source=bench/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=bench/lib/daemon.sh
. bench/lib/daemon.sh

busy_uid=61993

bench_begin
bench_build all "$build/bench-fairness"
start_daemon "allow_users = $busy_uid" \
    '[lanes]' 'offload = always' 'bulk_threshold = 0' 'request_min = 1' 'deadline_ms = 20000' 'keystream_slots = 8' \
    '[engine]' 'backends = fault' 'fault = delay_ms=2' 'workers = 2' 'verify = off'
"$build/bench-fairness" "$busy_uid"
