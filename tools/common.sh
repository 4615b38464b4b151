# shellcheck shell=bash
# What the scripts share. Sourced; sets -eu and goes to the project's folder.
set -eu
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$project"

die() {
    echo "$*" >&2
    exit 1
}

# need_root WHAT-FOR
need_root() {
    [ "$(id -u)" -eq 0 ] || die "This needs root ($1). Run it again as root, for example with sudo."
}

# Whether this kernel encrypts for us through AF_ALG: a socket can be made and bound to a cipher.
has_afalg() {
    modprobe -qa af_alg algif_skcipher 2>/dev/null || true
    perl -MSocket -e '
        my ($AF_ALG, $SOCK_SEQPACKET) = (38, 5);
        socket(my $s, $AF_ALG, $SOCK_SEQPACKET, 0) or exit 1;
        bind($s, pack("S a14 L L a64", $AF_ALG, "skcipher", 0, 0, "cbc(aes)")) or exit 1;' 2>/dev/null
}

# Milliseconds of a clock.
now_ms() {
    echo $((${EPOCHREALTIME/[.,]/} / 1000))
}
