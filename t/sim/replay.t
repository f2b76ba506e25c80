#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The decision log of a real run ([server] decisions): llmserve-sim --replay gets the same
# plans from the same scheduler, and reports where another one diverges; the daemon's
# errors when the log cannot be written; files that are no logs.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../api";
use JSON::PP;
use LlmServer;
use Sim;
use Test::More;

my $model = LlmServer::source('t/data/models/stories260K');

sub ini {
    my ($log, $scheduler) = @_;
    return "decisions = $log\n[model]\npath = $model\n[engine]\nthreads = 1\npin = false\n"
        . "[cache]\ndevice_memory = 300KiB\n[plugins]\nscheduler = $scheduler\n";
}

# Requests that overlap, some of which share what comes first, and one whose client leaves.
sub load {
    my ($server) = @_;
    my @clients = map {
        my $body = JSON::PP->new->encode({
            prompt => 'Once upon a time there was a little dog who had a red ball. ' . 'x ' x (5 * $_),
            max_tokens => 20 + 7 * $_, ignore_eos => \1, stream => \1, temperature => 0 });
        my $socket = $server->connect;
        print $socket "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            . 'Content-Length: ' . length($body) . "\r\nConnection: close\r\n\r\n$body";
        $socket;
    } 1 .. 8;
    close shift @clients;
    LlmServer::read_all($_) for @clients;
    return;
}

sub replay { return run('llmserve-sim', '--model', $model, '--replay', @_) }

for my $scheduler (qw(fcfs sarathi)) {
    my $log    = "$folder/$scheduler.log";
    my $server = LlmServer->serve(ini($log, $scheduler));
    load($server);
    $server->configure(ini("$log.other", $scheduler));
    $server->signal('HUP');
    my $deadline = time + $LlmServer::TIMEOUT;
    select undef, undef, undef, 0.02 until $server->log =~ /needs a restart/ || time > $deadline;
    like $server->log, qr/\[server\] decisions: .* needs a restart/, "$scheduler: another log needs a restart";
    is $server->stop, 0, 'the server ends well';

    my $text = read_file($log);
    like $text, qr/\AH 2 $scheduler paged none cache\.block_tokens=16 .*\nA 1 /, 'the log has a head';
    is scalar(() = $text =~ /^A /mg), scalar(() = $text =~ /^E /mg), 'whoever arrives ends';
    my ($other) = grep { $_ ne $scheduler } qw(fcfs sarathi);
    my ($status, $out, $err) = replay($log, '--set', "plugins.scheduler=$scheduler");
    is $status, 0, 'it is replayed' or diag $err;
    like $out, qr/^Decisions: all \d{2,} plans are those of /, 'the same scheduler plans the same';
    ($status, $out, $err) = replay($log, '--set', "plugins.scheduler=$other", '--json', "$folder/replay.json");
    like $out, qr/plans are those of .*; \d\.\d{6} s after the first they part\n  there: .*\n  here:  /, "$other does not";
    ok decode_json(read_file("$folder/replay.json"))->{parted}, 'the same in JSON';
}

# A restart begins another, and keeps the one before.
{
    my $log = "$folder/again.log";
    for (1, 2) {
        my $server = LlmServer->serve(ini($log, 'fcfs'));
        load($server);
        is $server->stop, 0, "start $_";
    }
    for my $part ($log, "$log.1") {
        my ($status, $out, $err) = replay($part, '--set', 'plugins.scheduler=fcfs');
        like $out, qr/^Decisions: all \d{2,} plans are those of /, "$part is whole" or diag $err;
    }
}

# A simulated run's log is such a log.
{
    my @tiny = ('--model', "$source/t/data/models/llama", '--profile', profile('ten.ini'), '--set',
        'cache.device_memory=96KiB', 'engine.max_context=512', '--dataset-name', 'random', qw(--num-prompts 30
        --random-input-len 60 --random-output-len 20 --random-range-ratio 0.9 --request-rate 30));
    simulate(@tiny, '--record', "$folder/sim.log");
    my ($status, $out) = run('llmserve-sim', '--model', "$source/t/data/models/llama", '--replay', "$folder/sim.log");
    like $out, qr/^Decisions: all \d{2,} plans are those of /, 'of a simulated run';
}

# 100 prompts that share nothing, of 512 tokens: their hashes are alike in the low 9 bits here and there.
{
    my @model = ('--model', $model);
    simulate(@model, '--profile', profile('ten.ini'), '--record', "$folder/alike.log", '--set', 'cache.device_memory=4MiB',
        qw(--dataset-name random --num-prompts 100 --random-input-len 40 --random-output-len 5 --request-rate 1000));
    my ($status, $out) = run('llmserve-sim', @model, '--replay', "$folder/alike.log");
    like $out, qr/^Decisions: all \d{2,} plans are those of /, 'prompts that share nothing share nothing in a replay';
}

SKIP: {
    skip 'no /dev/full', 3 unless -w '/dev/full';
    my $server = LlmServer->serve(ini('/dev/full', 'fcfs'));
    my $answer = $server->post('/v1/completions', { prompt => 'Once', max_tokens => 4, temperature => 0 });
    my $deadline = time + $LlmServer::TIMEOUT;
    select undef, undef, undef, 0.02 until $server->log =~ /recording ends/ || time > $deadline;
    like $server->log, qr{/dev/full: No space left on device; recording ends here}, 'a full disk is told';
    is $server->post('/v1/completions', { prompt => 'Once', max_tokens => 4, temperature => 0 })->{content}
        =~ s/"(?:id|created)":[^,]*,//gr, $answer->{content} =~ s/"(?:id|created)":[^,]*,//gr, 'and serving goes on';
    is $server->stop, 0, 'to its end';
}

my $died = eval { LlmServer->serve(ini('/nowhere/x', 'fcfs')); 0 } // 1;
ok $died, 'a log that can not be made is refused at start';
like $@, qr{\[server\] decisions: '/nowhere/x' cannot be made, for there is no folder '/nowhere'}, 'with its key';

for my $bad (["P 1 2 r1:3\nnonsense\n", qr/bad\.log:2: expected a line of a decision log.*'nonsense'/],
    ["A 2 0 4 4 0 0 0 -1 -1 -1 -1\n", qr/request 2 comes after request 0/],
    ["A 1 0 0 4 0 0 0 -1 -1 -1 -1\n", qr/bad\.log:1: /], ["H 9 fcfs paged none\n", qr/bad\.log:1: /],
    ["= 5 5\n", qr/bad\.log:1: /],
    ["A 1 0 -1 4 0 0 0 -1 -1 -1 -1\n", qr/bad\.log:1: prompt tokens: expected a whole number from 1 to 16777216, found '-1'/],
    ["A 1 9223372036854775807 4 4 0 0 0 -1 -1 -1 -1\n", qr/bad\.log:1: time: expected/],
    ["A 1 0 4 4 0 0 0 -1 -1 -1\n", qr/bad\.log:1: completion: expected .* found ''/],
    ["A 1 0 4 4 7 0 0 -1 -1 -1 -1\n", qr/bad\.log:1: class: expected a whole number from 0 to 2, found '7'/],
    ["P 1 -2 r1:3\n", qr/bad\.log:1: duration: expected/], ["P 1152921504606846976 0 r1:3\n= 1 1\n", qr/bad\.log:2: time since/],
    ["E 1 3 99\n", qr/bad\.log:1: reason: expected/], ['', qr/is no decision log/]) {
    my ($status, $out, $err) = replay(write_file('bad.log', $bad->[0]));
    is $status, 2, 'bad log';
    like $err, $bad->[1], '  is told where';
}
done_testing;
