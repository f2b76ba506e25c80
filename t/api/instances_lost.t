#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Instances as processes, some of which die: a dead instance's requests continue elsewhere and
# are answered completely, once, as by a single process. A request that loses its second
# instance without a further token ends with an error. Nothing hangs, and the service continues.
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
    my ($roles, $memory) = @_;
    $memory //= '512KiB';
    my $config = "[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\nrank_timeout = ${LlmServer::TIMEOUT}s\n"
        . "roles = $roles\n[cache]\ndevice_memory = $memory\n[plugins]\nscheduler = " . ($roles =~ /mixed/ ? 'sarathi' : 'distserve') . "\n";
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

# ---- answers that had begun --------------------------------------------------------------
# Each kind of answer, as a stream and whole: greedy, sampled by a seed, with penalties, by a grammar
# (with tokens that are forced), several, with stop strings, min_tokens, logprobs, lists of tokens. All
# were being decoded when their process was killed, and are those of one process.
my %both = (max_tokens => 380, return_token_ids => JSON::PP::true, ignore_eos => JSON::PP::true);
my $pattern = '(once|upon|time|a|cat|sat|[,. ]){280,300}';
my @begun = (
    { %both, prompt => 'Once', temperature => 0 },
    { %both, prompt => 'Once', temperature => 0, logprobs => 2 },
    (map { { %both, prompt => $golden[0]{prompt}, temperature => 1, seed => $_, presence_penalty => 0.5, frequency_penalty => 0.2, repetition_penalty => 1.1 } } 1 .. 3),
    { %both, prompt => 'The cat', temperature => 0.8, seed => 5, n => 2, logit_bias => { 400 => 2 } },
    { %both, prompt => 'The cat', temperature => 1, seed => 6, ignore_eos => JSON::PP::false, min_tokens => 300, bad_words => ['little', 'named'] },
    (map { { %both, prompt => 'The dog', temperature => 1, seed => 7, mirostat => $_, mirostat_tau => 3, dry_multiplier => 0.8 } } 1, 2),
    { %both, prompt => 'A', temperature => 0, allowed_token_ids => [3 .. 440], stop => ['never said'] },
    { %both, prompt => 'Once', temperature => 1, seed => 9, ignore_eos => JSON::PP::false, guided_regex => $pattern },
    { %both, prompt => 'Once', temperature => 0, ignore_eos => JSON::PP::false, guided_json => '{"type":"object","additionalProperties":false,"properties":{"name_of_the_cat":{"type":"string","minLength":40,"maxLength":60},'
        . '"story":{"type":"string","minLength":80,"maxLength":100}},"required":["name_of_the_cat","story"]}' },
);

# The choices of an answer, whether it is whole or a stream.
sub choices {
    my ($answer) = @_;
    my %of;
    for my $json ($answer =~ /\A\s*\{/ ? $answer : $answer =~ /^data: (\{.*)$/gm) {
        my $part = decode_json($json);
        $of{error} = $part->{error}{message} if exists $part->{error};
        for my $choice (@{ $part->{choices} // [] }) {
            my $all = $of{ $choice->{index} } //= { text => '', ids => [], logprobs => [] };
            $all->{text} .= $choice->{text} // '';
            push @{ $all->{ids} },      @{ $choice->{token_ids} // [] };
            push @{ $all->{logprobs} }, @{ ($choice->{logprobs} // {})->{token_logprobs} // [] };
            $all->{finish} = $choice->{finish_reason} if defined $choice->{finish_reason};
        }
    }
    return \%of;
}

sub ask_begun {
    my ($server) = @_;
    return map {
        my $socket = $server->connect;
        my $body = { %{ $begun[ $_ % @begun ] }, stream => $_ < @begun ? JSON::PP::true : JSON::PP::false };
        syswrite $socket, LlmServer::raw_post('/v1/completions', encode_json($body), 'Connection: close');
        $socket;
    } 0 .. 2 * @begun - 1;
}

sub body_of {
    my ($answer) = @_;
    my ($head, $rest) = split /\r\n\r\n/, $answer, 2;
    return $rest // '' unless ($head // '') =~ /^transfer-encoding: chunked/im;
    my $body = '';
    while ($rest =~ s/\A([0-9a-f]+)\r\n//i && hex $1) {
        $body .= substr $rest, 0, hex $1;
        substr $rest, 0, hex($1) + 2, '';
    }
    return $body;
}

my $one = LlmServer->serve("[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 8MiB\n");
my @expected = map { choices(body_of(LlmServer::read_all($_))) } ask_begun($one);
is $one->stop, 0;
is_deeply [grep { exists $_->{error} } @expected], [], 'one process answers all kinds of requests';

my $had_begun = 0;
for my $case (['prefill, decode, decode', 1], ['decode, prefill, decode', 2], ['mixed, mixed', 1]) {
    my ($roles, $victim) = @$case;
    my $server  = serve($roles, '8MiB');
    my @pids    = Mpi::pids($server);
    my @sockets = ask_begun($server);
    my $until   = time + $LlmServer::TIMEOUT;
    my $running;
    sleep 0.005 until ($running = decode_json($server->get('/admin/status')->{content})->{instances}[$victim]{requests}{running}) > 2 || time > $until;
    kill 'KILL', $pids[$victim];
    $had_begun += $running;
    my @got = map { choices(body_of(LlmServer::read_all($sockets[$_]))) } 0 .. $#sockets;
    is_deeply \@got, \@expected, "$roles: $running answers had begun in the process that is killed: all are those of one process";
    ends_well($server, @pids);
}

cmp_ok $had_begun, '>', 0, 'some had begun';

# ---- at any moment -----------------------------------------------------------------------
for my $round (LlmServer::rounds(6)) {
    my $server = serve($round % 2 ? 'prefill, prefill, decode, decode' : 'decode, prefill, prefill');
    my @pids = Mpi::pids($server);
    my @sockets = ask($server, 24);
    sleep 0.015 * $round;
    kill 'KILL', $pids[1];
    my ($whole, $lost) = count(@sockets);
    is_deeply [$whole, $lost], [24, 0], "a prefill instance dies at a moment of its own ($round): all answers are whole";
    ends_well($server, @pids);
}
done_testing;
