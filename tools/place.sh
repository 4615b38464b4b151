# shellcheck shell=bash
# A place of one's own for tests that do bad things to a daemon and an sshd: own mounts, processes and network, a user of
# its own, both programs' files in one folder. All of it ends with its first process. Sourced after common.sh and sshd.sh.
# shellcheck disable=SC2034,SC2154 # what the scripts share

work=/run/cryptod-place # in a file system that only this place sees
place_port=2222

# Whether namespaces can be made here; says why not.
has_places() {
    unshare --mount --net --pid --fork --mount-proc true 2>/dev/null && return
    echo "this machine lets nobody make namespaces, and without them its own sshd would be touched" >&2
    return 1
}

# enter_place SCRIPT ARGUMENT...: runs the script as the first process of a new place; sets `inside` to what to kill. With
# --kill-child the kernel ends everything if this process is killed.
enter_place() {
    unshare --mount --net --pid --fork --kill-child --mount-proc "$@" </dev/null &
    inside=$!
}

# A user of this mount namespace alone, so that sessions change their user as on a real machine. Root's home is elsewhere
# too: what its own shell does at the start of a session is not the subject.
make_user() {
    local file
    for file in passwd group shadow; do cp -p "/etc/$file" "$work/$file"; done
    echo "soak:x:61995:61995::$work/home:/bin/sh" >>"$work/passwd"
    echo "soak:x:61995:" >>"$work/group"
    echo "soak:*:19000:0:99999:7:::" >>"$work/shadow"
    sed -i "s|^root:.*|root:x:0:0::$work:/bin/sh|" "$work/passwd"
    for file in passwd group shadow; do mount --bind "$work/$file" "/etc/$file"; done
    mkdir "$work/home"
    chown 61995:61995 "$work/home"
}

# make_place BUILD: mounts, network, user, the built programs in $work/bin (a build may go on meanwhile), keys, and the
# configurations of sshd and of OpenSSL with the provider.
make_place() {
    mount --make-rprivate /
    mount -t tmpfs -o mode=755 tmpfs /run
    mount -t tmpfs -o mode=1777,size=128m tmpfs /dev/shm
    ip link set lo up
    mkdir -m 755 "$work" "$work/tools" "$work/bin" /run/sshd
    cp "$1"/cryptod "$1"/cryptod.so "$1"/libcryptod.so.0 "$1"/cryptoctl "$work/bin"
    make_user
    make_ssh_keys "$work"
    write_sshd_config "$work" sshd_config "$place_port"
    printf 'LogLevel VERBOSE\nMaxStartups 100\n' >>"$work/sshd_config-drop-in"
    write_openssl_conf "$work/openssl-sshd.cnf" "$work/bin/cryptod.so" "$work/cryptod.sock"
    head -c 16M /dev/urandom >"$work/data"
    chmod 644 "$work/data"
    ssh_options "$work" | grep -v '^-q$' >"$work/ssh-options"
}

# start_place_sshd LOG: sets sshd, its process
start_place_sshd() {
    OPENSSL_CONF=$work/openssl-sshd.cnf /usr/sbin/sshd -D -f "$work/sshd_config" -E "$1" &
    sshd=$!
    await_sshd "$sshd" "$place_port" "$1"
}
