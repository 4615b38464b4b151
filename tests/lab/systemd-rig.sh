# shellcheck shell=bash
# What the tests under a real systemd share; sourced by them inside the lab (uml-run.sh -S, qemu-run.sh -S). Wants
# stage, what `make install DESTDIR=STAGE` has made, and suite, the name of the tests.
# shellcheck disable=SC2034,SC2154 # failed is for who sources it; stage, suite
failed=0
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
work=$(mktemp -d)

# check NAME COMMAND...: COMMAND prints what is wrong, if anything, and succeeds. It may leave processes and descriptors.
check() {
    local name=$1 status=0
    shift
    "$@" >"$work/said" 2>&1 || status=$?
    if [ "$status" -eq 0 ] && [ ! -s "$work/said" ]; then
        echo "ok - $suite::$name"
    else
        echo "not ok - $suite::$name"
        sed 's/^/    /' "$work/said"
        journalctl --no-pager -q -n 40 -o cat -u cryptod -u ssh >&2
        failed=1
    fi
}

# until_so SECONDS COMMAND...
until_so() {
    local until=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$until" ] || { echo "never so: $*"; return 1; }
        sleep 0.3
    done
}

property() {
    systemctl show --value -p "$2" "$1"
}

serves() {
    cryptoctl status --json | jq -e '.mode == "serving"' >/dev/null
}

role_pid() {
    pgrep -f "^cryptod: $1" | head -n 1
}

# line PID KEY: a value of /proc/PID/status
line() {
    sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"
}

# install_it: what the test wants in the configuration comes on standard input
install_it() {
    cp -a "$stage/." / && systemd-sysusers cryptod.conf 2>/dev/null && systemd-tmpfiles --create cryptod.conf || echo "cannot install"
    cat >/etc/cryptod/cryptod.conf
    systemctl daemon-reload
    systemd-analyze verify cryptod.service cryptod.socket 2>&1 | grep -i cryptod
    true
}

start() {
    systemctl start cryptod.socket cryptod.service || systemctl status --no-pager cryptod.service
    [ "$(property cryptod.service ActiveState)" = active ] || echo "not active"
    case $(property cryptod.service StatusText) in Serving*) ;; *) echo "says: $(property cryptod.service StatusText)" ;; esac
    systemctl status --no-pager cryptod.service >/dev/null || echo "systemctl status fails"
    serves || echo "cryptoctl status fails"
}

ssh_here() {
    ssh -q -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes -i "$work/key" root@localhost "$@"
}

ssh_start() {
    ssh-keygen -A >/dev/null
    mkdir -p /root/.ssh && chmod 700 /root/.ssh
    ssh-keygen -q -t ed25519 -N '' -f "$work/key"
    cat "$work/key.pub" >>/root/.ssh/authorized_keys
    chmod 600 /root/.ssh/authorized_keys
    mv /root/.bashrc /root/.profile "$work/" 2>/dev/null
    systemctl reset-failed ssh.service 2>/dev/null
    systemctl start ssh.service || systemctl status --no-pager ssh.service
    case $(property ssh.service Environment) in
    *OPENSSL_CONF=/etc/cryptod/openssl-sshd.cnf*) ;;
    *) echo "the drop-in does not reach sshd" ;;
    esac
}
