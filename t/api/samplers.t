#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# llama.cpp's samplers in a server: each has an effect, the text depends on the seed alone (not on
# preemption, hand-over or company), and they work beside a grammar and log probabilities.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Golden;
use JSON::PP;
use List::Util qw(sum);
use Test::More;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);

sub config {
    my ($engine, $memory, $plugins) = @_;
    return "[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\n$engine"
        . "[cache]\ndevice_memory = $memory\nhost_memory = 1MiB\n[plugins]\n$plugins";
}

my %plain = (prompt => 'Once upon a time', max_tokens => 120, temperature => 1, seed => 3, ignore_eos => $true, return_token_ids => $true);
my @more  = (
    {},
    { mirostat       => 1,   mirostat_tau       => 2 },
    { mirostat       => 2,   mirostat_tau       => 2, mirostat_eta => 0.2 },
    { dry_multiplier => 2,   dry_allowed_length => 1 },
    { dry_multiplier => 2,   dry_allowed_length => 1, dry_sequence_breakers => ['a', 'e', 'st', 'hing '] },
    { dry_multiplier => 5,   dry_allowed_length => 1, dry_penalty_last_n => 50 },
    { xtc_probability => 0.5, xtc_threshold     => 0.05 },
    { dynatemp_range => 0.9, dynatemp_exponent  => 2 },
    { top_n_sigma    => 1 },
    { typical_p      => 0.5 },
    { samplers => ['top_k', 'temperature'], top_k => 3, top_p => 0.1 },
    { samplers => 'xt', xtc_probability => 1, xtc_threshold => 0.2 },
    { repetition_penalty => 1.5, repeat_last_n => 8 },
);

sub ids { return [map { $_->{choices}[0]{token_ids} } @_] }

my $one = LlmServer->serve(config('', '2MiB', "scheduler = fcfs\n"));
my $expected = ids(map { $one->post('/v1/completions', { %plain, %$_ })->{json} } @more);
my %texts = map { join(' ', @$_) => 1 } @$expected;
is scalar keys %texts, scalar @more, 'each sampler has an effect of its own'
    or diag explain [map { join ' ', @$_[0 .. 30] } @$expected];
is_deeply ids($one->at_once(map { { %plain, %$_ } } @more)), $expected, 'the same together';
for (['llama.cpp', '/completion', 'prompt'], ['a chat', '/v1/chat/completions', 'messages']) {
    my ($name, $path, $key) = @$_;
    my $ask = sub { $one->post($path, { $key => $key eq 'prompt' ? 'Once' : [{ role => 'user', content => 'Once' }], n_predict => 30, seed => 3, temperature => 1, @_ })->{content} };
    my ($with, $without) = map { $_ =~ /"content": ?"([^"]*)/ } $ask->(mirostat => 2, mirostat_tau => 0.1), $ask->();
    isnt $with, $without, "$name has them, too" if $path ne '/v1/chat/completions' || defined $with;
}

# Mirostat keeps to its surprise, as log probabilities of the draw show.
sub surprise { return -sum(map { $_ / log 2 } @{ $_[0]{choices}[0]{logprobs}{token_logprobs} }) / 120 }
for my $version (1, 2) {
    my $said = $one->post('/v1/completions', { %plain, mirostat => $version, mirostat_tau => 1.5, mirostat_eta => 0.3, logprobs => 0, post_sampling_probs => $true })->{json};
    cmp_ok abs(surprise($said) - 1.5), '<', 0.2, "mirostat $version: the mean surprise is tau";
}
my $top = $one->post('/v1/completions', { %plain, max_tokens => 30, top_k => 3, logprobs => 5, post_sampling_probs => $true })->{json}{choices}[0]{logprobs}{top_logprobs};
is_deeply [map { scalar keys %$_ } @$top], [(3) x 30], 'post_sampling_probs: the tokens that top_k leaves';
cmp_ok abs(sum(map { exp } values %{ $top->[0] }) - 1), '<', 1e-4, '  which have all of the probability';

# DRY: less of the greedy text is a repetition.
sub repeats {
    my @ids = @{ $_[0]{choices}[0]{token_ids} };
    my %seen;
    return scalar grep { $seen{ join ' ', @ids[$_ .. $_ + 3] }++ } 0 .. $#ids - 3;
}
my ($free, $dry) = map { repeats($one->post('/v1/completions', { %plain, temperature => 0, max_tokens => 300, dry_multiplier => $_ })->{json}) } 0, 3;
cmp_ok $dry, '<', $free / 2, "DRY: $dry repetitions for $free";

my $form = { %plain, guided_regex => '(once|upon|a|time|[,. ]){60,80}', ignore_eos => $false, xtc_probability => 0.5, dry_multiplier => 1, top_n_sigma => 2 };
like $one->post('/v1/completions', $form)->{json}{choices}[0]{text}, qr/\A(?:once|upon|a|time|[,. ]){60,80}\z/, 'beside a grammar';
for my $case ([mirostat => 3], [xtc_threshold => 2], [dry_base => 0.5], [dry_allowed_length => 0], [samplers => ['top_q']], [samplers => 'q'], [samplers => 3],
    [dry_sequence_breakers => ['x' x 41]], [dry_sequence_breakers => 'x'], [dynatemp_range => -1], [repeat_last_n => -2]) {
    is $one->post('/v1/completions', { %plain, @$case })->{json}{error}{param}, $case->[0], "$case->[0] that is out of range";
}
is $one->stop, 0;

# ---- preempted, handed over --------------------------------------------------------------
my $small = LlmServer->serve(config('', '160KiB', "scheduler = fcfs\n"));
is_deeply ids($small->at_once(map { { %plain, %$_ } } @more)), $expected, 'the same when requests are preempted';
cmp_ok $small->metric('vllm:num_preemptions_total{model_name="stories260K",engine="0"}'), '>', 0, '  as they were';
is $small->stop, 0;
my $roles = LlmServer->serve(config("roles = prefill, decode\n", '1MiB', "scheduler = distserve\n"));
is_deeply ids($roles->at_once(map { { %plain, %$_ } } @more)), $expected, 'the same when requests are handed over';
is $roles->metric('llmserve_handed_over_total'), scalar @more, '  as all were';
is $roles->stop, 0;
done_testing;
