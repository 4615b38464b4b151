# shellcheck shell=bash
# Debian's unmodified sshd on a port of its own, beside the machine's, and transfers that are timed. Sourced after
# common.sh and daemon.sh.
#
# How a transfer is timed: the client logs in and stays (a control master without a session). Then a second ssh opens a
# session on that connection and hands its own standard input and output to the master; so it is the master that
# encrypts and decrypts, as any ssh client, and it writes straight to /dev/null. Time runs from the moment before the
# remote `cat` starts, noted at the server, to the end of the second ssh: every byte has arrived then. Neither login nor
# logout is in it, and the session's process at the server is there before and after, so its CPU time is read exactly.
#
# shellcheck disable=SC2154 # what common.sh sets

declare -A listener=() port=() session_of=() # by side
made_run_sshd=

# prepare_sshd: keys and what both sides share
prepare_sshd() {
    make_ssh_keys "$work"
    if [ ! -d /run/sshd ]; then
        mkdir -m 755 /run/sshd
        made_run_sshd=1
    fi
}

# For the trap of a figure, in place of bench_clean_up: sessions end before what they use.
# shellcheck disable=SC2317
end_sshd() {
    local pid
    for pid in "${listener[@]}"; do
        pkill -P "$pid" 2>/dev/null || true
    done
    bench_clean_up
    [ -z "$made_run_sshd" ] || rmdir /run/sshd 2>/dev/null || true
}

# start_sshd SIDE [NAME=VALUE...]: a listener with this environment
start_sshd() {
    local side=$1
    shift
    port[$side]=$(free_port)
    write_sshd_config "$work" "$side-sshd_config" "${port[$side]}"
    env -u OPENSSL_CONF -u CRYPTOD_SOCKET "$@" \
        /usr/sbin/sshd -D -f "$work/$side-sshd_config" -E "$work/$side-sshd.log" &
    listener[$side]=$!
    started+=("$!")
    await_sshd "$!" "${port[$side]}" "$work/$side-sshd.log"
}

# client SIDE ARGUMENT...: an ssh client with nothing of this machine's configuration, at the CPU's full speed
client() {
    local side=$1 options
    shift
    mapfile -t options < <(ssh_options "$work")
    env -u OPENSSL_CONF -u OPENSSL_ia32cap ssh "${options[@]}" -S "$work/control" -p "${port[$side]}" "$@"
}

# Waits until COMMAND is true, for at most a minute.
until_true() {
    local _
    for _ in {1..600}; do
        "$@" && return
        sleep 0.1
    done
    return 1
}

# has_session SIDE: sets session_of[SIDE], the process that carries the data: the listener's child, or with an ordinary
# user that one's child.
has_session() {
    local pid child
    pid=$(pgrep -P "${listener[$1]}") || return 1
    [[ $pid != *[!0-9]* ]] || return 1
    child=$(pgrep -P "$pid" -x 'sshd.*' || true)
    session_of[$1]=${child:-$pid}
}

has_no_session() {
    ! pgrep -P "${listener[$1]}" >/dev/null
}

# warm_file BYTES: $work/file, in the page cache. The first reading of a sparse file on a disk stands still for 50 ms every
# 16 MiB, whoever reads it, and then that is what is measured.
warm_file() {
    [ "$(stat -c %s "$work/file" 2>/dev/null)" = "$1" ] || truncate -s "$1" "$work/file"
    cat "$work/file" >/dev/null
}

