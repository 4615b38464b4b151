#!/usr/bin/perl
# campaign.pl [--tap]: the campaign itself; tools/soak.sh has made the place for it. It is the first process of its
# namespace, so whatever is left of anybody ends up here, and everything ends with it.
#
# Rounds: logins run, so many at a time, while faults strike at random; then no new login begins, what was done is undone,
# and when the last session has ended everything must be as it was (Quiet.pm). Every other round is gentle: no process of
# the daemon dies in it, so that what leaks adds up.
use strict;
use warnings;
use POSIX ();
use Host;
use Daemon;
use Faults;
use Logins;
use Quiet;

use constant {
    ROUND_FAULTS  => 25,
    FAULT_EVERY_S => 0.75,
    DAEMON_MIB    => 64,
    SESSIONS_S    => 20, # for the last sessions to end, once their clients have
};

package Campaign;

sub new {
    my ($class) = @_;
    return bless {
        sshd => $ENV{SOAK_SSHD}, later => [], rested => {}, own_deaths => {}, forgiven => 0, faults => 0, leaks => 0, kills => 0,
        fault_counts => {}, log_at => 0, order_turn => 0, hung => 0,
    }, $class;
}

sub later {
    my ($self, $seconds, $what) = @_;
    push @{$self->{later}}, [Host::now() + $seconds, $what];
}

sub note {
    my ($self, $text) = @_;
    printf {$self->{events}} "%.2f %s\n", Host::now(), $text;
}

# A failure: shown, with what is needed to look into it.
sub complain {
    my ($self, $kind, $text) = @_;
    chomp $text;
    $self->note("FAILURE $kind: $text");
    printf "soak: %s at %.2f, seed %s, last fault %s: %s\n", $kind, Host::now(), $ENV{SOAK_SEED},
        $self->{last_fault} || 'none', $text;
}

# A process that the sandbox has killed. sshd's monitor sees the end of the connection to its child and exits, so the
# child's status comes here; a monitor that waited for it logs it instead.
sub note_kill {
    my ($self, $text) = @_;
    $self->{kills}++;
    $self->complain('kills', $text);
}

# PID: an orphan that ended by SIGSYS.
sub take_kill {
    my ($self, $pid) = @_;
    return $self->note_kill("process $pid of sshd ended by SIGSYS") unless $self->{own_deaths}{$pid};
    $self->{forgiven}++;
    $self->note("process $pid of sshd died of its own sleep");
}

# Whether a login's connection (the listener's child) ended by such a death.
sub is_own_death {
    my ($self, $server) = @_;
    return $server && grep { $_ == $server } values %{$self->{own_deaths}};
}

sub look_for_kills {
    my ($self) = @_;
    open(my $log, '<', "$ENV{SOAK_LOGS}/sshd.log") or die "sshd.log: $!\n";
    seek($log, $self->{log_at}, 0);
    while (<$log>) {
        $self->note_kill($_) if /terminated by signal (\d+)/ && $1 == POSIX::SIGSYS();
    }
    $self->{log_at} = tell($log);
}

# One turn of everything that goes on by itself.
sub turn {
    my ($self) = @_;
    $self->{logins}->sample($self->{sshd});
    while ((my $pid = waitpid(-1, POSIX::WNOHANG())) > 0) {
        my $status = $?;
        $self->take_kill($pid) if ($status & 127) == POSIX::SIGSYS();
        next if $self->{daemon}->has_ended($pid);
        next if $self->{logins}->has_ended($pid, $status, $self);
        die "soak: sshd's listener ended with status $status\n" if $pid == $self->{sshd};
    }
    my $now = Host::now();
    my @due = grep { $_->[0] <= $now } @{$self->{later}};
    $self->{later} = [grep { $_->[0] > $now } @{$self->{later}}];
    $_->[1]->() for @due;
    my $wrong = $self->{daemon}->tend();
    if ($wrong) {
        $self->{leaks}++;
        $self->complain('leaks', $wrong);
    }
}

sub strike {
    my ($self, $gentle) = @_;
    my ($name, $what) = Faults::strike($self, $gentle);
    return 0 unless $what;
    $self->{faults}++;
    $self->{fault_counts}{$name}++;
    $self->{last_fault} = "$name ($what)";
    $self->note("fault $self->{faults} $name: $what");
    return 1;
}

# One round: at least one of the two budgets is used up by as much.
sub round {
    my ($self, $gentle) = @_;
    my ($logins, $parallel) = ($self->{logins}, $ENV{SOAK_PARALLEL} || 6);
    my $faults_end = $self->{faults} + main::ROUND_FAULTS;
    my $logins_end = $logins->{started} + $self->{logins_a_round};
    my $next = Host::now();
    $faults_end = $self->{faults_wanted} if $faults_end > $self->{faults_wanted};
    $logins_end = $self->{logins_wanted} if $logins_end > $self->{logins_wanted};
    while ($logins->{started} < $logins_end || $self->{faults} < $faults_end) {
        # Faults need sessions to meet: those beyond the budget are not in the way of the figures, they count too.
        $logins->start() if $logins->running() < $parallel &&
            ($logins->{started} < $logins_end || $self->{faults} < $faults_end);
        if (Host::now() >= $next && $self->{faults} < $faults_end && $self->{daemon}->encourage(Host::processes())) {
            $self->strike($gentle);
            $next = Host::now() + main::FAULT_EVERY_S * 2 * rand();
        }
        $self->turn();
        Host::pause(0.02);
    }
}

