# The logins of the campaign: each is one ssh with one transfer, chosen at random, and its result is judged here.
#
# A stall is a time without a byte in which the transfer's processes were not just waiting for a CPU: on a machine that has
# other things to do they wait for that, whoever encrypts (/proc/PID/schedstat says how long). Where the campaign itself,
# which wakes fifty times a second, did not come to its turn, nobody did.
package Logins;
use strict;
use warnings;
use Host;

use constant {
    STALL_S  => 2,   # longest time without a byte in a transfer
    LOGIN_S  => 4,   # longest time from the start of ssh to the first byte
    PARTS    => 24,
    SAMPLE_S => 0.2,
    LATE_S   => 0.5,
};

my ($work, $logs) = @ENV{qw(SOAK_WORK SOAK_LOGS)};
my @ciphers = (
    ('aes128-ctr', 'aes256-ctr', 'aes128-cbc', 'aes256-cbc') x 3,
    ('chacha20-poly1305@openssh.com') x 3,
    'aes192-ctr', 'aes192-cbc', '3des-cbc', 'aes128-gcm@openssh.com', 'aes256-gcm@openssh.com'
);

sub new {
    my ($class) = @_;
    my $self = bless {
        started => 0, running => {}, failed => 0, corrupt => 0, stalls => 0, bytes => 0,
        slowest_login => 0, longest_gap => 0, starved => 0, sample_at => 0, turn_at => 0, late => [], parts => [],
    }, $class;
    my $size = -s "$work/data";
    for (1 .. PARTS) {
        my $bytes = 200000 + int(3.0e6 * rand() ** 2) + int rand 70000;
        my $offset = int rand($size - $bytes);
        my ($hash) = split ' ', scalar `perl $work/tools/source.pl $work/data $offset $bytes 1000000 0 | sha256sum`;
        push @{$self->{parts}}, {offset => $offset, bytes => $bytes, hash => $hash};
    }
    return $self;
}

sub start {
    my ($self) = @_;
    my $number = ++$self->{started};
    my $part = $self->{parts}[rand PARTS];
    my @words = (
        (qw(get put echo))[rand 3],
        (qw(root soak soak))[rand 3],
        $ciphers[rand @ciphers],
        (qw(plain plain plain provider))[rand 4],
        @{$part}{qw(offset bytes)},
        32768 * (1 + int rand 12),
        (0.01, 0.03, 0.08)[rand 3]
    );
    my $base = "$logs/login-$number";
    my $pid = fork();
    die "fork: $!\n" unless defined $pid;
    if ($pid == 0) {
        open(STDIN, '<', '/dev/null');
        open(STDOUT, '>', "$base.log");
        open(STDERR, '>&', \*STDOUT);
        exec("$work/tools/login.sh", "$base.result", @words) or POSIX::_exit(127);
    }
    $self->{running}{$pid} = {number => $number, words => "@words", part => $part, base => $base, since => Host::now()};
}

# What is wrong with a login: [kind, text] ...
sub judge {
    my ($self, $login, $status) = @_;
    my $part = $login->{part};
    return ['failed', sprintf 'status %d: %s', $status >> 8, Host::slurp("$login->{base}.log")] if $status != 0;
    my ($hash, $bytes, $first, $gap, $at) = split ' ', Host::slurp("$login->{base}.result");
    return ['failed', 'no result'] unless defined $at;
    my @wrong;
    push @wrong, ['corrupt', "$bytes of $part->{bytes} bytes, $hash for $part->{hash}"]
        if $hash ne $part->{hash} || $bytes != $part->{bytes};
    push @wrong, $self->judge_wait($login, 'without a byte', $at / 100, $gap / 100, STALL_S, \$self->{longest_gap});
    push @wrong, $self->judge_wait($login, 'to log in', $login->{since}, $first / 100 - $login->{since}, LOGIN_S,
        \$self->{slowest_login});
    $self->{bytes} += $bytes;
    return @wrong;
}

