#!/bin/bash
# descriptors.sh: what the process that accepts clients uses of a CPU while it has no descriptor left (NOFILE=32, four
# sessions that do nothing: the engine, too, has only 32) and 100 clients come, for whom there is room for four at a time.
# shellcheck source=bench/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=bench/lib/daemon.sh
. bench/lib/daemon.sh

bench_begin
bench_build all "$build/bench-idle" "$build/bench-descriptors"
# Without the capability, or the daemon would raise its limit.
# shellcheck disable=SC2034 # start_daemon's
daemon_runner=(setpriv --bounding-set -sys_resource prlimit --nofile=32:32)
start_daemon '[engine]' 'backends = cpu' 'workers = 1' '[lanes]' 'offload = always'
start_sessions descriptors 4
front=$(pgrep -P "$daemon" -f 'cryptod: front') || die "descriptors: front was not found"
"$build/bench-descriptors" "$front"
