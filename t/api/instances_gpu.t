#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Instances as processes, each with a GPU (the emulated one of t/simt): blocks cross in the host's
# memory or in the GPU's, as [engine] gpu_aware_mpi and the MPI say, INT8 ones too. The answers are the
# golden ones, all memory comes back, and a process that is killed takes its own requests with it.
# That MPI itself reaches a real GPU's memory is not shown here.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Golden;
use Mpi;
use File::Copy;
use File::Temp;
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep);

my $missing = Mpi::missing();
plan skip_all => $missing if defined $missing;

my @golden  = @Golden::ANSWERS;
my @RECOVER = Mpi::recovery();
my $folder  = File::Temp->newdir;
my $module  = LlmServer::built('t/simt/.libs/device_cuda.so');
copy($module, "$folder/device_cuda.so") or die "$module: $!";
$ENV{LLS_PLUGIN_PATH} = "$folder:$ENV{LLS_PLUGIN_PATH}";
$ENV{LD_LIBRARY_PATH} = LlmServer::built('t/simt/.libs');
$ENV{ASAN_OPTIONS}    = ($ENV{ASAN_OPTIONS} // '') . ':verify_asan_link_order=0';

# A program that runs what follows with an MPI that says that it takes the memory of GPUs.
my $aware = "$folder/aware";
LlmServer::write_file($aware, "#!/bin/sh\nLD_PRELOAD=" . LlmServer::built('t/simt/.libs/libaware.so') . " exec \"\$@\"\n");
chmod 0755, $aware;

sub serve {
    my ($n, $roles, $gpu_aware, $int8, @under) = @_;
    return LlmServer->serve("[model]\npath = $Golden::MODEL\n[engine]\ndevice = cuda\nthreads = 1\npin = false\nrank_timeout = ${LlmServer::TIMEOUT}s\n"
        . "max_step_tokens = 64\nmax_sequences = 8\nroles = $roles\ngpu_aware_mpi = $gpu_aware\ngpus = " . join(', ', (0) x $n) . "\n"
        . "[cache]\ndevice_memory = 2MiB\nblock_tokens = 16\nint8 = $int8\n[plugins]\nscheduler = distserve\ncache = tiered\n",
        undef, Mpi::run($n, @RECOVER), @under);
}

my $n = 12;    # tokens of an answer

# ---- the ways ------------------------------------------------------------------------------
my ($HOST, $GPU) = (qr/blocks go to other processes in pinned host memory \(\[engine\] gpu_aware_mpi\)/, qr/blocks go to other processes in GPU memory, by GPU-aware MPI/);
for my $case (['on', 'off', $GPU], ['auto', 'off', $GPU, $aware], ['off', 'off', $HOST, $aware], ['auto', 'all', $GPU, $aware], ['off', 'all', $HOST]) {
    my ($gpu_aware, $int8, $way, @under) = @$case;
    my $server = serve(2, 'prefill, decode', $gpu_aware, $int8, @under);
    my @pids = Mpi::pids($server);
    my $name = "gpu_aware_mpi = $gpu_aware" . (@under ? ', the MPI says yes' : '') . ", int8 = $int8";
    like $server->log, $way, $name;
    my @answers = $server->at_once(map { { prompt => $_->{prompt_ids}, max_tokens => $n, temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true } } @golden, @golden);
    is_deeply $answers[$_]{choices}[0]{token_ids}, [@{ $golden[$_ % @golden]{greedy_ids} }[0 .. $n - 1]], "  \"$golden[$_ % @golden]{prompt}\"" for 0 .. $#answers;
    is $server->metric('llmserve_handed_over_total'), 2 * @golden, '  all were handed over';
    cmp_ok $server->metric('llmserve_handed_bytes_total'), '>', 0, '  with bytes';
    Mpi::memory_is_back($server);
    Mpi::ends($server, @pids);
}

# ---- a death -------------------------------------------------------------------------------
# While blocks are on their way to two, one is killed: MPI keeps what it has of the dead one.
SKIP: {
    skip 'this mpirun ends all processes when one dies', 6 unless @RECOVER;
    my $server = serve(3, 'prefill, decode, decode', 'on', 'off');
    my @pids = Mpi::pids($server);
    my @ids = map { [@{ $_->{greedy_ids} }[0 .. $n - 1]] } @golden;
    my @sockets = map { my $s = $server->connect; my $g = $golden[$_ % @golden];
        syswrite $s, LlmServer::raw_post('/v1/completions', encode_json({ prompt => $g->{prompt_ids}, max_tokens => $n, temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true }), 'Connection: close');
        $s } 0 .. 23;
    sleep 0.05 until $server->metric('llmserve_taken_over_total') > 2;
    kill 'KILL', $pids[2];
    my ($whole, $lost, $odd) = Mpi::tally(\@sockets, \@ids, qr/instance_lost/);
    is $whole + $lost, 24, "killed while blocks are on their way: $whole are whole, $lost are lost";
    is $odd, 0, '  and nothing else';
    cmp_ok $whole, '>', 0, '  the other one goes on';
    my $again = $server->post('/v1/completions', { prompt => $golden[0]{prompt_ids}, max_tokens => $n, temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true });
    is_deeply $again->{json}{choices}[0]{token_ids}, $ids[0], '  with those that come after it';
    Mpi::memory_is_back($server);
    Mpi::ends($server, @pids);
}

done_testing;
