#!/usr/bin/perl
# source.pl FILE OFFSET BYTES BURST PAUSE: writes a part of FILE to standard output, BURST bytes at a time, PAUSE seconds
# between them, so that a transfer lasts long enough for something to happen to it.
use strict;
use warnings;

my ($file, $offset, $left, $burst, $pause) = @ARGV;
open(my $in, '<:raw', $file) or die "$file: $!\n";
sysseek($in, $offset, 0) or die "$file: $!\n";
while ($left > 0) {
    my $n = sysread($in, my $piece, $left < $burst ? $left : $burst);
    die "$file: " . ($! || 'too short') . "\n" unless $n;
    $left -= $n;
    for (my $done = 0; $done < $n;) {
        my $m = syswrite(STDOUT, $piece, $n - $done, $done);
        die "write: $!\n" unless defined $m;
        $done += $m;
    }
    select(undef, undef, undef, $pause) if $left > 0;
}
