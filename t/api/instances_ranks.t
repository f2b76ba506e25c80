#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Instances of two tensor-parallel ranks each, every rank a process: the answers equal those
# of one instance; blocks are sent from each rank to the one with the same part; killing
# either process of an instance ends this instance only.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Golden;
use Mpi;
use Streams;
use JSON::PP;
use Test::More;
use Time::HiRes qw(time sleep);

my $missing = Mpi::missing();
plan skip_all => $missing if defined $missing;

my @golden = @Golden::ANSWERS;
my @RECOVER = Mpi::recovery();

sub config {
    my ($roles, $plugins, $memory) = @_;
    $memory //= '512KiB';
    return "[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\nrank_timeout = ${LlmServer::TIMEOUT}s\nroles = $roles\n"
        . "tensor_parallel_size = 2\n[cache]\ndevice_memory = $memory\nhost_memory = 1MiB\n[plugins]\n$plugins";
}

sub start {
    my ($roles, $plugins, $memory) = @_;
    my $n = () = $roles =~ /(prefill|decode|mixed)/g;
    return LlmServer->serve(config($roles, $plugins, $memory), undef, Mpi::run(2 * $n, @RECOVER));
}

sub instances { my ($server) = @_; return @{ decode_json($server->get('/admin/status')->{content})->{instances} } }

sub answers_well {
    my ($server, $copies, $name) = @_;
    my @ids = Golden::all_at_once($server, $copies);
    is_deeply $ids[$_], [($golden[$_]{greedy_ids}) x $copies], "$name: \"$golden[$_]{prompt}\"" for 0 .. $#golden;
    return;
}

# Streams that are answered, when all have gone to who decodes.
sub begin_streams {
    my ($server, $n) = @_;
    my @sockets = map { $server->connect } 1 .. $n;
    syswrite $_, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":450,"ignore_eos":true,"stream":true}', 'Connection: close') for @sockets;
    my @begun = map { LlmServer::read_until($_, qr/(?:"text".*){9}/s) } @sockets;
    return (\@begun, @sockets);
}

# ---- the same answers ------------------------------------------------------------------
my ($sampled, @expected) = ({ prompt => $golden[0]{prompt}, max_tokens => 40, temperature => 1, seed => 5, return_token_ids => JSON::PP::true });
for my $case (['mixed, mixed', "scheduler = sarathi\n"], ['prefill, decode', "scheduler = distserve\n"], ['decode, prefill', "scheduler = distserve\n"],
              ['prefill, decode', "scheduler = aligned\ncache = tiered\n[scheduler.aligned]\nclass_frac = 0\nrmin = 4\noffers_frac = 0\n"]) {
    my ($roles, $plugins) = @$case;
    my ($scheduler) = $plugins =~ /scheduler = (\w+)/;
    my $server = start($roles, $plugins);
    like $server->log, qr/ranks: 2 share the model \(mpi\)/, "$scheduler ($roles): two ranks each";
    answers_well($server, 6, '  golden');
    push @expected, $server->post('/v1/completions', $sampled)->{json}{choices}[0]{token_ids};
    my @all = instances($server);
    cmp_ok $_->{steps}, '>', 0, "  each has worked ($_->{role})" for @all;
    if ($roles =~ /decode/) {
        my ($taker) = grep { $_->{role} eq 'decode' } @all;
        cmp_ok $taker->{taken_over}, '>=', 6 * @golden, '  requests were taken over';
        my $bytes = $server->metric('llmserve_handed_bytes_total');
        cmp_ok $bytes, '>', 0, '  with the bytes of both parts';
    }
    Mpi::memory_is_back($server);
    my @pids = Mpi::pids($server);
    is scalar @pids, 4, '  four processes';
    kill 'TERM', $pids[0];
    is $server->wait_for_end, 0, '  process 0 ends all when it ends';
    ok Mpi::all_gone(@pids), '  no process is left';
    unlike $server->log, qr/without calling "finalize"/, '  in order';
}
is_deeply $expected[$_], $expected[0], 'what is sampled is the same' for 1 .. $#expected;

# ---- clients that go away ----------------------------------------------------------------
# What is fetched for one that has gone is dropped by both ranks, and its blocks are another's.
{
    my $server = start('prefill, decode', "scheduler = distserve\n");
    my $streams = Streams->new($server, clients => 6, tokens => 60, prompts => [map { $_->{prompt_ids} } @golden]);
    $streams->learn;
    for my $round (LlmServer::rounds(8)) {
        my @gone = map { $server->connect } 1 .. 6;
        syswrite $_, LlmServer::raw_post('/v1/completions', encode_json({ prompt => 'Once' . ' upon a time' x (4 * $round), max_tokens => 200, stream => JSON::PP::true })) for @gone;
        my $until = $streams->{done} + $round % 3;
        $streams->run(sub { $streams->{done} > $until });
        close $_ for @gone;
    }
    $streams->finish;
    is_deeply $streams->{wrong}, [], 'beside clients that go away no answer differs, fails or stops';
    Mpi::memory_is_back($server);
    my @pids = Mpi::pids($server);
    kill 'TERM', $pids[0];
    is $server->wait_for_end, 0, '  it ends well';
    ok Mpi::all_gone(@pids), '  no process is left';
}

