# What a bad day does. Each fault says in words what it did, or nothing if there was nothing to do it to; what has to be
# undone is undone after a while (`later`). A gentle fault leaves the daemon's processes alive.
package Faults;
use strict;
use warnings;
use Fcntl;
use Host;

use constant {SYS_pidfd_open => 434, SYS_pidfd_getfd => 438}; # the same on every architecture
use constant SESSION_REST_S => 3; # a session that was stopped is left alone for so long: our stops are no stall

my $work = $ENV{SOAK_WORK};

# name, weight, whether it is gentle, what it does
my @table = (
    ['kill-monitor',  2, 0, sub { kill_role($_[0], 'monitor') }],
    ['kill-front',    4, 0, sub { kill_role($_[0], 'front') }],
    ['kill-engine',   6, 0, sub { kill_role($_[0], 'engine') }],
    ['stop-monitor',  2, 1, sub { stop_role($_[0], 'monitor', 2.5) }],
    ['stop-front',    5, 0, sub { stop_role($_[0], 'front', 3) }],
    ['stop-engine',   6, 0, sub { stop_role($_[0], 'engine', 3) }],
    ['stop-short',    4, 1, sub { stop_role($_[0], (qw(front engine))[rand 2], 0.6) }],
    ['restart',       4, 0, \&restart],
    ['reload',        3, 1, \&reload],
    ['fill-shm',      3, 1, \&fill_shm],
    ['fill-memory',   3, 0, \&fill_memory],
    ['fail',          6, 1, sub { order($_[0], "error_every=" . (1 + int rand 6)) }],
    ['fail-all',      2, 1, sub { order($_[0], (qw(error_after=0 error_after=20 open_error))[rand 3]) }],
    ['delay',         5, 1, sub { order($_[0], "delay_ms=" . (20, 100, 400, 3000)[rand 4]) }],
    ['hang',          3, 0, sub { order($_[0], "hang_after=" . int rand 30) }],
    ['wrong',         3, 1, sub { order($_[0], "wrong_every=" . (1 + int rand 40)) }],
    ['descriptors',   5, 0, \&take_descriptors],
    ['cut',           5, 0, sub { cut_role($_[0], (qw(front engine))[rand 2]) }],
    ['cut-session',   4, 1, \&cut_session],
    ['stop-session', 25, 1, \&stop_session],
);

sub names { return map { $_->[0] } @table }

# One at random: its name and what it did. In a gentle round only those.
sub strike {
    my ($campaign, $gentle) = @_;
    my %wanted = map { $_ => 1 } split ' ', $ENV{SOAK_FAULT_KINDS} || join ' ', names();
    my @choice = grep { $wanted{$_->[0]} && ($_->[2] || !$gentle) } @table;
    @choice = grep { $wanted{$_->[0]} } @table unless @choice;
    my $sum = 0;
    $sum += $_->[1] for @choice;
    my $at = rand($sum);
    for my $fault (@choice) {
        return ($fault->[0], $fault->[3]->($campaign)) if ($at -= $fault->[1]) < 0;
    }
    return ('', '');
}

# ---------------------------------------------------------------- the daemon's processes

sub pid_of {
    my ($campaign, $role) = @_;
    my %roles = $campaign->{daemon}->roles(Host::processes());
    return $roles{$role} || 0;
}

sub kill_role {
    my ($campaign, $role) = @_;
    my $pid = pid_of($campaign, $role) or return '';
    kill('KILL', $pid);
    return "$role $pid";
}

# Skewed to short ones, below and around the deadline.
sub stop_role {
    my ($campaign, $role, $most) = @_;
    my $pid = pid_of($campaign, $role) or return '';
    my $seconds = 0.02 + $most * rand() ** 2;
    kill('STOP', $pid);
    $campaign->later($seconds, sub { kill('CONT', $pid) });
    return sprintf '%s %d for %.2f s', $role, $pid, $seconds;
}

sub restart {
    my ($campaign) = @_;
    $campaign->{daemon}->stop();
    return 'service';
}

sub reload {
    my ($campaign) = @_;
    $campaign->{daemon}->reload();
    return 'service';
}

# ---------------------------------------------------------------- memory

