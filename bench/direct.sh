#!/bin/bash
# direct.sh latency|request: one C program against a daemon of its own.
# shellcheck source=bench/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=bench/lib/daemon.sh
. bench/lib/daemon.sh

# Each call through the request lane, whatever it gains: the lane itself is what is measured.
lanes=('[lanes]' 'offload = always' 'bulk_threshold = 0' 'request_min = 1')

name=$1
bench_begin
bench_build all "$build/bench-$name"
case $name in
latency) start_daemon "${lanes[@]}" '[engine]' 'backends = cpu' ;;
request) start_daemon "${lanes[@]}" '[engine]' 'backends = afalg' ;;
esac
"$build/bench-$name"