# ---- deaths ------------------------------------------------------------------------------
SKIP: {
    skip 'this mpirun ends all processes when one dies', 1 unless @RECOVER;
    for my $case ([2, qr/instance 1 \(decode\): process PID has died/, 'the first of'], [3, qr/instance 1 \(decode\): rank 1 \(process PID\) has died/, 'the other rank of']) {
        my ($victim, $why, $name) = @$case;
        my $server = start('prefill, decode, decode', "scheduler = distserve\n", '2MiB');
        my @pids = Mpi::pids($server);
        $why =~ s/PID/$pids[$victim]/;
        my ($begun, @sockets) = begin_streams($server, 6);
        kill 'KILL', $pids[$victim];
        my @answers = map { $begun->[$_] . LlmServer::read_all($sockets[$_]) } 0 .. $#sockets;
        unlike join('', @answers), qr/<timeout>/, "$name one that decodes is killed in the middle of answers: all end";
        my @whole = grep { /\[DONE\]/ && !/"error"/ } @answers;
        is @whole, @answers, '  whole: they go on elsewhere' or diag join "\n", @answers;
        ok Mpi::all_gone(@pids[2, 3]), '  no process of it is left';
        answers_well($server, 2, '  the service goes on');
        is $server->get('/health')->{status}, 200, '  and is well';
        like $server->log, qr/instances: $why/, '  the log says who died';
        Mpi::memory_is_back($server);
        kill 'KILL', $pids[7 - $victim];
        $server->wait_for_end;
        like $server->log, qr/the engine failed, stopping: no instance is left that decodes: instance 2/, '  the other one too: the service ends, with the reason';
        ok Mpi::all_gone(@pids), '  no process is left';
    }
}

# The front end's instance is its engine: without it there is no service.
SKIP: {
    skip 'this mpirun ends all processes when one dies', 1 unless @RECOVER;
    for my $victim (0, 1) {
        my $server = start('prefill, decode', "scheduler = distserve\n");
        my @pids = Mpi::pids($server);
        kill 'KILL', $pids[$victim];
        $server->wait_for_end;
        ok Mpi::all_gone(@pids), "rank $victim of instance 0 is killed: no process is left";
        like $server->log, $victim ? qr/the engine failed, stopping: rank 1 \(process $pids[1]\) has died/ : qr/rank 1 ends: rank 0 \(process $pids[0]\) has died/, '  with the reason';
    }
}

# At any moment, of a hand-over too.
SKIP: {
    skip 'this mpirun ends all processes when one dies', 1 unless @RECOVER;
    for my $round (LlmServer::rounds(6)) {
        my $victim = 2 + $round % 4;
        my $server = start($round % 2 ? 'prefill, decode, decode' : 'decode, prefill, decode', "scheduler = distserve\n", '2MiB');
        my @pids = Mpi::pids($server);
        my @sockets = map { $server->connect } 1 .. 18;
        syswrite $sockets[$_], LlmServer::raw_post('/v1/completions', encode_json(Golden::body($golden[$_ % @golden]{prompt_ids}, $golden[$_ % @golden])), 'Connection: close') for 0 .. $#sockets;
        sleep 0.04 * $round;
        if ($round > 3) {    # in the middle of answers
            my $until = time + 3;    # or all have ended already
            sleep 0.01 until (instances($server))[$victim / 2]{requests}{running} > 0 || time > $until;
        }
        kill 'KILL', $pids[$victim];
        my ($whole, $lost, $odd) = Mpi::tally(\@sockets, [map { $_->{greedy_ids} } @golden], qr/"code":"(?:instance_lost|engine_error)"|"message":"theengine/);
        is_deeply [$whole, $lost, $odd], [18, 0, 0], "a kill of process $victim at a moment of its own ($round): all answers are whole";
        kill 'TERM', $pids[0];
        $server->wait_for_end;
        ok Mpi::all_gone(@pids), '  it ends';
    }
}

# ---- starts that fail ---------------------------------------------------------------------
sub fails {
    my ($n, $why, $name, $change) = @_;
    my $folder = File::Temp->newdir;
    my $program = LlmServer::built('llmserve');
    LlmServer::write_file("$folder/llmserve.ini", "[server]\nlisten = 127.0.0.1:0\n" . config('prefill, decode', "scheduler = distserve\n"));
    LlmServer::write_file("$folder/run", "#!/bin/sh\nini='$folder/llmserve.ini'\nif [ \"\$OMPI_COMM_WORLD_RANK\" = 3 ]; then sed '" . ($change // '') . "' \"\$ini\" >'$folder/3.ini'; ini='$folder/3.ini'; fi\nexec '$program' -c \"\$ini\"\n");
    chmod 0755, "$folder/run";
    my @launcher = Mpi::run($n);
    my $log = qx(@launcher '$folder/run' 2>&1);
    isnt $?, 0, $name;
    my @said = $log =~ /($why)/g;
    is scalar @said, 1, '  with the reason, once' or diag $log;
    return;
}

fails(2, qr/\[engine\] roles: 2 instances of 2 ranks are asked for and 2 processes were started: start 4/, 'too few processes');
fails(3, qr/3 processes were started, which are no whole instances of 2 ranks/, 'half an instance');
fails(4, qr/process 3 has another configuration: \[engine\] roles, instances and tensor_parallel_size have to be the same/, 'a process with one rank', 's/^tensor_parallel_size.*//');
fails(4, qr/error   server: .*rank 1: no such model|error   server: .*without_weights/, 'a rank that finds no weights', 's,^path = .*,path = /nowhere/without_weights,');
done_testing;