# Writes to a file in /dev/shm until nothing more fits or the kernel ends it; the file stays for a while.
sub fill {
    my ($campaign, $name, $inside) = @_;
    my $pid = fork();
    return '' unless defined $pid;
    if ($pid == 0) {
        eval { Host::enter_daemon_cgroup(); Host::write_file('/proc/self/oom_score_adj', 1000) } if $inside;
        open(my $f, '>:raw', "/dev/shm/$name") or POSIX::_exit(1);
        1 while syswrite($f, "\0" x 65536);
        POSIX::_exit(0);
    }
    my $seconds = 0.3 + rand(1.5);
    $campaign->later($seconds, sub { kill('KILL', $pid); unlink("/dev/shm/$name") });
    return sprintf 'for %.2f s', $seconds;
}

sub fill_shm {
    my ($campaign) = @_;
    return fill($campaign, 'fill', 0);
}

# The daemon's cgroup has a limit: what is full then ends one of its processes. Without a cgroup the engine's address
# space is full instead.
sub fill_memory {
    my ($campaign) = @_;
    return 'cgroup ' . fill($campaign, 'fill-cgroup', 1) if $ENV{SOAK_CGROUP};
    my $role = (qw(engine front))[rand 2];
    my $pid = pid_of($campaign, $role) or return '';
    return limit($campaign, $pid, 'as', Host::slurp("/proc/$pid/statm") =~ /^(\d+)/ ? $1 * 4096 : 1 << 27) . " of $role";
}

# A limit of a running process, and its old one after a while.
sub limit {
    my ($campaign, $pid, $what, $value) = @_;
    my $old = `prlimit --pid $pid --$what --raw --noheadings --output SOFT,HARD 2>/dev/null` || '';
    return '' unless $old =~ /(\S+)\s+(\S+)/;
    my ($soft, $hard) = ($1, $2);
    my $seconds = 0.3 + rand(1.5);
    system("prlimit --pid $pid --$what=$value:$hard 2>/dev/null");
    $campaign->later($seconds, sub { system("prlimit --pid $pid --$what=$soft:$hard 2>/dev/null") });
    return sprintf '%s=%d of %d for %.2f s', $what, $value, $pid, $seconds;
}

# ---------------------------------------------------------------- descriptors

# No more, or a few more, than there are now.
sub take_descriptors {
    my ($campaign) = @_;
    my $role = (qw(front engine monitor))[rand 3];
    my $pid = pid_of($campaign, $role) or return '';
    my @open = Host::descriptors($pid);
    return @open ? "$role " . limit($campaign, $pid, 'nofile', $open[-1] + 1 + int rand 4) : '';
}

# Ends a connection under a process that holds it: what closing it from outside would do.
sub cut {
    my ($pid, $fd) = @_;
    my $pidfd = syscall(SYS_pidfd_open, $pid, 0);
    return 0 if $pidfd < 0;
    my $copy = syscall(SYS_pidfd_getfd, $pidfd, $fd, 0);
    POSIX::close($pidfd);
    return 0 if $copy < 0;
    open(my $socket, '+<&=', $copy) or return 0;
    my $done = shutdown($socket, 2);
    close($socket);
    return $done;
}

# Any of a role's sockets but the listener, which is not its own: a client's, the other role's, the monitor's.
sub cut_role {
    my ($campaign, $role) = @_;
    my $pid = pid_of($campaign, $role) or return '';
    my %files = Host::open_files($pid);
    my @sockets = grep { $files{$_} =~ /^socket:/ && $_ > 2 } keys %files;
    my ($listening) = Host::slurp('/proc/net/unix') =~ /^\S+: \S+ \S+ \S+ \S+ 01 +(\d+) \Q$work\E\/cryptod\.sock$/m;
    @sockets = sort { $a <=> $b } grep { $files{$_} ne "socket:[" . ($listening || '') . "]" } @sockets;
    return '' unless @sockets;
    my $fd = $sockets[rand @sockets];
    return cut($pid, $fd) ? "$role $pid descriptor $fd" : '';
}

# ---------------------------------------------------------------- sessions

# Processes of sshd, each with the connection (the listener's child) that it belongs to.
sub sessions {
    my ($campaign, $processes) = @_;
    my $family = Host::family($processes);
    my %of;
    for my $top (@{$family->{$campaign->{sshd}} || []}) {
        $of{$_} = $top for grep { $processes->{$_}{comm} =~ /^sshd/ } ($top, Host::descendants($family, $top));
    }
    return %of;
}

