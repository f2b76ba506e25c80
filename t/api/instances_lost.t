#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Prefill instances that are processes and die, with others beside them: of what such a one had,
# whatever has sent no token yet begins anew elsewhere and is answered whole, once; the rest ends with
# an error, nothing hangs, and the service goes on.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Golden;
use Mpi;
use JSON::PP;
use Test::More;
use Time::HiRes qw(time sleep);

my $missing = Mpi::missing();
plan skip_all => $missing if defined $missing;
my @RECOVER = Mpi::recovery();
plan skip_all => 'this mpirun ends all processes when one dies' unless @RECOVER;

my @golden = @Golden::ANSWERS;

sub serve {
    my ($roles) = @_;
    my $config = "[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\nrank_timeout = ${LlmServer::TIMEOUT}s\n"
        . "roles = $roles\n[cache]\ndevice_memory = 512KiB\n[plugins]\nscheduler = distserve\n";
    return LlmServer->serve($config, undef, Mpi::run(scalar(split /,/, $roles), @RECOVER));
}

# So many requests at once, on connections of their own.
sub ask {
    my ($server, $n) = @_;
    return map {
        my $socket = $server->connect;
        my %body = %{ Golden::body($golden[$_ % @golden]{prompt_ids}, $golden[$_ % @golden]) };
        syswrite $socket, LlmServer::raw_post('/v1/completions', encode_json(\%body), 'Connection: close');
        $socket;
    } 0 .. $n - 1;
}

# How many answers are whole, and how many say that their instance is lost; others are shown.
sub count {
    my @sockets = @_;
    my ($whole, $lost) = (0, 0);
    for my $i (0 .. $#sockets) {
        my $answer = LlmServer::read_all($sockets[$i]) =~ s/\s//gr;
        my $ids = join ',', @{ $golden[$i % @golden]{greedy_ids} };
        if    ($answer =~ /"token_ids":\[\Q$ids\E\]/) { $whole++ }
        elsif ($answer =~ /"code":"instance_lost"/)   { $lost++ }
        else                                          { diag $answer }
    }
    return ($whole, $lost);
}

sub ends_well {
    my ($server, @pids) = @_;
    my @ids = Golden::all_at_once($server, 2);
    is_deeply $ids[$_], [($golden[$_]{greedy_ids}) x 2], '  the service goes on' for 0 .. $#golden;
    Mpi::memory_is_back($server);
    Mpi::ends($server, @pids);
    return;
}

# ---- one that has done nothing yet -------------------------------------------------------
# It is stopped before they come, so that half of them wait in it and none has a token.
for my $case (['prefill, prefill, decode', 1, 'process 0 takes over what it had'], ['decode, prefill, prefill', 2, 'another process takes over what it had']) {
    my ($roles, $victim, $name) = @$case;
    my $server = serve($roles);
    my @pids = Mpi::pids($server);
    kill 'STOP', $pids[$victim];
    my @sockets = ask($server, 8);
    my $deadline = time + $LlmServer::TIMEOUT;
    sleep 0.02 until $server->metric('llmserve_generations_live') >= 8 || time > $deadline;
    kill 'KILL', $pids[$victim];
    my ($whole, $lost) = count(@sockets);
    is_deeply [$whole, $lost], [8, 0], "a prefill instance dies with requests that wait in it: $name";
    ends_well($server, @pids);
}

# ---- twice -------------------------------------------------------------------------------
# What has begun anew once and meets a death again ends: it may be what they die of. Three
# have 8 each, then two 12, then one the 8 that had been there at first.
{
    my $server = serve('decode, prefill, prefill, prefill');
    my @pids = Mpi::pids($server);
    kill 'STOP', @pids[1 .. 3];
    my @sockets = ask($server, 24);
    my $deadline = time + $LlmServer::TIMEOUT;
    sleep 0.02 until $server->metric('llmserve_generations_live') >= 24 || time > $deadline;
    for my $victim (1, 2) {
        kill 'KILL', $pids[$victim];
        sleep 0.02 until $server->log =~ /process $pids[$victim] has died/ || time > $deadline;
    }
    kill 'CONT', $pids[3];
    my ($whole, $lost) = count(@sockets);
    is_deeply [$whole, $lost], [20, 4], 'two of three die: what had begun anew already is lost';
    ends_well($server, @pids);
}

# ---- at any moment -----------------------------------------------------------------------
for my $round (LlmServer::rounds(6)) {
    my $server = serve($round % 2 ? 'prefill, prefill, decode, decode' : 'decode, prefill, prefill');
    my @pids = Mpi::pids($server);
    my @sockets = ask($server, 24);
    sleep 0.015 * $round;
    kill 'KILL', $pids[1];
    my ($whole, $lost) = count(@sockets);
    is $whole + $lost, 24, "a prefill instance dies at a moment of its own ($round): $whole whole, $lost lost, none other";
    ends_well($server, @pids);
}
done_testing;