# A wait of SECONDS from SINCE on, of which MOST are allowed.
sub judge_wait {
    my ($self, $login, $what, $since, $seconds, $most, $longest) = @_;
    my $starved = 0;
    if ($seconds > $most) {
        my $samples = $login->{samples};
        my ($before) = grep { $_->[0] <= $since } reverse @$samples;
        my ($after) = grep { $_->[0] >= $since + $seconds } @$samples;
        $after ||= $samples->[-1];
        $starved = $after->[1] - ($before ? $before->[1] : 0) if $after;
        my $late = $self->lateness($since, $since + $seconds);
        $starved = $late if $late > $starved;
        $self->{starved}++ if $seconds - $starved <= $most;
    }
    $$longest = $seconds - $starved if $seconds - $starved > $$longest;
    return () if $seconds - $starved <= $most;
    return ['stalls', sprintf '%.2f s %s from %.2f on, and %.2f s without a CPU', $seconds - $starved, $what, $since, $starved];
}

# ---------------------------------------------------------------- waiting for a CPU

# How much of this time the campaign itself was late.
sub lateness {
    my ($self, $from, $to) = @_;
    my $sum = 0;
    for my $late (@{$self->{late}}) {
        my ($begin, $end) = ($late->[0] > $from ? $late->[0] : $from, $late->[1] < $to ? $late->[1] : $to);
        $sum += $end - $begin if $end > $begin;
    }
    return $sum;
}

# At each turn of the campaign, before it does anything else: notes how long each login's processes have waited for a CPU
# so far.
sub sample {
    my ($self, $sshd) = @_;
    my $now = Host::now();
    push @{$self->{late}}, [$self->{turn_at}, $now] if $self->{turn_at} && $now - $self->{turn_at} > LATE_S;
    $self->{turn_at} = $now;
    return if $now < $self->{sample_at};
    $self->{sample_at} = $now + SAMPLE_S;
    my $processes = Host::processes();
    my $children = Host::family($processes);
    for my $pid (keys %{$self->{running}}) {
        my $login = $self->{running}{$pid};
        $login->{server} ||= server_of($processes, $children, $pid, $sshd);
        for my $one (map { ($_, Host::descendants($children, $_)) } grep { $_ } ($pid, $login->{server})) {
            $login->{delays}{$one} = Host::cpu_delay($one) || $login->{delays}{$one} || 0;
        }
        my $sum = 0;
        $sum += $_ for values %{$login->{delays}};
        push @{$login->{samples}}, [$now, $sum];
    }
}

# The listener's child at the other end of a login's connection.
sub server_of {
    my ($processes, $children, $pid, $sshd) = @_;
    my ($client) = grep { $processes->{$_}{comm} eq 'ssh' } Host::descendants($children, $pid);
    return 0 unless $client;
    my %other_end = Host::connections();
    my ($peer) = grep { $_ } map { $other_end{$_} } Host::sockets($client);
    return 0 unless $peer;
    for my $top (@{$children->{$sshd} || []}) {
        return $top if grep { $_ == $peer } Host::sockets($top);
    }
    return 0;
}

# ---------------------------------------------------------------- ends

# The process PID was reaped: was it a login? The campaign hears what was wrong with it.
sub has_ended {
    my ($self, $pid, $status, $campaign) = @_;
    my $login = delete $self->{running}{$pid} or return 0;
    my @wrong = $campaign->is_own_death($login->{server}) ? () : $self->judge($login, $status);
    for (@wrong) {
        $self->{$_->[0]}++;
        $campaign->complain($_->[0], sprintf 'login %d (%s), begun at %.2f: %s', @{$login}{qw(number words since)}, $_->[1]);
    }
    unlink("$login->{base}.log", "$login->{base}.result") unless @wrong;
    return 1;
}

sub running { return scalar keys %{$_[0]{running}} }

1;
