#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A model with a sliding window in every layer: answers longer than the cache holds, where the
# cache manager frees the blocks that left the window.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use JSON::PP;
use Test::More;

# The stories' weights, read as a Mistral's with a window of 32 tokens.
my $stories = LlmServer::source('t/data/models/stories260K');
my $folder  = File::Temp->newdir;
symlink $_, "$folder/" . s{.*/}{}r or die $! for grep { !m{/config\.json$} } map { File::Spec->rel2abs($_) } glob "$stories/*";
my $config = decode_json(LlmServer::read_file("$stories/config.json"));
LlmServer::write_file("$folder/config.json", encode_json({
    %$config, architectures => ['MistralForCausalLM'], model_type => 'mistral', sliding_window => 32,
}));

sub serve {
    my ($memory, $cache) = @_;
    return LlmServer->serve("[model]\npath = $folder\n[engine]\nthreads = 1\npin = false\nmax_step_tokens = 32\n"
        . "max_sequences = 4\n[cache]\ndevice_memory = $memory\nblock_tokens = 8\n[plugins]\ncache = $cache\n");
}

sub ask {
    my ($server, @more) = @_;
    return $server->post('/v1/completions', { prompt => 'Once upon a time', max_tokens => 400, temperature => 0,
        ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true, @more });
}

# device_memory = auto is room for 4 sequences: of a window, a step and two blocks each, or of the context.
for (['paged', 80, 'a window of 32, a step of 32 and two blocks'], ['contiguous', 512, 'the context']) {
    my ($cache, $each, $why) = @$_;
    my $all    = 4 * $each;
    my $server = serve('auto', $cache);
    like $server->log, qr/cache for $all tokens .* cache size: 4 sequences of $each tokens: $why/, "$cache: the default size, and why";
    $server->stop;
}

my $large = serve('64MiB', 'paged');
my $ids   = ask($large)->{json}{choices}[0]{token_ids};
is scalar @$ids, 400, 'an answer with memory for all of it';
$large->stop;

for my $cache (qw(paged tiered)) {
    my $server = serve('128KiB', $cache);
    my ($tokens) = $server->log =~ /cache for (\d+) tokens/;
    cmp_ok $tokens, '<', 200, "$cache: a cache of $tokens tokens";
    like $server->log, qr/every layer has a window of at most 32 tokens: cache $cache gives back the blocks before it/, '  the log says what it does';
    is decode_json($server->get('/v1/models')->{content})->{data}[0]{max_model_len}, 512, '  the context is the model\'s';
    my $answer = ask($server)->{json};
    is_deeply $answer->{choices}[0]{token_ids}, $ids, '  the same answer';
    is $answer->{usage}{completion_tokens}, 400, '  and all of it';
    my $again = ask($server, prompt => [@{ $answer->{choices}[0]{prompt_token_ids} }, @{$ids}[0 .. 299]], max_tokens => 100)->{json};
    is_deeply $again->{choices}[0]{token_ids}, [@{$ids}[300 .. 399]], '  also behind a prompt that is longer than the cache';
    $server->stop;
}

my $server = serve('128KiB', 'contiguous');
like $server->log, qr/cache contiguous keeps the blocks before it all the same/, 'contiguous: the log says that it keeps them';
my $refused = ask($server);
is $refused->{status}, 400, '  and a request that needs more is refused';
$server->stop;

done_testing;
