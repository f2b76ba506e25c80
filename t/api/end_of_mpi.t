#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A process that does not reach the end of MPI after all have agreed to end: the others do
# not wait for it forever, and not at all once it is dead.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Golden;
use Mpi;
use Test::More;
use Time::HiRes qw(time sleep);

my $missing = Mpi::missing();
plan skip_all => $missing if defined $missing;
my @RECOVER = Mpi::recovery();
plan skip_all => 'this mpirun ends all processes when one dies' unless @RECOVER;

my $library = LlmServer::built('t/api/.libs/stops_at_end.so');
my $folder  = File::Temp->newdir;
LlmServer::write_file("$folder/run", "#!/bin/sh\nif [ \"\$OMPI_COMM_WORLD_RANK\" = 1 ]; then export LD_PRELOAD='$library'; fi\nexec \"\$@\"\n");
chmod 0755, "$folder/run";
$ENV{ASAN_OPTIONS} = ($ENV{ASAN_OPTIONS} // '') . ':verify_asan_link_order=0';
Mpi::run(1);    # sets the environment

# Process 1 has stopped at the end of MPI.
sub stopped {
    my ($n, $engine) = @_;
    my $server = LlmServer->serve("[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\nrank_timeout = ${LlmServer::TIMEOUT}s\n$engine"
            . "[cache]\ndevice_memory = 1MiB\nhost_memory = 1MiB\n", undef, Mpi::run($n, @RECOVER), "$folder/run");
    my @pids = Mpi::pids($server);
    is scalar @pids, $n, "$n processes";
    kill 'TERM', $pids[0];
    my $until = time + $LlmServer::TIMEOUT;
    sleep 0.05 until time > $until || LlmServer::read_file("/proc/$pids[1]/stat") =~ /\) T /;
    cmp_ok time, '<', $until, '  one has stopped at the end of MPI';
    return [$server, @pids];
}

my %cases = ('instances' => [3, "instances = 3\n"], 'instances of ranks' => [4, "instances = 2\ntensor_parallel_size = 2\n"], 'ranks' => [2, '']);
for my $killed (0, 1) {
    my %of = map { $_ => stopped(@{ $cases{$_} }) } sort keys %cases;
    for my $case (sort keys %of) {
        my ($server, $first, $second, @rest) = @{ $of{$case} };
        kill 'KILL', $second if $killed;
        ok Mpi::all_gone($first, @rest), "$case: the others end" . ($killed ? ' where it is killed' : '');
        ok Mpi::all_gone($second), '  and it is ended, for which the launcher would wait' unless $killed;
        kill 'KILL', $first, $second, @rest, $server->{pid};
        $server->wait_for_end;
    }
}
done_testing;
