#!/usr/bin/perl
# sink.pl: reads standard input to its end and prints "HASH BYTES FIRST GAP AT": the SHA-256 of it, how much it was, when
# the first byte came, the longest time without a byte between that and the end, and when that began. Times are
# hundredths of a second of the machine's uptime, which is the same for both ends of a transfer.
use strict;
use warnings;
use IPC::Open2;

sub now {
    open(my $f, '<', '/proc/uptime') or die "uptime: $!\n";
    return int(100 * (split ' ', <$f>)[0] + 0.5);
}

my $pid = open2(my $sum, my $hasher, 'sha256sum');
my ($bytes, $first, $gap, $at, $last) = (0, 0, 0, 0, now());
while (1) {
    my $n = sysread(STDIN, my $piece, 1 << 18);
    die "read: $!\n" unless defined $n;
    my $time = now();
    $first = $last = $time if $bytes == 0;
    ($gap, $at) = ($time - $last, $last) if $time - $last > $gap;
    $last = $time;
    last if $n == 0;
    $bytes += $n;
    print {$hasher} $piece or die "sha256sum: $!\n";
}
close($hasher);
my $hash = (split ' ', scalar <$sum>)[0];
waitpid($pid, 0);
print "$hash $bytes $first $gap $at\n";
