#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A model of which some layers have a sliding window: they give back the blocks that left it, and
# prefixes, swaps, hand-overs and reloads have the blocks of both kinds of layers.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use JSON::PP;
use Test::More;

# The stories' weights, read as a SmolLM3's with a window of 32 tokens in four of five layers.
my $stories = LlmServer::source('t/data/models/stories260K');
my $folder  = File::Temp->newdir;
symlink $_, "$folder/" . s{.*/}{}r or die $! for grep { !m{/config\.json$} } map { File::Spec->rel2abs($_) } glob "$stories/*";
my $config = decode_json(LlmServer::read_file("$stories/config.json"));
my @kinds  = map { $_ == 2 ? 'full_attention' : 'sliding_attention' } 1 .. $config->{num_hidden_layers};
LlmServer::write_file("$folder/config.json", encode_json({
    %$config, architectures => ['SmolLM3ForCausalLM'], model_type => 'smollm3', sliding_window => 32,
    use_sliding_window => JSON::PP::true, layer_types => \@kinds, no_rope_layers => [map { 1 } @kinds],
}));

sub settings {
    my ($memory, $cache, $more, $policies) = @_;
    return "[model]\npath = $folder\n[engine]\nthreads = 1\npin = false\nmax_step_tokens = 32\nmax_sequences = 4\n"
        . ($more // '') . "[cache]\ndevice_memory = $memory\nhost_memory = 4MiB\nblock_tokens = 8\n"
        . "[plugins]\ncache = $cache\n" . ($policies // '');
}

my @asked = (temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true);

sub ask {
    my ($server, $prompt, $n) = @_;
    return $server->post('/v1/completions', { prompt => $prompt, max_tokens => $n, @asked })->{json};
}

sub ids { return $_[0]{choices}[0]{token_ids} }

# ---- all layers as one group -----------------------------------------------------------

my $one = LlmServer->serve(settings('64MiB', 'contiguous'));
like $one->log, qr/4 of 5 layers have a window .* cache contiguous frees no block .* paged, tiered and bidirectional free those/, 'contiguous keeps all layers as one group';
my $whole   = ask($one, 'Once upon a time', 400);
my $ids     = ids($whole);
my $prompt  = $whole->{choices}[0]{prompt_token_ids};
my @stories = map { ids(ask($one, $_, 120)) } qw(Tom Lily Ben Mia);
$one->stop;
is scalar @$ids, 400, 'an answer of 400 tokens';

# ---- groups ---------------------------------------------------------------------------

for my $cache ('paged', 'tiered', 'bidirectional') {
    my $server = LlmServer->serve(settings('192KiB', $cache));
    my ($all) = $server->log =~ m{cache: \S+ KiB a token in 1 layers, \S+ KiB a token in 4 layers that keep 32 tokens; \S+ MiB a sequence of 512 tokens, (\S+) MiB if every layer kept all};
    cmp_ok $all, '>', 192 / 1024, "$cache: a sequence of all tokens in all layers has more memory than the pool";
    is_deeply ids(ask($server, 'Once upon a time', 400)), $ids, '  the same answer in blocks that left the window';
    for my $n (20, 100, 299) { # within, at and beyond the window's first border
        my $again = ask($server, [@$prompt, @{$ids}[0 .. $n - 1]], 60);
        is_deeply ids($again), [@{$ids}[$n .. $n + 59]], "  and behind $n of its tokens";
    }
    $server->stop;
}

# Blocks that left a window stay known while there is memory, so prefixes end anywhere.
my $server = LlmServer->serve(settings('4MiB', 'paged'));
ask($server, 'Once upon a time', 400);
for my $n (20, 100, 299, 390) {
    my $again  = ask($server, [@$prompt, @{$ids}[0 .. $n - 1]], 10);
    my $cached = $again->{usage}{prompt_tokens_details}{cached_tokens};
    cmp_ok $cached, '>', $n + @$prompt - 10, "$cached tokens of a prefix of $n are found in all layers";
    is_deeply ids($again), [@{$ids}[$n .. $n + 9]], '  with the same answer behind it';
}
$server->stop;

# ---- swapped, handed over, reloaded ----------------------------------------------------

sub together {
    my ($server) = @_;
    return [map { ids($_) } $server->at_once(map { { prompt => $_, max_tokens => 120, @asked } } qw(Tom Lily Ben Mia))];
}

for my $cache ('paged', 'tiered', 'bidirectional') {
    my $server = LlmServer->serve(settings('192KiB', $cache, '', "scheduler = mlfq\n[scheduler.mlfq]\npreempt = swap\nquantum = 1ms\n"));
    is_deeply together($server), \@stories, "$cache: the same answers while sequences are swapped";
    my $copied = $server->metric('llmserve_copied_bytes_total');
    cmp_ok $copied, '>', 0, "  of which $copied bytes went to the host";
    $server->stop;
}

$server = LlmServer->serve(settings('512KiB', 'paged', "roles = prefill, decode\n", "scheduler = distserve\n"));
is_deeply together($server), \@stories, 'the same answers on an instance that others hand sequences to';
cmp_ok $server->metric('llmserve_handed_over_total'), '>=', 4, '  all of them';
is_deeply ids(ask($server, 'Once upon a time', 400)), $ids, '  also one that goes on far beyond its window';
$server->stop;

$server = LlmServer->serve(settings('512KiB', 'paged'));
my $socket = $server->connect;
my $body   = encode_json({ prompt => 'Once upon a time', max_tokens => 400, stream => JSON::PP::true, @asked });
syswrite $socket, LlmServer::raw_post('/v1/completions', $body, 'Connection: close');
my $text = LlmServer::read_until($socket, qr/(?:data: .*\n\n){40}/);
$server->configure(settings('512KiB', 'paged', '', "scheduler = sarathi\n"));
is $server->post('/admin/reload', '')->{status}, 200, 'a reload in the middle of an answer';
$server->configure(settings('512KiB', 'hybrid'));
my $refused = $server->post('/admin/reload', '');
is $refused->{status}, 409, '  and one to a manager of one group is refused';
like $refused->{json}{error}{message}, qr/cache manager hybrid keeps fewer groups of layers \(1\) than the 2 .* start it with hybrid/, '  with a sentence';
$text .= LlmServer::read_all($socket);
is_deeply [map { @{ $_ // [] } } map { decode_json($_)->{choices}[0]{token_ids} } $text =~ /^data: (\{.*\})\r?$/gm], $ids, '  the answer is the same';
$server->stop;

done_testing;
