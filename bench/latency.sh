#!/bin/bash
# latency.sh: the request lane's round trip, with the backend that costs least.
# shellcheck source=bench/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=bench/lib/daemon.sh
. bench/lib/daemon.sh

bench_begin
bench_build all "$build/bench-latency"
# Each call through the request lane, whatever it gains: the lane itself is what is measured.
start_daemon '[lanes]' 'offload = always' 'bulk_threshold = 0' 'request_min = 1' '[engine]' 'backends = cpu'
"$build/bench-latency"
