#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Tensor-parallel ranks as MPI processes: the reference logits, the golden tokens over
# HTTP, and the effect of killing one process: an error for its clients, a message that
# names the rank, and no process left.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Golden;
use Mpi;
use Test::More;

my $missing = Mpi::missing();
plan skip_all => $missing if defined $missing;

# ---- logits ---------------------------------------------------------------------------
for my $n (2, 4) {
    my @command = (Mpi::run($n), LlmServer::built('t/unit/ranks_mpi'));
    my $out = qx(@command 2>&1);
    is $?, 0, "$n processes give the logits of one" or diag $out;
    note $out;
}

# ---- over HTTP ------------------------------------------------------------------------
my $ini = "[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\nrank_timeout = ${LlmServer::TIMEOUT}s\n[cache]\ndevice_memory = 1MiB\n";

sub rank_0 { my ($server) = @_; return $server->log =~ /this is rank 0, process (\d+)/ ? $1 : die $server->log }

{
    my $server = LlmServer->serve($ini, undef, Mpi::run(2));
    like $server->log, qr/ranks: 2 share the model \(mpi\)/, 'two processes, without a key that says so';
    my @ids = Golden::all_at_once($server, 2);
    is_deeply $ids[$_], [($Golden::ANSWERS[$_]{greedy_ids}) x 2], "  \"$Golden::ANSWERS[$_]{prompt}\"" for 0 .. $#Golden::ANSWERS;
    kill 'TERM', rank_0($server);
    is $server->wait_for_end, 0, '  rank 0 ends all when it ends';
}

# ---- adapters, which only rank 0 reads; a step of one sequence makes the other rank keep one of them
{
    my $made   = LlmServer::source('t/data/models/stories260K-lora');
    my @wanted = @{ JSON::PP::decode_json(LlmServer::read_file("$made/reference.json"))->{prompts} };
    my $lora   = "[model]\npath = @{[LlmServer::source('t/data/models/stories260K')]}\nweights = f32\n[cache]\nelement = f32\ndevice_memory = 1MiB\n"
        . "[engine]\nthreads = 1\npin = false\nmax_sequences = 1\nrank_timeout = ${LlmServer::TIMEOUT}s\n[lora]\nfirst = $made/first\nsecond = $made/second\n";
    my $server = LlmServer->serve($lora, undef, Mpi::run(2));
    for my $round (1, 2) {
        for my $i (0 .. 2) {
            my $answer = $server->post('/v1/completions', { model => (qw(stories260K first second))[$i], prompt => $wanted[$i]{ids},
                max_tokens => 64, temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true });
            is_deeply $answer->{json}{choices}[0]{token_ids}, $wanted[$i]{greedy}, "PEFT's tokens: prompt $i, round $round";
        }
    }
    kill 'TERM', rank_0($server);
    is $server->wait_for_end, 0, '  and an end';
}

# ---- deaths ---------------------------------------------------------------------------

for my $victim (1, 0) {
    my $server = LlmServer->serve($ini, undef, Mpi::run(2));
    my $first  = rank_0($server);
    my @pids   = Mpi::pids($server);
    my ($other) = grep { $_ != $first } @pids;
    my $socket = $server->connect;
    syswrite $socket, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":500,"ignore_eos":true,"stream":true}', 'Connection: close');
    my $begun = LlmServer::read_until($socket, qr/"text"/);
    kill 'KILL', $victim ? $other : $first;
    my $answer = $begun . LlmServer::read_all($socket);
    unlike $answer, qr/<timeout>/, "rank $victim is killed in the middle of an answer: it ends";
    like $answer, qr/"message":"the engine failed: rank 1 \(process $other\) has died"/, '  with an error' if $victim;
    isnt $server->wait_for_end, 0, '  the server fails';
    ok Mpi::all_gone(@pids), '  no process is left';
    my $sentence = $victim ? "the engine failed, stopping: rank 1 (process $other) has died" : "rank 1 ends: rank 0 (process $first) has died";
    like $server->log, qr/\Q$sentence\E/, '  the log says who died';
}

# Nobody asks for anything: it is noticed all the same.
{
    my $server = LlmServer->serve($ini, undef, Mpi::run(2));
    my $first  = rank_0($server);
    my @pids   = Mpi::pids($server);
    my ($other) = grep { $_ != $first } @pids;
    kill 'KILL', $other;
    isnt $server->wait_for_end, 0, 'rank 1 is killed while there is nothing to do: the server fails';
    ok Mpi::all_gone(@pids), '  no process is left';
    like $server->log, qr/rank 1 \(process $other\) has died/, '  the log says who died';
}

# ---- refusals -------------------------------------------------------------------------
{
    my $folder = File::Temp->newdir;
    (my $three = $ini) =~ s/threads = 1/threads = 1\ntensor_parallel_size = 4/;
    LlmServer::write_file("$folder/llmserve.ini", "[server]\nlisten = 127.0.0.1:0\n$three");
    my @command = (Mpi::run(2), LlmServer::built('llmserve'), '-c', "$folder/llmserve.ini");
    my $log = qx(@command 2>&1);
    isnt $?, 0, 'two processes where four ranks are asked for';
    like $log, qr/tensor_parallel_size: 4 ranks are asked for and 2 processes were started/, '  with the sentence';
}
done_testing;
