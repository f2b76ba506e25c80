#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Instances as processes, each with a GPU (the emulated one of t/simt): blocks are transferred
# through the host's memory or the GPU's, depending on [engine] blocks_by and the MPI library, INT8
# blocks too. The answers are the golden ones, all memory is released, and a killed process ends
# only its own requests. Not tested here: an MPI library that accesses a real GPU's memory. By
# NCCL: instances_nccl.t.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Emulated;
use Mpi;
use Test::More;
use Time::HiRes qw(sleep);

my $missing = Mpi::missing();
plan skip_all => $missing if defined $missing;
Emulated::install();

# It runs what follows with an MPI that says that it takes the memory of GPUs.
my $aware = Emulated::before('aware', 'export LD_PRELOAD=' . LlmServer::built('t/simt/.libs/libaware.so'));
my @ids = Emulated::golden_ids();

sub serve {
    my ($n, $roles, $blocks_by, $int8, @under) = @_;
    return Emulated::serve(roles => $roles, blocks_by => $blocks_by, int8 => $int8, gpus => join(', ', (0) x $n), under => \@under);
}

# ---- the ways ------------------------------------------------------------------------------
my ($HOST, $GPU) = (qr/blocks go to other processes in pinned host memory \(\[engine\] blocks_by\)/, qr/blocks go to other processes in GPU memory, by GPU-aware MPI/);
my @ways = (['gpu_mpi', 'off', $GPU], ['auto', 'off', $GPU, $aware], ['host', 'off', $HOST, $aware], ['auto', 'all', $GPU, $aware], ['host', 'all', $HOST]);
for my $case (LlmServer::sanitized() ? @ways[0, 4] : @ways) {
    my ($blocks_by, $int8, $way, @under) = @$case;
    my $server = serve(2, 'prefill, decode', $blocks_by, $int8, @under);
    my @pids = Mpi::pids($server);
    like $server->log, $way, "blocks_by = $blocks_by" . (@under ? ', the MPI says yes' : '') . ", int8 = $int8";
    Emulated::answers_well($server, @ids);
    is $server->metric('llmserve_handed_over_total'), 2 * @ids, '  all were handed over';
    cmp_ok $server->metric('llmserve_handed_bytes_total'), '>', 0, '  with bytes';
    Mpi::memory_is_back($server);
    Mpi::ends($server, @pids);
}

# ---- a death -------------------------------------------------------------------------------
# While blocks are on their way to two, one is killed: MPI keeps what it has of the dead one.
SKIP: {
    skip 'this mpirun ends all processes when one dies', 6 unless Mpi::recovery();
    my $server = serve(3, 'prefill, decode, decode', 'gpu_mpi', 'off');
    my @pids = Mpi::pids($server);
    my @sockets = Emulated::begin($server, 24);
    sleep 0.05 until $server->metric('llmserve_taken_over_total') > 2;
    kill 'KILL', $pids[2];
    my ($whole, $lost, $odd) = Mpi::tally(\@sockets, \@ids, qr/instance_lost/);
    is $whole + $lost, 24, "killed while blocks are on their way: $whole are whole, $lost are lost";
    is $odd, 0, '  and nothing else';
    cmp_ok $whole, '>', 0, '  the other one goes on';
    my $again = $server->post('/v1/completions', Emulated::body(0));
    is_deeply $again->{json}{choices}[0]{token_ids}, $ids[0], '  with those that come after it';
    Mpi::memory_is_back($server);
    Mpi::ends($server, @pids);
}

done_testing;
