#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A model whose cache has latents (MLA): the answers are those that transformers gave, behind prefixes,
# through swaps, int8 blocks on the host, hand-overs, reloads and on ranks, and no form of cache is doubled.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use JSON::PP;
use Test::More;

# The model has no tokenizer: one of 64 letters, whose texts nobody reads.
my $model  = LlmServer::source('t/data/models/deepseek-v3');
my $folder = File::Temp->newdir;
symlink "$model/$_", "$folder/$_" or die $! for 'config.json', 'model.safetensors';
LlmServer::write_file("$folder/tokenizer.json", encode_json({
    added_tokens => [map { { id => $_, content => "<$_>", special => JSON::PP::true } } 0 .. 2],
    pre_tokenizer => { type => 'ByteLevel', add_prefix_space => JSON::PP::false }, decoder => { type => 'ByteLevel' },
    model => { type => 'BPE', vocab => { map { chr(33 + $_) => $_ } 3 .. 63 }, merges => [] } }));
my $prompts = decode_json(LlmServer::read_file("$model/reference.json"))->{prompts};
my @asked   = (temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true, max_tokens => 64);

sub settings {
    my ($memory, $cache, $more, $policies) = @_;
    return "[model]\npath = $folder\nweights = f32\n[engine]\nthreads = 1\npin = false\nmax_step_tokens = 32\nmax_sequences = 8\n"
        . ($more // '') . "[cache]\nelement = f32\ndevice_memory = $memory\nhost_memory = 1MiB\nblock_tokens = 8\n"
        . "[plugins]\ncache = $cache\n" . ($policies // '');
}

sub ids { return $_[0]{choices}[0]{token_ids} }
my @wanted = map { $_->{greedy} } @$prompts;

sub together {
    my ($server, %more) = @_;
    my @ids = map { $_->{ids} } @$prompts;
    my $all = $server->post('/v1/completions', { prompt => [(@ids) x 3], @asked, %more })->{json};
    return [map { [@{ $_->{token_ids} }[0 .. 63]] } @{ $all->{choices} }];
}

# Two layers of 16 + 8 numbers of four bytes are 192 bytes a token.
for my $cache ('paged', 'tiered', 'hybrid', 'bidirectional', 'contiguous') {
    my $server = LlmServer->serve(settings('1MiB', $cache));
    like $server->log, qr/cache: 0\.1875 KiB a token in 2 layers/, "$cache: a token is cached once for all heads";
    like $server->log, qr/hidden form saves nothing here/, '  a sentence on the hidden form' if $cache eq 'hybrid';
    is_deeply together($server), [(@wanted) x 3], "  the answers are those of transformers";
    my $again = $server->post('/v1/completions', { @asked, prompt => [@{ $prompts->[1]{ids} }, @{ $wanted[1] }[0 .. 19]] })->{json};
    is_deeply [@{ ids($again) }[0 .. 43]], [@{ $wanted[1] }[20 .. 63]], '  also behind a prefix';
    $server->stop;
}

for my $cache ('paged', 'tiered') {
    my $server = LlmServer->serve(settings('64KiB', $cache, '', "scheduler = fcfs\n[scheduler.fcfs]\npreempt = swap\n"));
    is_deeply together($server, max_tokens => 200), [(@wanted) x 3], "$cache: the same answers while sequences are swapped";
    cmp_ok $server->metric('llmserve_copied_bytes_total'), '>', 0, '  some were';
    $server->stop;
}

my $server = LlmServer->serve(settings('1MiB', 'paged', "roles = prefill, decode\n", "scheduler = distserve\n"));
is_deeply together($server), [(@wanted) x 3], 'the same answers on an instance that others hand sequences to';
cmp_ok $server->metric('llmserve_handed_over_total'), '>=', 4, '  all of them';
$server->stop;

$server = LlmServer->serve(settings('1MiB', 'paged', "tensor_parallel_size = 2\n"));
is_deeply together($server), [(@wanted) x 3], 'and on two ranks';
$server->stop;

$server = LlmServer->serve(settings('1MiB', 'paged'));
my $socket = $server->connect;
my $body   = encode_json({ prompt => $prompts->[1]{ids}, stream => JSON::PP::true, @asked });
syswrite $socket, LlmServer::raw_post('/v1/completions', $body, 'Connection: close');
my $text = LlmServer::read_until($socket, qr/(?:data: .*\n\n){10}/);
$server->configure(settings('1MiB', 'tiered', '', "scheduler = sarathi\n"));
is $server->post('/admin/reload', '')->{status}, 200, 'a reload in the middle of an answer';
$text .= LlmServer::read_all($socket);
is_deeply [map { @{ $_ // [] } } map { decode_json($_)->{choices}[0]{token_ids} } $text =~ /^data: (\{.*\})\r?$/gm], $wanted[1], '  which is the same';
$server->stop;

done_testing;
