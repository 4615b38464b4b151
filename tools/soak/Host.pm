# What the campaign knows of the machine: time, processes, descriptors, memory, the cgroup. Only reads; what is done to
# processes is in Faults.pm.
package Host;
use strict;
use warnings;

my $cgroup = $ENV{SOAK_CGROUP};

sub slurp {
    my ($path) = @_;
    open(my $f, '<', $path) or return '';
    local $/;
    my $text = <$f>;
    return defined $text ? $text : '';
}

# Seconds, of a clock that nobody sets.
sub now {
    return (split ' ', slurp('/proc/uptime'))[0];
}

sub pause {
    select(undef, undef, undef, $_[0]);
}

# pid => {ppid, comm, state, start} of every process of the campaign's namespace.
sub processes {
    my %found;
    opendir(my $d, '/proc') or die "proc: $!\n";
    for my $pid (grep { /^\d+$/ } readdir $d) {
        my $stat = slurp("/proc/$pid/stat");
        next unless $stat =~ /^\d+ \((.*)\) (\S) (\d+)/s;
        $found{$pid} = {comm => $1, state => $2, ppid => $3};
    }
    return \%found;
}

sub title {
    my $text = slurp("/proc/$_[0]/cmdline");
    $text =~ s/\0/ /g;
    return $text;
}

# pid => [its children]
sub family {
    my ($processes) = @_;
    my %children;
    push @{$children{$processes->{$_}{ppid}}}, $_ for sort { $a <=> $b } keys %$processes;
    return \%children;
}

sub children {
    my ($processes, $parent) = @_;
    return sort { $a <=> $b } grep { $processes->{$_}{ppid} == $parent } keys %$processes;
}

# FAMILY: as from family()
sub descendants {
    my ($family, $parent) = @_;
    return map { ($_, descendants($family, $_)) } @{$family->{$parent} || []};
}

# Seconds that a process has waited for a CPU so far.
sub cpu_delay {
    return (split ' ', slurp("/proc/$_[0]/schedstat") || '0 0')[1] / 1e9;
}

sub descriptors {
    my ($pid) = @_;
    opendir(my $d, "/proc/$pid/fd") or return ();
    return sort { $a <=> $b } grep { /^\d+$/ } readdir $d;
}

# Descriptor => what it is.
sub open_files {
    my ($pid) = @_;
    return map { $_ => (readlink("/proc/$pid/fd/$_") || '') } descriptors($pid);
}

# Inodes of a process's sockets.
sub sockets {
    my %files = open_files($_[0]);
    return map { /^socket:\[(\d+)\]/ ? $1 : () } values %files;
}

# Inode of one end of each TCP connection => inode of the other.
sub connections {
    my (%inode, %other_end);
    for (split /\n/, slurp('/proc/net/tcp')) {
        my @word = split;
        $inode{"$word[1] $word[2]"} = $word[9] if @word > 9 && $word[9] =~ /^\d+$/ && $word[9] > 0;
    }
    for my $pair (keys %inode) {
        my $reverse = join ' ', reverse split ' ', $pair;
        $other_end{$inode{$pair}} = $inode{$reverse} if $inode{$reverse};
    }
    return %other_end;
}

# KiB
sub resident {
    return slurp("/proc/$_[0]/status") =~ /^VmRSS:\s+(\d+)/m ? $1 : 0;
}

# How many shared memories of clients a process has, mapped or as a descriptor.
sub client_memories {
    my ($pid) = @_;
    my %files = open_files($pid);
    my $n = () = slurp("/proc/$pid/maps") =~ /memfd:cryptod/g;
    return $n + grep { /memfd:cryptod/ } values %files;
}

# Bytes of shared memory that all processes of the campaign have together, files in its /dev/shm and /run included; -1:
# not known here.
sub shared_memory {
    return -1 unless $cgroup;
    my $text = slurp("$cgroup/memory.stat");
    return $1 if $text =~ /^total_shmem (\d+)/m;
    return $text =~ /^shmem (\d+)/m ? $1 : -1;
}

sub write_file {
    my ($path, $text) = @_;
    open(my $f, '>', $path) or die "$path: $!\n";
    print {$f} $text;
    close($f) or die "$path: $!\n";
}

# Puts the calling process into the daemon's cgroup, and bounds that. MIB: undef for no limit.
sub enter_daemon_cgroup {
    write_file("$cgroup/daemon/cgroup.procs", '0') if $cgroup;
}

sub limit_daemon_memory {
    my ($mib) = @_;
    return 0 unless $cgroup;
    my $bytes = $mib * 1048576;
    for my $file ('memory.max', 'memory.limit_in_bytes') {
        next unless -e "$cgroup/daemon/$file";
        write_file("$cgroup/daemon/$file", $bytes);
        eval { write_file("$cgroup/daemon/memory.swap.max", 0) } if -e "$cgroup/daemon/memory.swap.max";
        return 1;
    }
    return 0;
}

1;