# Everything ends that was begun, and nothing must be left.
sub be_quiet {
    my ($self) = @_;
    while ($self->{logins}->running() > 0 || @{$self->{later}}) {
        $self->turn();
        Host::pause(0.02);
    }
    my $until = Host::now() + main::SESSIONS_S;
    while (Host::children(Host::processes(), $self->{sshd}) && Host::now() < $until) {
        $self->turn();
        Host::pause(0.02);
    }
    $self->look_for_kills();
    for my $leak ($self->{quiet}->check()) {
        $self->{leaks}++;
        $self->complain('leaks', $leak);
    }
}

sub prepare {
    my ($self) = @_;
    open($self->{events}, '>', "$ENV{SOAK_LOGS}/events") or die "events: $!\n";
    $self->{events}->autoflush(1);
    $self->{daemon} = Daemon->new($ENV{SOAK_SEED} % 2);
    $self->{daemon}->configure('');
    Host::limit_daemon_memory(main::DAEMON_MIB);
    $self->{daemon}->start();
    $self->{logins} = Logins->new();
    $self->{logins_wanted} = defined $ENV{SOAK_LOGINS} ? $ENV{SOAK_LOGINS} : 1000;
    $self->{faults_wanted} = defined $ENV{SOAK_FAULTS} ? $ENV{SOAK_FAULTS} : 1000;
    my $rounds = POSIX::ceil($self->{faults_wanted} / main::ROUND_FAULTS) || 1;
    $self->{logins_a_round} = POSIX::ceil($self->{logins_wanted} / $rounds);
}

# The first logins of each kind make what is made once: they are not compared with anything.
sub warm_up {
    my ($self) = @_;
    my $until = Host::now() + 10;
    until ($self->{daemon}->status() =~ /"serving"/) {
        die "soak: the daemon does not serve; see $ENV{SOAK_LOGS}/cryptod.log\n" if Host::now() > $until;
        $self->turn();
        Host::pause(0.1);
    }
    for (1 .. 3) {
        $self->{logins}->start();
        while ($self->{logins}->running() > 0) {
            $self->turn();
            Host::pause(0.02);
        }
    }
    die "soak: not even an undisturbed login works\n" if $self->{logins}{failed};
    $self->{quiet} = Quiet->new($self);
}

sub report {
    my ($self, $tap) = @_;
    my $logins = $self->{logins};
    my %counts = (
        failed => $logins->{failed}, corrupt => $logins->{corrupt}, stalls => $logins->{stalls},
        kills => $self->{kills}, leaks => $self->{leaks},
    );
    my @order = qw(failed corrupt stalls kills leaks);
    my $served = $self->{quiet}->served();
    printf "soak: %.0f MB transferred, at least %.0f MB by the daemon; %d starts of it; longest gap %.2f s, slowest login %.2f s\n",
        $logins->{bytes} / 1e6, $served / 1e6, $self->{daemon}{starts}, $logins->{longest_gap}, $logins->{slowest_login};
    print "soak: $self->{forgiven} sessions were stopped in a sleep of sshd's own, and died of that: not counted\n"
        if $self->{forgiven};
    print "soak: $logins->{starved} waits were for a CPU of this machine, and are not counted\n" if $logins->{starved};
    printf "soak: faults: %s\n", join ', ', map { "$self->{fault_counts}{$_} $_" } sort keys %{$self->{fault_counts}};
    # A test does not judge times: `make soak` does.
    my @judged = grep { !$tap || $_ ne 'stalls' } @order;
    my $bad = grep { $counts{$_} > 0 } @judged;
    if ($served == 0) {
        print "soak: the daemon served nothing: the campaign has shown nothing\n";
        $bad = 1;
    }
    if ($tap) {
        printf "%sok - soak::no %s\n", ($counts{$_} > 0 ? 'not ' : ''), $_ for @judged;
        print 'ok - soak::no stalls', ($counts{stalls} > 0 ? " # SKIP $counts{stalls} waits, which `make soak` judges" : ''), "\n";
        printf "%sok - soak::the daemon served\n", $served > 0 ? '' : 'not ';
    }
    printf "soak logins=%d faults=%d %s\n", $logins->{started}, $self->{faults}, join ' ', map { "$_=$counts{$_}" } @order;
    return $bad ? 1 : 0;
}

package main;

$| = 1;
$SIG{$_} = sub { exit 130 } for qw(INT TERM HUP); # the first process of a namespace ignores what it does not handle
srand($ENV{SOAK_SEED});
my $campaign = Campaign->new();
printf "soak: seed %s, the daemon's socket is %s, logs in %s\n", $ENV{SOAK_SEED},
    $ENV{SOAK_SEED} % 2 ? 'passed to it' : 'its own', $ENV{SOAK_LOGS};
$campaign->prepare();
$campaign->warm_up();
for (my $round = 0; $campaign->{logins}{started} < $campaign->{logins_wanted} ||
     $campaign->{faults} < $campaign->{faults_wanted}; $round++) {
    $campaign->round($round % 2);
    $campaign->be_quiet();
}
$campaign->look_for_kills();
exit $campaign->report(grep { $_ eq '--tap' } @ARGV);
