# What has to be as it was before whenever nobody is logged in: processes, descriptors, memory, locks. A leak is what is
# still there after a while.
package Quiet;
use strict;
use warnings;
use Host;

use constant {
    SETTLE_S     => 10,
    ROLE_KIB     => 6144,    # a process may grow by so much: threads' own memory pools, pages first touched later
    SHARED_BYTES => 1048576, # counted by the kernel in batches
};

# In quiet, with a daemon that has served once: what everything is compared with from now on.
sub new {
    my ($class, $campaign) = @_;
    my $self = bless {campaign => $campaign}, $class;
    my $roles = $self->wait_for(sub { my %r = $campaign->{daemon}->roles(Host::processes()); keys %r == 3 && \%r });
    die "soak: the daemon does not start; see its log\n" unless $roles;
    Host::pause(1);
    $self->{files}{$_} = count_descriptors($roles->{$_}) for keys %$roles;
    $self->{resident}{$_} = Host::resident($roles->{$_}) for keys %$roles;
    $self->{files}{sshd} = count_descriptors($campaign->{sshd});
    $self->{resident}{sshd} = Host::resident($campaign->{sshd});
    $self->{shared} = Host::shared_memory();
    return $self;
}

sub count_descriptors {
    my @all = Host::descriptors($_[0]);
    return scalar @all;
}

sub wait_for {
    my ($self, $condition) = @_;
    my $until = Host::now() + SETTLE_S;
    my $found;
    while (!($found = $condition->())) {
        return $found if Host::now() > $until;
        Host::pause(0.05);
        $self->{campaign}->turn();
    }
    return $found;
}

# What is more than it was: texts.
sub leaks {
    my ($self) = @_;
    my $campaign = $self->{campaign};
    my $processes = Host::processes();
    my %roles = $campaign->{daemon}->roles($processes);
    my %expected = (1 => 1, $campaign->{sshd} => 1, map { $_ => 1 } values %roles);
    my @leaks = map { "process $_ (" . ($processes->{$_}{comm}) . ", state $processes->{$_}{state}): " . Host::title($_) }
        grep { !$expected{$_} } sort { $a <=> $b } keys %$processes;
    my %all = (%roles, sshd => $campaign->{sshd});
    for my $name (sort keys %all) {
        my ($pid, $files, $resident) = ($all{$name}, count_descriptors($all{$name}), Host::resident($all{$name}));
        push @leaks, "$name has $files descriptors, at first $self->{files}{$name}" if $files > $self->{files}{$name};
        push @leaks, "$name has $resident KiB, at first $self->{resident}{$name}"
            if $resident > $self->{resident}{$name} + ROLE_KIB;
        my $n = Host::client_memories($pid);
        push @leaks, "$name holds the memory of $n clients that are gone" if $n > 0;
    }
    my $shared = Host::shared_memory();
    push @leaks, "$shared bytes of shared memory, at first $self->{shared}" if $shared > $self->{shared} + SHARED_BYTES;
    my $locks = Host::slurp('/proc/locks');
    push @leaks, "a lock: $_" for grep { (split)[4] && $processes->{(split)[4]} } split /\n/, $locks;
    return @leaks;
}

# Waits for quiet and compares; returns what is leaked. The daemon has to come back by itself, or by what its
# administrator would do.
sub check {
    my ($self) = @_;
    my $campaign = $self->{campaign};
    my $daemon = $campaign->{daemon};
    return 'the daemon does not come back'
        unless $self->wait_for(sub { $daemon->encourage(Host::processes()) && $daemon->status() =~ /"serving"/ });
    my @leaks;
    $self->wait_for(sub { @leaks = $self->leaks(); !@leaks });
    $self->note_service();
    return @leaks;
}

# How much each engine has served: of those that were alive at a check.
sub note_service {
    my ($self) = @_;
    my %roles = $self->{campaign}{daemon}->roles(Host::processes());
    my $bytes = 0;
    $bytes += $_ for $self->{campaign}{daemon}->status() =~ /"bytes":\s*(\d+)/g;
    $self->{served}{$roles{engine} || 0} = $bytes;
}

sub served {
    my ($self) = @_;
    my $sum = 0;
    $sum += $_ for values %{$self->{served} || {}};
    return $sum;
}

1;
