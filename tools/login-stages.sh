#!/bin/bash
# login-stages.sh [STATE [STAGE]]: a login to Debian's unmodified sshd must work at every stage with the daemon stopped, killed or hung, as
# TAP lines (case 4 from the field: locked out of ssh by a crypto library). What happens to the daemon happens exactly at
# one stage: before sshd's listener starts, before the connection, in the key exchange, between the acceptance of the key
# and its signature, between login and session, in the middle of the transfer. Each login sends a file there and back.
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=tools/sshd.sh
. tools/sshd.sh
# shellcheck source=tools/place.sh
. tools/place.sh

build=$project/${CRYPTOD_BUILD:-build/release}
failed=0

# ------------------------------------------------------------------ the daemon

write_config() {
    cat >"$work/cryptod.conf" <<END
[daemon]
socket = $work/cryptod.sock
front_user = $(role_user cryptod-front 61990)
engine_user = $(role_user cryptod-engine 61991)
[lanes]
offload = always
[engine]
backends = fault
fault = $1
END
}

# As systemd runs it: the socket is there before the daemon and stays when it dies, so that connections to it still work.
start_daemon() {
    write_config delay_ms=0
    rm -f "$work/cryptod.sock"
    perl -MSocket -e '
        my ($path, $out, @command) = @ARGV;
        my $s;
        socket($s, AF_UNIX, SOCK_SEQPACKET, 0) && bind($s, sockaddr_un($path)) && listen($s, 128) or die "$path: $!\n";
        chmod(0666, $path);
        my $pid = fork();
        if ($pid) { open(my $f, ">", $out); print $f $pid; close $f; sleep 1 while 1; }
        require POSIX;
        if (fileno($s) == 3) { require Fcntl; fcntl($s, Fcntl::F_SETFD(), 0) } else { POSIX::dup2(fileno($s), 3) }
        @ENV{qw(LISTEN_PID LISTEN_FDS)} = ($$, 1);
        exec @command' "$work/cryptod.sock" "$work/monitor" "$work/bin/cryptod" --config "$work/cryptod.conf" \
        >>"$work/cryptod.log" 2>&1 &
    holder=$!
    for _ in {1..100}; do
        CRYPTOD_SOCKET=$work/cryptod.sock "$work/bin/cryptoctl" status >/dev/null 2>&1 && return
        sleep 0.1
    done
    die "cryptod did not start: $(tail -n 5 "$work/cryptod.log")"
}

daemon_pids() {
    cat "$work/monitor"
    echo
    pgrep -P "$(cat "$work/monitor")" || true
}

end_daemon() {
    local pids
    mapfile -t pids < <(daemon_pids)
    kill -KILL "${pids[@]}" "$holder" 2>/dev/null || true
    wait "$holder" 2>/dev/null || true
}

# What ssh calls at a stage: does it, once, if it is the stage that is meant, to the processes that were noted before.
write_hook() {
    write_config hang_after=0
    mv "$work/cryptod.conf" "$work/hanging.conf"
    write_config delay_ms=0
    daemon_pids >"$work/pids"
    rm -f "$work/done"
    cat >"$work/hook" <<END
#!/bin/bash
[ "\$1" = "$2" ] && [ ! -e $work/done ] || exit 0
mapfile -t pids <$work/pids
case $1 in
stopped) kill -STOP "\${pids[@]}" ;;
killed) kill -KILL "\${pids[@]}" 2>/dev/null ;; # the roles follow the monitor
hung) mv $work/hanging.conf $work/cryptod.conf && kill -HUP "\${pids[0]}" && sleep 0.2 ;;
esac
: >$work/done
END
    chmod 755 "$work/hook"
}

# ------------------------------------------------------------------ a login

send() {
    head -c 1M "$work/data"
    sleep 0.3 # so that these are served before the rest comes
    "$work/hook" transfer
    tail -c +1048577 "$work/data" | head -c 3M
}

# In the middle of it the hooks are called: by a command for known hosts, a passphrase, a local command.
login() {
    local options
    mapfile -t options <"$work/ssh-options"
    send | SSH_ASKPASS=$work/askpass SSH_ASKPASS_REQUIRE=force timeout 60 ssh -i "$work/locked_key" -o BatchMode=no \
        -o "KnownHostsCommand=$work/known-hosts %I" -o PermitLocalCommand=yes -o "LocalCommand=$work/hook session" \
        "${options[@]}" -p "$place_port" -c "$1" soak@127.0.0.1 "exec cat" | sha256sum
}

# Scripts that ssh calls, and a key with a passphrase, that it must ask for.
prepare_hooks() {
    ssh-keygen -q -t ed25519 -N secret -C '' -f "$work/locked_key"
    cat "$work/locked_key.pub" >>"$work/authorized_keys"
    printf '#!/bin/sh\n%s auth\necho secret\n' "$work/hook" >"$work/askpass"
    printf '#!/bin/sh\n[ "%s" = ORDER ] || %s kex\n' "\$1" "$work/hook" >"$work/known-hosts"
    chmod 755 "$work/askpass" "$work/known-hosts"
}

try() {
    local state=$1 stage=$2 cipher=$3 hash text
    start_daemon
    write_hook "$state" "$stage"
    "$work/hook" listener
    start_place_sshd "$work/sshd.log"
    "$work/hook" connect
    hash=$(login "$cipher" 2>"$work/ssh.log") || true
    text="case_4::login, daemon $state at stage $stage ($cipher)"
    if [ "$hash" = "$expected" ] && [ -e "$work/done" ]; then
        echo "ok - $text"
    else
        echo "not ok - $text"
        { ls -l "$work/done" 2>&1; cat "$work/ssh.log"; tail -n 5 "$work/sshd.log" "$work/cryptod.log"; } >&2
        failed=1
    fi
    kill "$sshd"
    wait "$sshd" 2>/dev/null || true
    end_daemon
}

inside() {
    local state stage i=0 ciphers=(aes256-ctr aes128-cbc chacha20-poly1305@openssh.com)
    make_place "$build"
    prepare_hooks
    expected=$(head -c 4M "$work/data" | sha256sum)
    for state in ${1:-stopped killed hung}; do
        for stage in ${2:-listener connect kex auth session transfer}; do
            try "$state" "$stage" "${ciphers[i++ % 3]}"
        done
    done
    exit "$failed"
}

if [ "${1:-}" = --inside ]; then
    shift
    inside "$@"
fi
need_root "it makes namespaces and starts cryptod and sshd"
has_places || exit 77
inside=
trap '[ -z "$inside" ] || kill -KILL "$inside" 2>/dev/null' EXIT
enter_place "${BASH_SOURCE[0]}" --inside "$@"
wait "$inside" || failed=$?
inside=
exit "$failed"
