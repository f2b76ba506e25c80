#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A model of which most layers attend within chunks of tokens: cache managers give back what is
# before a sequence's chunk, and prefixes that end anywhere, swaps, hand-overs and reloads leave
# the answers those of a server that computes each prompt as a whole.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use JSON::PP;
use Test::More;

my $chunk   = 20; # of llama-4, no multiple of a block
my $stories = LlmServer::source('t/data/models/stories260K'); # has a tokenizer, which llama-4 lacks
my $folder  = File::Temp->newdir;
symlink LlmServer::source("t/data/models/llama-4/$_"), "$folder/$_" or die $! for 'config.json', 'model.safetensors';
symlink "$stories/$_", "$folder/$_" or die $! for 'tokenizer.json', 'tokenizer_config.json';

sub serve {
    my ($plugins, $engine, $cache) = @_;
    return LlmServer->serve(settings($plugins, $engine, $cache));
}

sub settings {
    my ($plugins, $engine, $cache) = @_;
    return "[model]\npath = $folder\n[engine]\nthreads = 1\npin = false\nmax_step_tokens = 32\n" . ($engine // '')
        . "[cache]\nblock_tokens = 8\nhost_memory = 4MiB\n" . ($cache // '') . "[plugins]\n$plugins\n";
}

sub body { my ($ids, $n) = @_; return { prompt => $ids, max_tokens => $n, temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true } }

# The ids of an answer, and how many of the prompt's tokens were found in the cache.
sub ask {
    my ($server, $ids, $n) = @_;
    my $json = $server->post('/v1/completions', body($ids, $n))->{json};
    return ($json->{choices}[0]{token_ids}, $json->{usage}{prompt_tokens_details}{cached_tokens} // 0);
}

sub together {
    my ($server, @prompts) = @_;
    return [map { $_->{choices}[0]{token_ids} } $server->at_once(map { body($_, 100) } @prompts)];
}

my @prompts = map { my $seed = $_; [map { 3 + ($_ * $seed) % 59 } 1 .. 70] } 7, 11, 13, 17, 20, 31;
my @cuts    = map { [@{ $prompts[0] }[0 .. $_ - 1]] } 19, 20, 21, 24, 25, 39, 40, 41, 47, 60, 61, 64, 69;

my $plain = serve("cache = paged\n[cache.paged]\nprefix_sharing = off");
like $plain->log, qr/layers that keep a chunk of $chunk tokens/, 'layers with chunks are a group';
my @right = map { (ask($plain, $_, 100))[0] } @prompts;
my @short = map { (ask($plain, $_, 30))[0] } @cuts;
$plain->stop;

for my $cache ('paged', 'tiered') {
    my $server = serve("cache = $cache");
    is_deeply((ask($server, $prompts[0], 100))[0], $right[0], "$cache: the same answer");
    my ($again, $found) = ask($server, $prompts[0], 100);
    is $found, 64, '  the whole prompt is found';
    is_deeply $again, $right[0], '    and the answer is the same';
    my @got = map { [ask($server, $_, 30)] } @cuts;
    is_deeply [map { $_->[0] } @got], \@short, '  so are those behind prompts that end at, before and after a chunk';
    cmp_ok scalar(grep { $_->[1] > 0 } @got), '>', 5, '    of which parts are found';
    is $server->stop, 0, '  the server ends well';

    $server = serve("cache = $cache\nscheduler = mlfq\n[scheduler.mlfq]\npreempt = swap\nquantum = 1ms", '', "device_memory = 64KiB\n");
    my $swapped;    # requests that arrive one after the other leave nothing to swap: then again
    for (1 .. 20) {
        $swapped = together($server, @prompts);
        last if $server->metric('llmserve_copied_bytes_total') > 0;
    }
    is_deeply $swapped, \@right, '  the same answers while sequences are swapped';
    cmp_ok $server->metric('llmserve_copied_bytes_total'), '>', 0, '    which they were';
    $server->stop;

    $server = serve("cache = $cache\nscheduler = distserve", "roles = prefill, decode\n");
    is_deeply together($server, @prompts), \@right, '  and on an instance that others hand sequences to';
    cmp_ok $server->metric('llmserve_handed_over_total'), '>=', scalar @prompts, '    all of them';
    $server->stop;

    $server = serve("cache = $cache");
    my $socket = $server->connect;
    syswrite $socket, LlmServer::raw_post('/v1/completions', encode_json({ %{ body($prompts[2], 100) }, stream => JSON::PP::true }), 'Connection: close');
    my $text = LlmServer::read_until($socket, qr/(?:data: .*\n\n){5}/);
    $server->configure(settings("cache = " . ($cache eq 'paged' ? 'tiered' : 'paged') . "\nscheduler = sarathi"));
    is $server->post('/admin/reload', '')->{status}, 200, '  a reload to another manager in the middle of an answer';
    $text .= LlmServer::read_all($socket);
    is_deeply [map { @{ $_ // [] } } map { decode_json($_)->{choices}[0]{token_ids} } $text =~ /^data: (\{.*\})\r?$/gm], $right[2], '    the answer is the same';
    $server->stop;
}

done_testing;