# timed_transfer SIDE get|put CIPHER MIB: sets took_us, session_ticks, session_user_ticks, daemon_ticks, busy_ticks (of
# the whole machine, whoever it is), idle_percent and served_percent.
timed_transfer() {
    local side=$1 direction=$2 cipher=$3 n_bytes=$(($4 << 20))
    local master pids before user_before daemon_before began_us machine machine_before served
    until_true has_no_session "$side" || die "a session of the last transfer is still there"
    client "$side" -M -N -c "$cipher" -m umac-64-etm@openssh.com root@127.0.0.1 </dev/null >/dev/null 2>&1 &
    master=$!
    started+=("$master")
    until_true client "$side" -O check root@127.0.0.1 2>/dev/null || die "$cipher: no login: $(tail -n 3 "$work/$side-sshd.log")"
    until_true has_session "$side" || die "the session's process was not found"
    warm_file "$n_bytes"

    mapfile -t pids < <(daemon_pids)
    served=$(daemon_bytes)
    before=$(cpu_ticks all "${session_of[$side]}")
    user_before=$(cpu_ticks user "${session_of[$side]}")
    daemon_before=$(cpu_ticks all "${pids[@]}")
    machine_before=$(machine_ticks)
    if [ "$direction" = get ]; then
        client "$side" root@127.0.0.1 "exec bash -c 'echo \$EPOCHREALTIME >$work/began; exec cat $work/file'" </dev/null >/dev/null
    else
        client "$side" root@127.0.0.1 "exec bash -c 'echo \$EPOCHREALTIME >$work/began; exec cat >/dev/null'" <"$work/file" >/dev/null
    fi || die "$cipher: the transfer failed: $(tail -n 3 "$work/$side-sshd.log")"
    took_us=$(now_us)
    machine=$(machine_ticks)
    daemon_ticks=$(($(cpu_ticks all "${pids[@]}") - daemon_before))
    session_ticks=$(($(cpu_ticks all "${session_of[$side]}") - before))
    session_user_ticks=$(($(cpu_ticks user "${session_of[$side]}") - user_before))
    served_percent=$((100 * ($(daemon_bytes) - served) / n_bytes))

    began_us=$(<"$work/began")
    took_us=$((took_us - ${began_us/[.,]/}))
    read -r busy_ticks idle_percent < <(awk -v a="$machine_before" -v b="$machine" 'BEGIN {
        split(a, x); split(b, y); idle = y[1] - x[1]; all = y[2] - x[2]; if (all < 1) all = 1
        printf "%d %d\n", all - idle, 100 * idle / all }')
    client "$side" -O exit root@127.0.0.1 2>/dev/null || true
    wait "$master" || true
    unset 'started[-1]'
}

# per_gb TICKS MIB, mb_per_s MICROSECONDS MIB
per_gb() {
    awk -v t="$1" -v hz="$ticks_per_s" -v m="$2" 'BEGIN { printf "%.2f", t / hz / (m * 1.048576e-3) }'
}
mb_per_s() {
    awk -v t="$1" -v m="$2" 'BEGIN { printf "%.1f", m * 1048576 / t }'
}

# one_side SIDE get|put CIPHER MIB: sets text[SIDE], us[SIDE], ticks[SIDE]
declare -A text=() us=() ticks=()
one_side() {
    timed_transfer "$@"
    us[$1]=$took_us
    ticks[$1]=$session_ticks
    text[$1]="$(mb_per_s "$took_us" "$4") MB/s, CPU s/GB session $(per_gb "$session_ticks" "$4") (user $(
        per_gb "$session_user_ticks" "$4")) daemon $(per_gb "$daemon_ticks" "$4") machine $(per_gb "$busy_ticks" "$4"), idle $idle_percent %, served $served_percent %"
}

# paired_transfers NAME get|put CIPHER MIB PAIRS FILE: provider and stock in turns (A B, B A, ...); FILE gets the ratios
# of each pair.
paired_transfers() {
    local name=$1 n side sides
    timed_transfer provider "$2" "$3" "$4" # warm-up, not counted: the first large transfer is slow on either side
    timed_transfer stock "$2" "$3" "$4"
    for ((n = 1; n <= $5; n++)); do
        sides=(provider stock)
        [ $((n % 2)) -eq 1 ] || sides=(stock provider)
        for side in "${sides[@]}"; do one_side "$side" "$2" "$3" "$4"; done
        echo "$name pair $n provider: ${text[provider]}"
        echo "$name pair $n stock:    ${text[stock]}"
        awk -v pu="${us[provider]}" -v su="${us[stock]}" -v pt="${ticks[provider]}" -v st="${ticks[stock]}" 'BEGIN {
            printf "%.4f %.4f\n", su / pu, st / (pt > 0 ? pt : 1) }' | tee -a "$6" | sed "s/^/$name pair $n ratios: /"
    done
}
