# shellcheck shell=bash
# Debian's unmodified sshd beside the machine's own, and a daemon for it: what the demo and the figures share. Sourced
# after common.sh. FOLDER is one that only root can write to (sshd insists), and is where everything lies.

# A system user's name if it exists, else a number that nobody has.
role_user() {
    if getent passwd "$1" >/dev/null; then echo "$1"; else echo "$2"; fi
}

free_port() {
    perl -MSocket -e 'socket(my $s, AF_INET, SOCK_STREAM, 0) or die;
        bind($s, sockaddr_in(0, INADDR_LOOPBACK)) or die; print +(sockaddr_in(getsockname($s)))[0]'
}

# make_ssh_keys FOLDER: host_key, user_key, and authorized_keys for the latter
make_ssh_keys() {
    local key
    for key in host_key user_key; do
        ssh-keygen -q -t ed25519 -N '' -C '' -f "$1/$key"
    done
    cp "$1/user_key.pub" "$1/authorized_keys"
}

# write_sshd_config FOLDER NAME PORT: FOLDER/NAME, Debian's own configuration; what differs is in one drop-in. Clients
# find the host's key in FOLDER/known_hosts.
write_sshd_config() {
    local folder=$1 name=$2 port=$3
    cat >"$folder/$name-drop-in" <<END
Port $port
ListenAddress 127.0.0.1
HostKey $folder/host_key
PidFile none
AuthorizedKeysFile $folder/authorized_keys
Ciphers +3des-cbc,aes128-cbc,aes192-cbc,aes256-cbc
END
    sed "s|^Include .*|Include $folder/$name-drop-in|" /usr/share/openssh/sshd_config >"$folder/$name"
    grep -q "^Include $folder/" "$folder/$name" || die "/usr/share/openssh/sshd_config has no Include line"
    echo "[127.0.0.1]:$port $(cut -d' ' -f1,2 "$folder/host_key.pub")" >>"$folder/known_hosts"
}

# await_sshd PID PORT LOG: until it listens
await_sshd() {
    local _
    for _ in {1..200}; do
        (exec 8<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null && return
        kill -0 "$1" 2>/dev/null || break
        sleep 0.1
    done
    die "sshd did not start: $(tail -n 5 "$3")"
}

# write_openssl_conf FILE MODULE SOCKET: the shipped one, with this provider and this daemon in it
write_openssl_conf() {
    sed "/^\[cryptod_provider_cryptod\]/a module = $2\nsocket = $3" systemd/openssl-sshd.cnf >"$1"
}

# ssh_options FOLDER: options of ssh and sftp, a line each, with nothing of this machine's configuration
ssh_options() {
    printf '%s\n' -q -F none -i "$1/user_key" -o "UserKnownHostsFile=$1/known_hosts" -o BatchMode=yes \
        -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=60
}
