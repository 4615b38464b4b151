# The real daemon, as systemd runs it: its socket is made once and outlives it, it is started again when it dies, stopped
# with SIGTERM and, if it takes longer than the unit allows, SIGKILL.
package Daemon;
use strict;
use warnings;
use Fcntl;
use Socket;
use POSIX ();
use Host;

use constant STOP_S => 10; # TimeoutStopSec= of the unit

my ($work, $logs) = @ENV{qw(SOAK_WORK SOAK_LOGS)};
my $build = "$work/bin";
my $listener;

# HELD: whether it is passed its socket, as systemd does; else it makes it by itself.
sub new {
    my ($class, $held) = @_;
    my $self = bless {pid => 0, orders => '', held => $held, starts => 0, slow_stops => 0}, $class;
    if ($held) {
        socket($listener, AF_UNIX, SOCK_SEQPACKET, 0) or die "socket: $!\n";
        bind($listener, sockaddr_un("$work/cryptod.sock")) or die "bind: $!\n";
        chmod(0666, "$work/cryptod.sock");
        listen($listener, 128) or die "listen: $!\n";
    }
    return $self;
}

# Orders hold from the next start or reload on. verify=all: a driver that is wrong now and then is found out for certain
# only if each result is compared, and no wrong byte may get through here.
sub configure {
    my ($self, $orders) = @_;
    my $backends = $ENV{SOAK_AFALG} ? 'fault afalg cpu' : 'fault cpu';
    $self->{orders} = $orders;
    Host::write_file("$work/cryptod.conf", <<END);
[daemon]
socket = $work/cryptod.sock
state_directory = $work/state
front_user = $ENV{SOAK_FRONT_USER}
engine_user = $ENV{SOAK_ENGINE_USER}
log_level = info
ping_interval_ms = 400
ping_limit = 3
[lanes]
offload = always
[engine]
backends = $backends
fault = @{[$orders || 'delay_ms=0']}
verify = all
END
}

sub run {
    my ($self) = @_;
    Host::enter_daemon_cgroup();
    open(STDIN, '<', '/dev/null');
    open(STDOUT, '>>', "$logs/cryptod.log");
    open(STDERR, '>&', \*STDOUT);
    if ($self->{held}) {
        my $held = fileno($listener);
        if ($held == 3) { fcntl($listener, F_SETFD, 0) } else { POSIX::dup2($held, 3) }
        @ENV{qw(LISTEN_PID LISTEN_FDS)} = ($$, 1);
    }
    delete $ENV{OPENSSL_CONF};
    exec("$build/cryptod", '--config', "$work/cryptod.conf") or POSIX::_exit(127);
}

sub start {
    my ($self) = @_;
    my $pid = fork();
    die "fork: $!\n" unless defined $pid;
    $self->run() if $pid == 0;
    $self->{pid} = $pid;
    $self->{starts}++;
    $self->{missing_since} = Host::now();
}

sub reload {
    my ($self) = @_;
    kill('HUP', $self->{pid}) if $self->{pid};
}

# Begins to stop, and to start again when it has ended (see has_ended()).
sub stop {
    my ($self) = @_;
    return unless $self->{pid};
    kill('TERM', $self->{pid});
    kill('CONT', $self->{pid}); # as systemd does: one that stands still must end, too
    $self->{stop_until} = Host::now() + STOP_S;
}

# The process PID was reaped: was it ours?
sub has_ended {
    my ($self, $pid) = @_;
    return 0 unless $pid == $self->{pid};
    $self->{pid} = 0;
    delete $self->{stop_until};
    $self->{start_at} = Host::now() + 0.1 + rand(0.4);
    return 1;
}

# What systemd would do meanwhile. Text: something is wrong.
sub tend {
    my ($self) = @_;
    my $now = Host::now();
    if (!$self->{pid} && $now >= $self->{start_at}) {
        $self->start();
    } elsif ($self->{stop_until} && $now > $self->{stop_until}) {
        delete $self->{stop_until};
        kill('KILL', $self->{pid});
        return 'the daemon did not stop within ' . STOP_S . ' s';
    }
    return '';
}

# role => pid
sub roles {
    my ($self, $processes) = @_;
    my %roles;
    return %roles unless $self->{pid};
    $roles{monitor} = $self->{pid};
    for my $pid (Host::children($processes, $self->{pid})) {
        $roles{$1} = $pid if Host::title($pid) =~ /^cryptod: (front|engine)/ && $processes->{$pid}{state} ne 'Z';
    }
    return %roles;
}

# A daemon that has failed often serves without an engine until it is told to try again: the administrator's part.
# Returns whether there is an engine.
sub encourage {
    my ($self, $processes) = @_;
    my %roles = $self->roles($processes);
    my $now = Host::now();
    if ($roles{engine} && $roles{front}) {
        $self->{missing_since} = $now;
        $self->{encouraged} = 0;
        return 1;
    }
    if ($self->{pid} && $now - $self->{missing_since} > 1.2) {
        $self->{missing_since} = $now;
        if ($self->{encouraged}++ % 2 == 0) { $self->reload() } else { $self->stop() }
    }
    return 0;
}

# Of a daemon that has both roles: what it says of itself, or ''.
sub status {
    my ($self) = @_;
    local $ENV{CRYPTOD_SOCKET} = "$work/cryptod.sock";
    return scalar `timeout 5 $build/cryptoctl status --json 2>&1` || '';
}

1;
