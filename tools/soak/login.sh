#!/bin/bash
# login.sh RESULT get|put|echo USER CIPHER plain|provider OFFSET BYTES BURST PAUSE: one login and one transfer. The sink's
# line goes to RESULT, what the programs complain of to standard error; status 0 if all of them ended well.
set -u -o pipefail
result=$1 kind=$2 user=$3 cipher=$4 client=$5
part="${*:6}"
here=$SOAK_WORK/tools
mapfile -t options <"$SOAK_WORK/ssh-options"
# The client's own encryption goes through the provider at times; what it says to the daemon is one more session.
if [ "$client" = provider ]; then export OPENSSL_CONF=$SOAK_WORK/openssl-sshd.cnf; else unset OPENSSL_CONF; fi

session() {
    timeout 120 ssh "${options[@]}" -p "$SOAK_PORT" -c "$cipher" "$user@127.0.0.1" "$1"
}
send() {
    # shellcheck disable=SC2086 # four numbers
    perl "$here/source.pl" "$SOAK_WORK/data" $part
}

case $kind in
get) session "exec perl $here/source.pl $SOAK_WORK/data $part" </dev/null | perl "$here/sink.pl" >"$result" ;;
put) send | session "exec perl $here/sink.pl" >"$result" ;;
echo) send | session "exec cat" | perl "$here/sink.pl" >"$result" ;;
esac
