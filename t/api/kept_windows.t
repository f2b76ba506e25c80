#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# [cache] kept_prompts of models that mix layers with and without a window, or whose layers fold all
# tokens into a state: after the next start a prompt is found in all layers, and the answer is the same.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use JSON::PP;
use Test::More;

my $stories = LlmServer::source('t/data/models/stories260K'); # has a tokenizer, which these models lack
my @prompt  = map { 3 + $_ * 37 % 59 } 1 .. 100;
my $block   = 8;

sub start {
    my ($folder, $cache) = @_;
    return LlmServer->serve("state = $folder/state\n[model]\npath = $folder\n[engine]\nthreads = 1\npin = false\n"
          . "[cache]\ndevice_memory = 4MiB\nblock_tokens = $block\nkept_prompts = 16MiB\n[plugins]\ncache = $cache\n");
}

# The token ids after a prompt, and how many of the prompt's were in the cache.
sub ask {
    my ($server, @ids) = @_;
    my $json = $server->post('/v1/completions', {
        prompt => \@ids, max_tokens => 20, temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true,
    })->{json};
    return ($json->{choices}[0]{token_ids}, $json->{usage}{prompt_tokens_details}{cached_tokens});
}

for (['gemma3', 'paged'], ['gpt-oss', 'tiered'], ['lfm2', 'tiered'], ['qwen3.5-moe', 'paged']) {
    my ($model, $cache) = @$_;
    my $folder = File::Temp->newdir;
    symlink LlmServer::source("t/data/models/$model/$_"), "$folder/$_" or die $! for 'config.json', 'model.safetensors';
    symlink "$stories/$_", "$folder/$_" or die $! for 'tokenizer.json', 'tokenizer_config.json';
    mkdir "$folder/state" or die $!;
    my $server = start($folder, $cache);
    like $server->log, qr/layers that keep 16 tokens|a state of \S+ KiB/, "$model, $cache: some layers have a window or a state";
    my @lengths = (100, 70, 33); # the last two end within, and beyond, what the window of the first holds
    my %answer = map { $_ => (ask($server, @prompt[0 .. $_ - 1]))[0] } @lengths;
    is $server->stop, 0, '  the server ends well';
    $server = start($folder, $cache);
    like $server->log, qr/ (?:9[6-9]|1\d\d) tokens of kept prompts are taken from /, '  the next start says so';
    for my $n (@lengths) {
        my ($ids, $cached) = ask($server, @prompt[0 .. $n - 1]);
        cmp_ok $cached, '>=', $n - $block, "  of $n tokens $cached are found";
        is_deeply $ids, $answer{$n}, '    and the answer is the same';
    }
    is $server->stop, 0, '  the server ends well';
}
done_testing;
