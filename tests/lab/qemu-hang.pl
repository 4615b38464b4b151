#!/usr/bin/perl
# qemu-hang.pl: hangs the engine of the emulated machine for good, and with it a process that it leaves behind. Linux's
# driver for virtio-crypto does so when the output of a request is fetched in two parts. (SIGKILL does not help; a reset
# does.) Succeeds once that process hangs.
use strict;
use warnings;
use POSIX ();
use Socket;

pipe(my $said, my $say) or die "pipe: $!\n";
my $child = fork() // die "fork: $!\n";
if ($child) {
    close($say);
    # It is in state D for the length of each request; for a second it is only if the engine hangs.
    for (my ($tries, $streak) = (0, 0); $tries < 300 && $streak < 10; $tries++) {
        select(undef, undef, undef, 0.1);
        open(my $status, '<', "/proc/$child/status") or die "status: $!\n";
        my ($state) = map { /^State:\s(.)/ } <$status>;
        die 'it ended: ', <$said> if $state eq 'Z';
        $streak = $state eq 'D' ? $streak + 1 : 0;
        exit 0 if $streak == 10;
    }
    kill('KILL', $child);
    die "the engine does not hang\n";
}

# The caller's pipes and files must not be held for ever.
close($said);
open(STDERR, '>&', $say) and open(STDIN, '<', '/dev/null') and open(STDOUT, '>', '/dev/null') or exit 1;
close($say);
for my $inherited (3 .. 255) {
    POSIX::close($inherited);
}

# x86-64; linux/if_alg.h
my ($SYS_read, $SYS_accept, $SYS_sendmsg) = (0, 43, 46);
my ($AF_ALG, $SOL_ALG, $SET_KEY, $SET_IV, $SET_OP, $ENCRYPT) = (38, 279, 1, 2, 3, 1);
my ($n_block, $n_bytes) = (16, 8192);

socket(my $algorithm, $AF_ALG, SOCK_SEQPACKET, 0) or die "socket: $!\n";
bind($algorithm, pack('S a14 L L a64', $AF_ALG, 'skcipher', 0, 0, 'cbc(aes)')) or die "bind: $!\n";
setsockopt($algorithm, $SOL_ALG, $SET_KEY, 'k' x $n_block) or die "key: $!\n";
my $operation = syscall($SYS_accept, fileno($algorithm), 0, 0);
die "accept: $!\n" if $operation < 0;

my $data = 'd' x $n_bytes;
my $vector = pack('P Q', $data, $n_bytes);
my $control = pack('Q l l L x4', 20, $SOL_ALG, $SET_OP, $ENCRYPT) .
    pack('Q l l L a16 x4', 36, $SOL_ALG, $SET_IV, $n_block, 'i' x $n_block);
my $message = pack('Q L x4 P Q P Q L x4', 0, 0, $vector, 1, $control, length($control), 0);
# Mostly the first time.
for (1 .. 200) {
    syscall($SYS_sendmsg, $operation, $message, 0) == $n_bytes or die "sendmsg: $!\n";
    for (1 .. 2) {
        my $half = "\0" x ($n_bytes / 2);
        syscall($SYS_read, $operation, $half, $n_bytes / 2) >= 0 or die "read: $!\n";
    }
}
die "the engine does not hang\n";