# sshd's process before login sleeps some milliseconds after a login method that failed (nanosleep; every client begins
# with the method "none"). Stopped there and continued, it dies of its own sandbox, with or without cryptod: such a
# process is not touched. There is a moment between the look and the stop, so there is a second look when it stands still:
# who is in that call then is about to die, and the death of that process, and of its login, are sshd's own. The library never sleeps so
# (tools/check-structure.sh).
my $sleep_number;

sub sleeps {
    my ($pid) = @_;
    $sleep_number = learn_sleep_number() unless defined $sleep_number;
    return Host::slurp("/proc/$pid/syscall") =~ /^$sleep_number /;
}

# The number of the system call behind the C library's nanosleep() on this architecture.
sub learn_sleep_number {
    my $pid = fork();
    exec('sleep', '60') or POSIX::_exit(127) if defined $pid && $pid == 0;
    my $number = -1;
    for (1 .. 100) {
        Host::pause(0.02);
        next unless Host::slurp("/proc/$pid/wchan") =~ /nanosleep/;
        $number = $1 if Host::slurp("/proc/$pid/syscall") =~ /^(\d+) /;
        last if $number >= 0;
    }
    kill('KILL', $pid);
    waitpid($pid, 0);
    return $number;
}

sub wait_until_stopped {
    my ($pid) = @_;
    for (1 .. 50) {
        return 1 if Host::slurp("/proc/$pid/stat") =~ /\) T /;
        Host::pause(0.002);
    }
    return 0;
}

sub stop_session {
    my ($campaign) = @_;
    my %of = sessions($campaign, Host::processes());
    my $now = Host::now();
    my @pids = sort { $a <=> $b } grep { ($campaign->{rested}{$of{$_}} || 0) < $now && !sleeps($_) } keys %of;
    return '' unless @pids;
    my $pid = $pids[rand @pids];
    my $seconds = (0.002, 0.02, 0.3, 0.8)[rand 4] * (0.5 + rand(0.5));
    my $title = Host::title($pid);
    $title =~ s/ +$//;
    $campaign->{rested}{$of{$pid}} = $now + SESSION_REST_S;
    kill('STOP', $pid);
    my $dies = $title =~ /\[(net|preauth)\]/ && wait_until_stopped($pid) && sleeps($pid);
    $campaign->{own_deaths}{$pid} = $of{$pid} if $dies;
    $campaign->later($seconds, sub { kill('CONT', $pid) });
    return sprintf '%d for %.3f s%s: %s', $pid, $seconds, $dies ? ', in a sleep of its own' : '', $title;
}

# The library's descriptors have high numbers.
sub cut_session {
    my ($campaign) = @_;
    my %of = sessions($campaign, Host::processes());
    my @pids = sort { $a <=> $b } keys %of;
    for (1 .. 5) {
        last unless @pids;
        my $pid = $pids[rand @pids];
        my %files = Host::open_files($pid);
        my @sockets = sort { $a <=> $b } grep { $_ > 64 && $files{$_} =~ /^socket:/ } keys %files;
        next unless @sockets;
        my $fd = $sockets[rand @sockets];
        return "$pid descriptor $fd: " . Host::title($pid) if cut($pid, $fd);
    }
    return '';
}

# ---------------------------------------------------------------- the backend `fault`

# Orders by a reload, so that they meet streams in the middle; after a while it works again. Who hangs does not come back:
# the service is restarted.
sub order {
    my ($campaign, $what) = @_;
    my $daemon = $campaign->{daemon};
    return '' unless pid_of($campaign, 'engine');
    my $seconds = 0.4 + rand(1.6);
    $what .= ',algorithm=' . (qw(aes-128-ctr aes-256-ctr aes-128-cbc aes-256-cbc chacha20))[rand 5] if rand() < 0.4;
    my $turn = ++$campaign->{order_turn};
    $daemon->configure($what);
    $daemon->reload();
    $campaign->later(
        $seconds,
        sub {
            return if $turn != $campaign->{order_turn}; # another order came
            $daemon->configure('');
            if ($what =~ /hang/ || $campaign->{hung}) {
                $campaign->{hung} = 0;
                $daemon->stop();
            } else {
                $daemon->reload();
            }
        }
    );
    $campaign->{hung} = 1 if $what =~ /hang/;
    return sprintf '%s for %.2f s', $what, $seconds;
}

1;
