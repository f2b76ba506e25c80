#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Prefixes that have left the device and are found on the host, with the CPU's engine and each kind
# of layers: all tokens, a window, chunks, a state. The same prompt gives the same tokens when its
# beginning comes back from there as when it was computed.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use JSON::PP;
use Test::More;

my $stories = LlmServer::source('t/data/models/stories260K'); # has a tokenizer, which these models lack
my @asked   = (temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true);

sub folder_of {
    my ($model) = @_;
    my $folder = File::Temp->newdir;
    symlink LlmServer::source("t/data/models/$model/$_"), "$folder/$_" or die $! for 'config.json', 'model.safetensors';
    symlink "$stories/$_", "$folder/$_" or die $! for 'tokenizer.json', 'tokenizer_config.json';
    return $folder;
}

sub prompt { my ($seed, $n) = @_; return [map { 3 + ($_ * $seed) % 59 } 1 .. $n] }

# The ids of an answer, and how many tokens of the prompt were found.
sub ask {
    my ($server, $prompt, $n) = @_;
    my $json = $server->post('/v1/completions', { prompt => $prompt, max_tokens => $n, @asked })->{json};
    return ($json->{choices}[0]{token_ids}, $json->{usage}{prompt_tokens_details}{cached_tokens} // 0);
}

sub events {
    my ($server, $name) = @_;
    return decode_json($server->get('/admin/status')->{content})->{instances}[0]{policies}{cache}{events}{$name} // 0;
}

# The device has room for a few of these prompts; the host has it for all.
for my $model (qw(llama qwen2-window llama-4 lfm2)) {
    my $folder = folder_of($model);
    my $server = LlmServer->serve("[model]\npath = $folder\n[engine]\nthreads = 1\npin = false\nmax_step_tokens = 32\n"
        . "max_sequences = 2\nmax_context = 96\n[cache]\ndevice_memory = 64KiB\nblock_tokens = 8\nhost_memory = 4MiB\n"
        . "[plugins]\ncache = tiered\nscheduler = fcfs\n");
    my ($right, $none) = ask($server, prompt(7, 76), 12);
    is $none, 0, "$model: a new prompt";
    ask($server, prompt($_, 76), 12) for 11 .. 24;
    my $before = events($server, 'blocks_from_host');
    my ($again, $found) = ask($server, prompt(7, 76), 12);
    cmp_ok $found, '>=', 8, '  is found again after others'; # its end may have left before a slow copy
    cmp_ok events($server, 'blocks_from_host'), '>', $before, '  on the host';
    is_deeply $again, $right, '  with the same answer';
    is $server->stop, 0, '  and the server ends well';
}

done_testing;
