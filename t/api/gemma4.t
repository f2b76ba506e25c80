#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Gemma 4, whose layers share keys and values, differ in the size of their heads, have windows, and
# inputs of their own or a mixture beside the MLP: answers are those that transformers gave, through
# swaps, hand-overs between instances, and reloads to another cache manager in the middle.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use JSON::PP;
use Test::More;

my $stories = LlmServer::source('t/data/models/stories260K'); # has a tokenizer, which these models lack
my @asked   = (temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true, max_tokens => 64);
my ($folder, $prompts, @wanted);

sub take {
    my ($model) = @_;
    $folder = File::Temp->newdir;
    symlink LlmServer::source("t/data/models/$model/$_"), "$folder/$_" or die $! for 'config.json', 'model.safetensors';
    symlink "$stories/$_", "$folder/$_" or die $! for 'tokenizer.json', 'tokenizer_config.json';
    $prompts = decode_json(LlmServer::read_file(LlmServer::source("t/data/models/$model/reference.json")))->{prompts};
    @wanted  = map { $_->{greedy} } @$prompts;
    return;
}

sub settings {
    my ($memory, $cache, $engine, $policies) = @_;
    return "[model]\npath = $folder\nweights = f32\n[engine]\nthreads = 1\npin = false\nmax_step_tokens = 32\nmax_sequences = 8\n"
        . ($engine // '') . "[cache]\nelement = f32\ndevice_memory = $memory\nhost_memory = 4MiB\nblock_tokens = 8\n"
        . "[plugins]\ncache = $cache\n" . ($policies // '');
}

# The answers to all prompts, asked four times each in one request, without tokens beyond those known.
sub together {
    my ($server, %more) = @_;
    my $all = $server->post('/v1/completions', { prompt => [(map { $_->{ids} } @$prompts) x 4], @asked, %more })->{json};
    return [map { [@{ $_->{token_ids} }[0 .. 63]] } @{ $all->{choices} }];
}

# The longest answers of which one sequence still fits into the smallest pool.
my %most = ('gemma-4-e4b' => 120, 'gemma-4-26b' => 200);
for my $model (sort keys %most) {
    take($model);
    for my $cache ('paged', 'tiered') {
        my $server = LlmServer->serve(settings('4MiB', $cache));
        is_deeply together($server), [(@wanted) x 4], "$model, $cache: the answers are those of transformers";
        my $again = $server->post('/v1/completions', { @asked, prompt => [@{ $prompts->[1]{ids} }, @{ $wanted[1] }[0 .. 19]] })->{json};
        is_deeply [@{ $again->{choices}[0]{token_ids} }[0 .. 43]], [@{ $wanted[1] }[20 .. 63]], '  also behind a prefix';
        cmp_ok $again->{usage}{prompt_tokens_details}{cached_tokens}, '>', 16, '    which was found';
        $server->stop;

        $server = LlmServer->serve(settings('64KiB', $cache, '', "scheduler = mlfq\n[scheduler.mlfq]\npreempt = swap\nquantum = 1ms\n"));
        is_deeply together($server, max_tokens => $most{$model}), [(@wanted) x 4], '  the same while sequences are swapped';
        cmp_ok $server->metric('llmserve_copied_bytes_total'), '>', 0, '    which they were';
        $server->stop;

        $server = LlmServer->serve(settings('4MiB', $cache, "roles = prefill, decode\n", "scheduler = distserve\n"));
        is_deeply together($server), [(@wanted) x 4], '  on an instance that others hand sequences to';
        cmp_ok $server->metric('llmserve_handed_over_total'), '>=', 8, '    all of them';
        is $server->stop, 0, '    the server ends well';
    }

    my $server = LlmServer->serve(settings('4MiB', 'paged'));
    my $socket = $server->connect;
    my $body   = encode_json({ prompt => $prompts->[1]{ids}, stream => JSON::PP::true, @asked });
    syswrite $socket, LlmServer::raw_post('/v1/completions', $body, 'Connection: close');
    my $text = LlmServer::read_until($socket, qr/(?:data: .*\n\n){5}/);
    for my $cache ('paged', 'tiered') {
        $server->configure(settings('4MiB', $cache, '', "scheduler = sarathi\n"));
        is $server->post('/admin/reload', '')->{status}, 200, "$model: a reload in the middle of an answer, to $cache";
    }
    $text .= LlmServer::read_all($socket);
    is_deeply [map { @{ $_ // [] } } map { decode_json($_)->{choices}[0]{token_ids} } $text =~ /^data: (\{.*\})\r?$/gm], $wanted[1], '  which is the same';
    is $server->stop, 0, '  the server ends well';
}
done_testing;
