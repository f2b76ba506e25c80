# SPDX-License-Identifier: Apache-2.0
# Runs mpirun for tests: also on fewer cores than processes, and as root.
package Mpi;

use strict;
use warnings;
use LlmServer;
use Time::HiRes qw(time sleep);

$ENV{OMPI_ALLOW_RUN_AS_ROOT} = $ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} = 1;    # its help, too

# Why tests of it are skipped; undef if they are not.
sub missing {
    return 'configure found no MPI' unless -e LlmServer::built('.libs/ranks_mpi.so');
    return 'there is no mpirun (on Debian: apt-get install openmpi-bin)' if system('command -v mpirun >/dev/null 2>&1') != 0;
    return 'ThreadSanitizer does not know MPI' if qx(nm -D '@{[LlmServer::built('llmserve')]}' 2>&1) =~ /__tsan_/;
    return 'servers run under another program' if LlmServer::under();
    return;
}

# The option that makes mpirun leave the others alone when one dies: Open MPI's, up to 4.
sub recovery {
    return qx(mpirun --help recovery 2>&1; mpirun --help 2>&1) =~ /--?enable-recovery/ ? ('--enable-recovery') : ();
}

# Starts n processes of what follows, with more for mpirun.
sub run {
    my ($n, @more) = @_;
    $ENV{OMPI_MCA_rmaps_base_oversubscribe} = 1;
    $ENV{PRTE_MCA_rmaps_default_mapping_policy} = ':oversubscribe';
    $ENV{OMPI_MCA_hwloc_base_binding_policy} = 'none';
    $ENV{OMPI_MCA_btl_vader_single_copy_mechanism} = 'none';    # containers forbid it
    $ENV{HWLOC_COMPONENTS} = '-pci';    # else each process reads pci.ids where that is installed: 2 s under ASan
    $ENV{ASAN_OPTIONS} = ($ENV{ASAN_OPTIONS} // '') . ':detect_leaks=0';    # Open MPI's
    return ('mpirun', @more, '-n', $n);
}

# The processes that mpirun has started, in the order of their numbers, by the environment that it gave them.
sub pids {
    my ($server) = @_;
    my %of;
    for my $pid (split ' ', qx(ps -o pid= --ppid $server->{pid})) {
        my ($number) = LlmServer::read_file("/proc/$pid/environ") =~ /(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)/;
        $of{$number} = $pid if defined $number;
    }
    return map { $of{$_} } sort { $a <=> $b } keys %of;
}

sub all_gone {
    my @pids = @_;
    my $deadline = time + $LlmServer::TIMEOUT;
    while (time < $deadline) {
        return 1 unless grep { kill 0, $_ } @pids;
        sleep 0.05;
    }
    return 0;
}

# Process 0 is told to end.
sub ends {
    my ($server, @pids) = @_;
    kill 'TERM', $pids[0];
    $server->wait_for_end;
    Test::More::ok(all_gone(@pids), '  it ends, and no process is left');
    return;
}

# Blocks are given back when the other side has heard so.
sub memory_is_back {
    my ($server) = @_;
    my $all = $server->metric('llmserve_cache_units{tier="device"}');
    Test::More::ok($server->metric_becomes('llmserve_cache_units_free{tier="device"}', $all), '  all memory is back');
    return;
}

# Reads the answers to what was asked on sockets in turn of these tokens: how many are whole, have an error that says
# that they are lost, or are neither.
sub tally {
    my ($sockets, $ids, $says_lost) = @_;
    my ($whole, $lost, $odd) = (0, 0, 0);
    for my $i (0 .. $#$sockets) {
        (my $answer = LlmServer::read_all($sockets->[$i])) =~ s/\s//g;
        my $wanted = join ',', @{ $ids->[$i % @$ids] };
        if    ($answer =~ /"token_ids":\[\Q$wanted\E\]/) { $whole++ }
        elsif ($answer =~ $says_lost)                      { $lost++ }
        else                                               { $odd++; Test::More::diag($answer) }
    }
    return ($whole, $lost, $odd);
}

1;
