#!/bin/bash
# setup.sh [--demo | --all]: installs the Debian packages that building, testing and the demo need; only those that are
# missing, so it is quick and works offline once they are there. --demo leaves out what only tests need, --all adds what
# `make lint` needs.
# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=(
    gcc make pkg-config libc6-dev
    libssl-dev libkcapi-dev libseccomp-dev libevent-dev libsystemd-dev libinih-dev libcap-dev # daemon
    libsmartcols-dev libjson-c-dev                                                            # cryptoctl
    libcriterion-dev openssl                                                                  # tests
    openssh-server openssh-client                                                             # the demo's programs
    kmod iproute2 procps jq perl-base mandoc
    systemd # systemd-analyze
)
[ "${1:-}" = --demo ] || packages+=(openvpn) # a program besides sshd
[ "${1:-}" = --demo ] || packages+=(build-essential debhelper dpkg-dev fakeroot lintian) # the packages
[ "${1:-}" = --demo ] || packages+=(clang libclang-rt-dev) # fuzzers
# The lab's kernels exist for these only; elsewhere what needs them is skipped. --demo does without the second.
case $(dpkg --print-architecture) in
amd64 | i386) packages+=(user-mode-linux) ;;
esac
if [ "${1:-}" != --demo ] && [ "$(dpkg --print-architecture)" = amd64 ]; then
    packages+=(qemu-system-x86 busybox-static cpio xz-utils zstd)
fi
[ "${1:-}" != --all ] ||
    packages+=(clang-format clang-tidy cppcheck shellcheck)

installed=" $(dpkg-query -W -f '${Package}:${db:Status-Status} ' "${packages[@]}" 2>/dev/null || true) "
missing=()
for package in "${packages[@]}"; do
    [[ $installed = *" $package:installed "* ]] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

[ "$(id -u)" -eq 0 ] || die "Packages are missing. As root: apt-get install ${missing[*]}"
echo "Installing: ${missing[*]}"

# A newly installed sshd shall not open port 22 of this machine because somebody tried a demo.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    case " ${missing[*]} " in
    *" openssh-server "*) echo "Note: the ssh service is installed but not started; 'systemctl disable ssh' keeps it so." ;;
    esac
fi
export DEBIAN_FRONTEND=noninteractive
install=(apt-get install -y -q --no-install-recommends "${missing[@]}")
"${install[@]}" >/dev/null 2>&1 || {
    apt-get update -q || echo "apt-get update failed; trying with what is known" >&2
    "${install[@]}" || die "Could not install the packages; look at apt's messages above."
}
