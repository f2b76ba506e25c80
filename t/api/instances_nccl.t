#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Instances as processes, each with its own GPUs: blocks are sent from GPU to GPU by NCCL ([engine]
# blocks_by). The GPUs and NCCL, whose ranks are processes here, are t/simt's emulated ones. Also
# between groups of two ranks, which compute sums by NCCL, too, in bf16 and INT8. If NCCL is not
# available or breaks, or a process dies, blocks go through the host's memory and answers are the same.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Emulated;
use Mpi;
use Test::More;
use Time::HiRes qw(sleep time);

my $missing = Mpi::missing();
plan skip_all => $missing if defined $missing;
Emulated::install();

my @ids = Emulated::golden_ids();

sub serve {
    my (%o) = @_;
    my $n = () = $o{roles} =~ /(?:mixed|prefill|decode)/g;
    Emulated::new_mail($o{n_gpus} // $n * ($o{ranks} // 1));
    return Emulated::serve(blocks_by => 'nccl', %o);
}

# It is opened beside the first hand-overs, which go another way.
sub log_becomes {
    my ($server, $what, $name) = @_;
    my $deadline = time + $LlmServer::TIMEOUT;
    sleep 0.05 until $server->log =~ $what || time > $deadline;
    like $server->log, $what, $name;
    return;
}

my ($LINKED, $SAME_GPU) = (qr/from instance 0 to 1: blocks go there from GPU to GPU, by NCCL/, qr/from instance 0 to 1: blocks go there without NCCL: both have the same GPU, says the other process/);

# ---- the way -------------------------------------------------------------------------------
my @ways = (['auto', 'off'], ['nccl', 'all'], ['host', 'off']);
for my $case (LlmServer::sanitized() ? $ways[1] : @ways) {
    my ($blocks_by, $int8) = @$case;
    my $server = serve(roles => 'prefill, decode', blocks_by => $blocks_by, int8 => $int8);
    my @pids = Mpi::pids($server);
    my $name = "blocks_by = $blocks_by, int8 = $int8";
    Emulated::answers_well($server, @ids);
    log_becomes($server, $LINKED, $name) if $blocks_by ne 'host';
    my ($before, $mailed) = ($server->metric('llmserve_handed_bytes_total'), Emulated::mailed());
    Emulated::answers_well($server, @ids);
    my $bytes = $server->metric('llmserve_handed_bytes_total') - $before;
    cmp_ok $bytes, '>', 0, '  bytes were handed over';
    is Emulated::mailed() - $mailed, $blocks_by eq 'host' ? 0 : $bytes, '  ' . ($blocks_by eq 'host' ? 'none' : 'all') . ' of them by NCCL';
    Mpi::memory_is_back($server);
    Mpi::ends($server, @pids);
}

# ---- no way --------------------------------------------------------------------------------
unless (LlmServer::sanitized()) {
    my $server = serve(roles => 'prefill, decode', blocks_by => 'auto', gpus => '0, 0');
    my @pids = Mpi::pids($server);
    Emulated::answers_well($server, @ids);
    log_becomes($server, $SAME_GPU, 'one GPU for both');
    Emulated::answers_well($server, @ids);
    is Emulated::mailed(), 0, '  none goes by NCCL';
    Mpi::ends($server, @pids);
}

# ---- between groups ------------------------------------------------------------------------
# What two ranks add up in bf16 is rounded in another way than by one: what is expected is what a
# group answers that hands nothing over. INT8 blocks are made wide where they come, in bf16, which is
# rounded once more than where they stay: of these it is what comes by way of the host.
# Nor is a prefix that is shared as exact as one that is computed anew: none is.
my @groups = (['all', 'bf16', 'nccl', 1], ['off', 'bf16', 'nccl', 1], ['all', 'bf16', 'gpu_mpi', 0]);
for my $case (LlmServer::sanitized() ? () : @groups) {
    my ($int8, $element, $blocks_by, $linked) = @$case;
    my %kind = (ranks => 2, int8 => $int8, blocks_by => $blocks_by, weights => "weights = $element\n", cache => "element = $element\n[cache.tiered]\nprefix_sharing = off\n");
    my $alone = $int8 eq 'off' ? serve(%kind, roles => 'mixed') : serve(%kind, roles => 'prefill, decode', blocks_by => 'host');
    my @expected = (Emulated::answers($alone))[0 .. $#ids];
    Mpi::ends($alone, Mpi::pids($alone));
    my $server = serve(%kind, roles => 'prefill, decode');
    my @pids = Mpi::pids($server);
    is scalar @pids, 4, "two groups of two, $element, int8 = $int8, blocks_by = $blocks_by";
    Emulated::answers_well($server, @expected);
    log_becomes($server, $LINKED, '  the first ranks are linked') if $linked;
    my $mailed = Emulated::mailed();
    my $before = $server->metric('llmserve_handed_bytes_total');
    Emulated::answers_well($server, @expected);
    my $bytes = $server->metric('llmserve_handed_bytes_total') - $before;
    cmp_ok $bytes, '>', 0, '  bytes were handed over';
    cmp_ok $mailed = Emulated::mailed() - $mailed, $linked ? '>=' : '==', $linked ? $bytes / 2 : 0, "  by NCCL $mailed of $bytes (the other ranks' too, once theirs is open)";
    Mpi::memory_is_back($server);
    Mpi::ends($server, @pids);
}

# ---- it breaks -----------------------------------------------------------------------------
# At the end that sends (0) and at the one that receives, in the middle of hand-overs.
for my $end (LlmServer::sanitized() ? 1 : (0, 1)) {
    my $breaks = Emulated::before("breaks$end", "if [ \"\$OMPI_COMM_WORLD_RANK\" = $end ]; then export SIMT_NCCL_FAIL_AFTER=6; fi");
    my $server = serve(roles => 'prefill, decode', under => [$breaks]);
    my @pids = Mpi::pids($server);
    Emulated::answers_well($server, @ids);
    log_becomes($server, qr/to GPU, by NCCL/, "process $end finds NCCL broken");
    Emulated::answers_well($server, @ids) for 1 .. 2;
    log_becomes($server, qr/from instance 0 to 1: blocks go there without NCCL: NCCL: system error/, '  the log says so');
    cmp_ok Emulated::mailed(), '>', 0, '  after some went by it';
    Mpi::memory_is_back($server);
    Mpi::ends($server, @pids);
}

# ---- a death -------------------------------------------------------------------------------
SKIP: {
    skip 'this mpirun ends all processes when one dies', 12 unless Mpi::recovery();
    my @deaths = (['prefill, decode, decode', 2, 'receives'], ['decode, prefill, prefill', 1, 'sends']);
    for my $case (LlmServer::sanitized() ? $deaths[0] : @deaths) {
        my ($roles, $victim, $does) = @$case;
        my $server = serve(roles => $roles);
        my @pids = Mpi::pids($server);
        Emulated::answers_well($server, @ids);
        log_becomes($server, qr/to GPU, by NCCL.*to GPU, by NCCL/s, 'both are linked');
        my ($before, @sockets) = ($server->metric('llmserve_taken_over_total'), Emulated::begin($server, 24));
        sleep 0.01 until $server->metric('llmserve_taken_over_total') > $before + 2;
        kill 'KILL', $pids[$victim];
        my ($whole, $lost, $odd) = Mpi::tally(\@sockets, \@ids, qr/instance_lost/);
        is $whole + $lost, 24, "one that $does is killed while blocks are on their way: $whole are whole, $lost are lost";
        is $odd, 0, '  and nothing else';
        cmp_ok $whole, '>', 0, '  the other one goes on';
        Emulated::answers_well($server, @ids);
        Mpi::memory_is_back($server);
        Mpi::ends($server, @pids);
    }
}

done_testing;
